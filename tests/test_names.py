"""Odd names of files and folders, in what stage 1 and `make submission` say."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.builders import COLLECTION
from tests.interpreter import python
from tests.stages import LONGEST, REPOSITORY, command, environment
from tests.synthetic import write_collection

RAW = Path("npz/layout/xla/default")


@pytest.mark.parametrize("name", ["a\u2028b", "\udcff"])
def test_stage_1_refuses_what_no_submission_can_have(tmp_path, name):
    write_collection(tmp_path / "data", COLLECTION, train=1, valid=1, test=1)
    folder = tmp_path / "data" / RAW / "test"
    (folder / f"{name}.npz").write_bytes((folder / "test_0.v1.0.npz").read_bytes())
    done = run(command("01_preprocess.py", *folders(tmp_path), "--jobs", 1, "--keep-going"))
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {folder}: {name + '.npz'!a}: ".encode())
    assert done.stderr.endswith(b" in a graph's name; rename the file\n")
    assert done.stderr.count(b"\n") == 1
    assert not [path for path in (tmp_path / "outputs").rglob("*") if path.is_file()]


@pytest.mark.parametrize("flag", ["--data", "--outputs"])
@pytest.mark.parametrize("script", ["01_preprocess.py", "-m lib.scoring.merge"])
def test_a_folder_whose_name_is_not_utf8(tmp_path, flag, script):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/a\xff")
    Path(path).mkdir()
    collection = [] if "merge" in script else ["--collection", COLLECTION]
    done = run([str(python()), *script.split(), *collection, flag, path])
    expected = f"error: {path!a}: not UTF-8, as names must be; rename it\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", expected.encode())


def folders(root: Path) -> list[object]:
    return ["--data", root / "data", "--outputs", root / "outputs"]


def run(line: list[str]) -> subprocess.CompletedProcess:
    """A command, whose words and output need not be text."""
    words = [os.fsencode(word) for word in line]
    return subprocess.run(
        words, cwd=REPOSITORY, env=environment(), capture_output=True, timeout=LONGEST
    )
