"""Stage 1 sees which raw files its results are of: others, and those that change meanwhile."""

from __future__ import annotations

import os
import runpy
import shutil
from pathlib import Path

import numpy as np
import pytest

from lib.cache.reader import Cache
from lib.preprocess import collection
from tests.builders import COLLECTION
from tests.commands import Said, call
from tests.stages import REPOSITORY
from tests.synthetic import write_collection

FOLDER = Path("npz/layout/xla/default")


def stage(data: Path, outputs: Path) -> Said:
    """Run stage 1 in this process."""
    flags = ["--collection", COLLECTION, "--data", data, "--outputs", outputs, "--jobs", "1"]

    def main(words: list[str]) -> None:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("sys.argv", ["01_preprocess.py", *words])
            patched.setenv("WANDB_MODE", "disabled")
            runpy.run_path(str(REPOSITORY / "01_preprocess.py"), run_name="__main__")

    return call(main, *flags)


def relabel(path: Path, runtimes: np.ndarray) -> None:
    """Write a raw file of runtimes; its size and time are those of any other runtimes."""
    with np.load(path) as file:
        arrays = {key: file[key] for key in file}
    np.savez(path, **arrays | {"config_runtime": runtimes})
    os.utime(path, (10**9, 10**9))


@pytest.mark.parametrize("how", ["another root", "in place"])
def test_files_of_equal_size_and_time_are_not_taken_for_the_same(tmp_path, how):
    first, second, outputs = (tmp_path / name for name in ("v1", "v2", "outputs"))
    roots = [first, second if how == "another root" else first]
    for root in set(roots):
        write_collection(root, COLLECTION, train=2, valid=1, test=1)
    found = []
    for root, step in zip(roots, (1, -1), strict=True):
        path = sorted((root / FOLDER / "train").glob("*.npz"))[0]
        with np.load(path) as file:
            count = len(file["config_runtime"])
        relabel(path, np.arange(1, count + 1)[::step])
        done = stage(root, outputs)
        assert (done.returncode, done.stderr) == (0, "") and "up to date" not in done.stdout
        found.append(Cache(outputs / COLLECTION / "cache").graph(path.stem).source_runtimes)
        assert "up to date" in stage(root, outputs).stdout
    assert found[0].tolist() != found[1].tolist()


@pytest.mark.parametrize("what", ["changes", "goes", "comes"])
def test_a_file_that_changes_while_stage_1_runs_is_an_error(tmp_path, monkeypatch, what):
    write_collection(tmp_path / "data", COLLECTION, train=2, valid=1, test=1)
    path = sorted((tmp_path / "data" / FOLDER / "train").glob("*.npz"))[0]
    read = collection.fingerprint_files

    def meanwhile(*arguments):
        if what == "changes":
            path.write_bytes(path.read_bytes())
        elif what == "goes":
            path.unlink(missing_ok=True)
        else:
            shutil.copy(path, path.with_name("new.npz"))
        return read(*arguments)

    monkeypatch.setattr(collection, "fingerprint_files", meanwhile)
    done = stage(tmp_path / "data", tmp_path / "outputs")
    named = path.with_name("new.npz") if what == "comes" else path
    assert done.returncode == 2
    if what != "goes":  # or it cannot be read
        assert done.stderr == f"error: {named}: changed while stage 1 ran; run it again\n"
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert not (tmp_path / "outputs" / COLLECTION / "cache").exists()
