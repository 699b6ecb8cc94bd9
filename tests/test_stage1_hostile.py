"""Stage 1 on bad files: one line that names the file, or all of them skipped and named."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from lib.cache.reader import Cache
from tests.builders import COLLECTION
from tests.stages import LONGEST, REPOSITORY, command, environment
from tests.synthetic import write_collection
from tests.tpugraphs.builders import header, members, rezip

TRAIN = Path("data/npz/layout/xla/default/train")


def stage(folder: Path, *flags: object) -> tuple[int, str, str]:
    """Run stage 1; return its exit code and what it said."""
    flags = "--data", folder / "data", "--outputs", folder / "outputs", *flags
    done = subprocess.run(
        command("01_preprocess.py", *flags),
        cwd=REPOSITORY,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LONGEST,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def root(tmp_path):
    """Four good graphs, a file that is no archive, and a graph without configurations."""
    write_collection(tmp_path / "data", COLLECTION, train=2, valid=1, test=1)
    train = tmp_path / TRAIN
    parts = members(next(train.glob("*.npz")))
    nodes = np.lib.format.read_array(io.BytesIO(parts["node_config_ids"])).size
    nothing = {"node_config_feat": header((0, nodes, 18)), "config_runtime": header((0,), "<i8")}
    rezip(train / "empty.npz", parts | nothing)
    (train / "victim.npz").write_bytes(b"no zip")
    return tmp_path


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_bad_file_ends_the_stage_or_is_skipped_and_named(root, jobs):
    train, cache = root / TRAIN, root / "outputs" / COLLECTION / "cache"
    code, out, err = stage(root, "--jobs", jobs)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {train}/empty.npz: node_config_feat: found no configurations")
    assert not cache.exists()
    code, out, err = stage(root, "--jobs", jobs, "--keep-going")
    assert code == 0
    assert [line.split(": ")[:3] for line in err.splitlines()] == [
        ["skipped", f"{train}/empty.npz", "node_config_feat"],
        ["skipped", f"{train}/victim.npz", "file"],
    ]
    assert out.splitlines()[-1].endswith(f"4 graphs in {cache}/, 2 bad files skipped")
    assert len(Cache(cache).table) == 4
    assert json.loads((cache / "manifest.json").read_text())["skipped"][0] == {
        "split": "train",
        "file": "empty.npz",
        "why": "node_config_feat: found no configurations, expected at least one",
    }


def test_nothing_but_bad_files(root):
    for path in (root / "data").rglob("*.npz"):
        path.write_bytes(b"no zip")
    code, out, err = stage(root, "--jobs", 1, "--keep-going")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {root / TRAIN}/empty.npz: file: found ")


def test_no_workers(root):
    assert stage(root, "--jobs", 0) == (2, "", "error: --jobs 0: at least 1\n")
