"""Odd names of files and folders through the real stages, and through `make submission`."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from lib.scoring.merge import main as merge_main
from lib.scoring.submission import read_entries
from lib.tpugraphs.npz import write_layout
from tests.builders import COLLECTION, TGRAPH
from tests.commands import call
from tests.interpreter import python
from tests.stages import LONGEST, REPOSITORY, TINY_FLAGS, command, environment
from tests.synthetic import layout_graph, write_collection
from tests.tpugraphs.test_names import GOOD

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


def test_good_names_go_all_the_way(tmp_path, monkeypatch):
    data = tmp_path / "données ü" / "a b"
    write_collection(data, COLLECTION, train=3, valid=1, test=0)
    for seed, name in enumerate(GOOD):
        graph = layout_graph(name, seed, nodes=8, configurable=2, configurations=3)
        graph.config_runtime[:] = 0
        write_layout(data / RAW / "test" / f"{name}.npz", graph)
    monkeypatch.setenv("WANDB_MODE", "disabled")
    outputs = tmp_path / "sorties é"
    given = ["--data", str(data), "--outputs", str(outputs)]
    for line in (
        "01_preprocess.py --jobs 1",
        "02_train.py --epochs 1 --fold 0",
        "03_infer.py --epochs 1 --fold 0",
        "04_ensemble.py --epochs 1 --folds 1",
    ):
        script, *flags = line.split()
        words = [script, "--collection", COLLECTION, *given, *TINY_FLAGS, *flags]
        monkeypatch.setattr(sys, "argv", words)
        runpy.run_path(str(REPOSITORY / script), run_name="__main__")
    said = call(merge_main, *given, "--model", "tgraph", "--partial")
    assert said.returncode == 0, said.stderr
    expected = sorted(f"layout:xla:default:{name}" for name in GOOD)
    for path in (outputs / TGRAPH / "submission.csv", outputs / "submission@tgraph.csv"):
        assert list(read_entries(path)) == expected


def folders(root: Path) -> list[object]:
    return ["--data", root / "data", "--outputs", root / "outputs"]


def run(line: list[str]) -> subprocess.CompletedProcess:
    """A command, whose words and output need not be text."""
    words = [os.fsencode(word) for word in line]
    return subprocess.run(
        words, cwd=REPOSITORY, env=environment(), capture_output=True, timeout=LONGEST
    )
