"""``python -m lib.collect.xla`` end to end, killed and resumed; skipped without JAX."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from lib.collect.xla.export import export

jax = pytest.importorskip("jax", reason="needs JAX, see lib/collect/xla/requirements.txt")

ROOT = Path(__file__).parents[3]
BUNDLED = "unrolled_rnn.w256_d1_b16_l8.forward"
# What would change what is measured, or end it.
FOREIGN = {"JAX_ENABLE_X64": "1", "XLA_FLAGS": "--xla_no_such_flag"}


def own_program(folder: Path) -> Path:
    """A module of one's own."""
    ones = jax.numpy.ones((64, 64)), jax.numpy.ones((64, 32))
    lowered = jax.jit(lambda x, y: (x @ y).T.reshape(16, 128)).lower(*ones)
    path = folder / "mine.hlo.pb"
    path.write_bytes(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
    return path


def collect(tmp_path: Path, *more: str) -> subprocess.Popen:
    core = str(min(os.sched_getaffinity(0)))
    small = ["--random", "4", "--genetic", "4", "--rounds", "4", "--round-seconds", "0.005"]
    named = ["--programs", f"{own_program(tmp_path)},{BUNDLED}", "--cores", core]
    command = [sys.executable, "-m", "lib.collect.xla", "--output", str(tmp_path / "collect")]
    return subprocess.Popen(
        [*command, *named, *small, *more],
        cwd=ROOT,
        env=os.environ | FOREIGN,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def done(tmp_path: Path, *more: str) -> tuple[int, str, str]:
    """The exit code, output and errors of a collection."""
    running = collect(tmp_path, *more)
    output, errors = running.communicate()
    return running.returncode, output, errors


def files(folder: Path) -> dict[str, int]:
    """Every file, hidden ones too, and when it was last written."""
    return {p.name: p.stat().st_mtime_ns for p in folder.glob("[xn]l[ap]/*") if p.is_file()}


def test_killed_and_resumed(tmp_path):
    output = tmp_path / "collect"
    running = collect(tmp_path)
    deadline = time.monotonic() + 300
    while not [n for n in files(output) if not n.startswith(".")] and running.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert running.poll() is None, running.stderr.read()
    time.sleep(1.0)  # well inside the second program
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    before = files(output)
    assert [name for name in before if not name.startswith(".")] == ["mine.npz"]
    (output / "nlp").mkdir(exist_ok=True)
    (output / "nlp" / f".partial-0123456789ab-{BUNDLED}.npz").write_bytes(b"half a file")

    code, _, errors = done(tmp_path)
    assert code == 2 and "--resume" in errors

    code, said, errors = done(tmp_path, "--resume")
    assert (code, said.strip()) == (0, f"collect: 2 of 2 programs measured in {output}/"), errors
    assert "cleared JAX_ENABLE_X64='1', XLA_FLAGS='--xla_no_such_flag'" in errors
    after = files(output)
    assert sorted(after) == ["mine.npz", f"{BUNDLED}.npz"]
    assert after["mine.npz"] == before["mine.npz"]  # not measured again
    _, programs = export(output, tmp_path / "data")
    assert set(programs["graph"]) == {"mine", BUNDLED}
    assert programs["configurations"].to_list() == [4, 4, 4, 4]
    with np.load(output / "nlp" / f"{BUNDLED}.npz") as file:
        assert (file["configuration"][0] == -1).all()
        assert (file["rounds"] > 0).all() and file["rounds"].shape == (8, 4)

    code, _, errors = done(tmp_path, "--resume", "--rounds", "6")
    assert code == 2 and "mine.npz: has 4 rounds, not 6; delete it" in errors


def test_programs_are_timed_by_their_kernels(tmp_path):
    one = ("--programs", BUNDLED, "--resume")
    code, _, errors = done(tmp_path, *one, "--timed-by", "kernels")
    assert code == 0, errors
    with np.load(tmp_path / "collect" / "nlp" / f"{BUNDLED}.npz") as file:
        rounds, hashes = file["rounds"], file["optimized_hash"].tolist()
    assert rounds.shape == (8, 4) and (rounds > 1e4).all(), "nanoseconds of whole programs"
    alike = [rounds[[own == one for own in hashes]] for one in set(hashes)]
    assert any(len(group) > 1 for group in alike), "the program itself, of both searches"
    assert all((group == group[0]).all() for group in alike)
    _, programs = export(tmp_path / "collect", tmp_path / "data")
    assert programs["timed_by"].unique().to_list() == ["kernels"]


def test_a_program_that_computes_nothing_finite_is_a_failure_in_one_line(tmp_path):
    lowered = jax.jit(lambda x, y: x @ y / 0 - x @ y / 0).lower(*[jax.numpy.ones((8, 8))] * 2)
    path = tmp_path / "nan.pb"
    path.write_bytes(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
    code, said, _ = done(tmp_path, "--programs", str(path))
    assert code == 1 and "failed: nan: random inputs give an output without a finite" in said
