"""Modules with layouts set, compiled and timed, where JAX is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs JAX, see lib/collect/xla/requirements.txt")

import jax
import jax.numpy as jnp

from lib.collect.xla.bench import Module
from lib.collect.xla.timed import ROUNDS
from lib.tpugraphs.constrain import constrained
from lib.tpugraphs.schema_pb2 import HloModuleProto

REPOSITORY = Path(__file__).parents[3]


def module(function, *arguments, **of_jit) -> HloModuleProto:
    lowered = jax.jit(function, **of_jit).lower(*arguments).compiler_ir("hlo")
    return HloModuleProto.FromString(lowered.as_serialized_hlo_module_proto())


def under(made: HloModuleProto, output: tuple[int, ...]) -> bytes:
    """The module with a layout of its dot's output."""
    opcodes = [one.opcode for part in made.computations for one in part.instructions]
    digits = np.full((1, 18), -1)
    digits[0, : len(output)] = output
    site = np.array([opcodes.index("dot")])
    return constrained(Path("a.pb"), made, site, digits).SerializeToString()


def test_a_layout_that_is_set_is_in_the_compiled_program():
    ones = jnp.ones((32, 64)), jnp.ones((64, 48))
    made = module(lambda x, y: (jnp.tanh(x @ y), x), *ones)
    plain, other = (Module(under(made, order)) for order in ((), (0, 1)))
    assert "f32[32,48]{0,1}" not in plain.as_text()
    assert "f32[32,48]{0,1}" in other.as_text()
    head = other.as_text().splitlines()[0]
    assert "->(f32[32,48]{1,0}, f32[32,64]{1,0})}" in head, "outputs keep their layout"
    for wanted, got in zip(plain(*ones), other(*ones), strict=True):
        assert np.array_equal(wanted, got)


def run(folder: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "lib.collect.xla.timed", str(folder)]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)


def test_a_module_that_calls_lapack_is_timed(tmp_path):
    """In a process that has lowered no such call: XLA ended it by signal 11."""
    ones = jnp.ones((8, 8)) + 8 * jnp.eye(8), jnp.ones((8, 4))
    made = module(lambda x, y: jnp.linalg.solve(x, y), *ones)
    (tmp_path / "0.pb").write_bytes(made.SerializeToString())
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(json.loads((tmp_path / "rounds.json").read_text())["rounds"][0]) == ROUNDS


def test_modules_are_timed_and_one_that_computes_something_else_is_not(tmp_path):
    ones = jnp.ones((16, 8)), jnp.ones((8, 4), jnp.int32)
    donated = module(lambda x, y: (jnp.log(x), x @ y), *ones, donate_argnums=(0,))
    assert donated.HasField("input_output_alias")
    other = module(lambda x, y: (x, x @ y), *ones)
    for number, data in enumerate((under(donated, ()), under(donated, (0, 1)), under(other, ()))):
        (tmp_path / f"{number}.pb").write_bytes(data)
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    rounds = json.loads((tmp_path / "rounds.json").read_text())["rounds"]
    assert [len(one) for one in rounds] == [ROUNDS, ROUNDS, 0]
    assert min(rounds[0] + rounds[1]) > 0


def test_what_cannot_run_is_one_line(tmp_path):
    (tmp_path / "0.pb").write_bytes(b"no module")
    done = run(tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: XLA cannot run it here: ")
