"""``python -m lib.collect.xla`` end to end, killed and resumed; skipped without JAX."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lib.collect.xla.export import export

pytest.importorskip("jax", reason="needs JAX, see lib/collect/xla/requirements.txt")
pytest.importorskip("flax", reason="needs flax, see lib/collect/xla/requirements.txt")

ROOT = Path(__file__).parents[3]
FIRST = "embedding_classifier.w128_d4_b256_l32.forward"
SECOND = "unrolled_rnn.w256_d1_b16_l8.forward"


def command(output: Path, *more: str) -> list[str]:
    core = str(min(os.sched_getaffinity(0)))
    small = ["--random", "4", "--genetic", "4", "--rounds", "4", "--round-seconds", "0.005"]
    chosen = ["--programs", f"{FIRST},{SECOND}", "--output", str(output), "--cores", core]
    return [sys.executable, "-m", "lib.collect.xla", *chosen, *small, *more]


def files(folder: Path) -> dict[str, int]:
    """Every file, hidden ones too, and when it was last written; not what was compiled."""
    return {p.name: p.stat().st_mtime_ns for p in folder.glob("nlp/*") if p.is_file()}


def test_killed_and_resumed(tmp_path):
    output = tmp_path / "collect"
    running = subprocess.Popen(command(output), cwd=ROOT, start_new_session=True)
    deadline = time.monotonic() + 300
    while not [n for n in files(output) if not n.startswith(".")] and running.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert running.poll() is None
    time.sleep(1.0)  # well inside the second program
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    before = files(output)
    (done,) = [name for name in before if not name.startswith(".")]
    left = next(name for name in (FIRST, SECOND) if not done.startswith(name))
    (output / "nlp" / f".partial-0123456789ab-{left}.npz").write_bytes(b"half a file")

    refused = subprocess.run(command(output), cwd=ROOT, capture_output=True, text=True)
    assert refused.returncode == 2
    assert "--resume" in refused.stderr

    resumed = subprocess.run(command(output, "--resume"), cwd=ROOT, capture_output=True, text=True)
    assert resumed.returncode == 0, resumed.stderr
    after = files(output)
    assert sorted(after) == sorted(f"{name}.npz" for name in (FIRST, SECOND))
    assert after[done] == before[done]  # not measured again
    check_dataset(output, tmp_path / "data")

    compiled = len(list((output / ".compiled").iterdir()))
    more = subprocess.run(
        command(output, "--resume", "--rounds", "6"), cwd=ROOT, capture_output=True, text=True
    )
    assert more.returncode == 0, more.stderr
    assert len(list((output / ".compiled").iterdir())) == compiled  # all of it was in the cache
    check_more_rounds(output, tmp_path / "data")


def check_dataset(output: Path, data: Path) -> None:
    """The raw files become a dataset."""
    export(output, data)
    programs = pl.read_parquet(data / "programs.parquet")
    assert sorted(programs["graph"].unique()) == sorted([FIRST, SECOND])
    assert programs["configurations"].to_list() == [4, 4, 4, 4]
    with np.load(output / "nlp" / f"{SECOND}.npz") as file:
        assert (file["configuration"][0] == -1).all()
        assert (file["rounds"] > 0).all()
        assert file["rounds"].shape == (8, 4)


def check_more_rounds(output: Path, data: Path) -> None:
    """The same configurations and rounds as before, and two more of each."""
    before = pl.read_parquet(data / "measurements.parquet")
    measurements, _ = export(output, data)
    assert measurements.drop("rounds", "runtime").equals(before.drop("rounds", "runtime"))
    assert measurements["rounds"].list.len().to_list() == [6] * len(before)
    assert measurements["rounds"].list.head(4).to_list() == before["rounds"].to_list()


def test_programs_of_another_size_are_left_out_and_not_tried_again(tmp_path):
    output = tmp_path / "collect"
    for _ in range(2):
        done = subprocess.run(
            command(output, "--least-ms", "500", "--resume"),
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert "0 of 2 programs measured" in done.stdout and "2 left out" in done.stdout
        said = (output / "nlp" / f"{SECOND}.unfit").read_text()
        assert "a run takes" in said and said.endswith("ms, not 500 to 1e+09\n")
        before = files(output)
    assert len(before) == 2 and files(output) == before
    (output / "nlp" / f"{FIRST}.unfit").unlink()
    again = command(output, "--compile-seconds", "1e-9", "--resume", "--programs", FIRST)
    subprocess.run(again, cwd=ROOT, check=True)
    assert "a configuration compiles in" in (output / "nlp" / f"{FIRST}.unfit").read_text()


def test_programs_that_layouts_hardly_change_are_left_out(tmp_path):
    output = tmp_path / "collect"
    subprocess.run(command(output, "--least-spread", "1e9"), cwd=ROOT, check=True)
    said = (output / "nlp" / f"{FIRST}.unfit").read_text()
    assert said.startswith("layouts change the runtime by ")
    assert said.endswith(", not by 1e+09 or more\n")


def test_programs_are_timed_by_their_kernels(tmp_path):
    output, by_kernels = tmp_path / "collect", ("--timed-by", "kernels")
    one = [*command(output, "--programs", SECOND, "--resume")]
    done = subprocess.run([*one, *by_kernels], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with np.load(output / "nlp" / f"{SECOND}.npz") as file:
        rounds, hashes = file["rounds"], file["optimized_hash"].tolist()
    assert rounds.shape == (8, 4) and (rounds > 1e4).all(), "nanoseconds of whole programs"
    alike = [rounds[[own == one for own in hashes]] for one in set(hashes)]
    assert any(len(group) > 1 for group in alike), "the program itself, of both searches"
    assert all((group == group[0]).all() for group in alike)
    _, programs = export(output, tmp_path / "data")
    assert programs["timed_by"].unique().to_list() == ["kernels"]
    mixed = [*one, "--rounds", "6"]
    refused = subprocess.run(mixed, cwd=ROOT, capture_output=True, text=True)
    assert refused.returncode != 0 and "timed_by was 'kernels'" in refused.stdout
