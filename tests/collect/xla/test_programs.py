"""Which programs are measured: the bundled modules, and a user's own."""

from __future__ import annotations

import lzma
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lib.collect.xla.environment import ENVIRONMENT, measuring_environment
from lib.collect.xla.programs import BUNDLED, MODULES, bundled_programs, selected_programs
from lib.files.errors import DataError, UserError
from lib.tpugraphs.encoding import encode_module
from lib.tpugraphs.npz import read_layout
from tests.collect.xla.builders import NODES, RANKS, instruction, module

ROOT = Path(__file__).parents[3]


@pytest.fixture
def dump(tmp_path) -> Path:
    """A folder as XLA dumps it: a program, a module without a choice, and an optimized one."""
    small = module()
    del small.computations[0].instructions[4:]
    for name, made in (
        ("module_1.jit_f.before_optimizations.hlo.pb", module()),
        ("module_2.jit_small.before_optimizations.hlo.pb", small),
        ("module_1.jit_f.cpu_after_optimizations.hlo.pb", module()),
    ):
        (tmp_path / name).write_bytes(made.SerializeToString())
    return tmp_path


def test_every_bundled_program_has_its_module():
    table = pl.read_parquet(BUNDLED / "programs.parquet")
    source = pl.col("collection").str.split("-").list[1]
    measured = set(table.select(source, "graph").rows())
    programs = bundled_programs()
    assert {(program.source, program.name) for program in programs} == measured
    assert len(programs) == len(measured) == 430
    text = lzma.decompress(MODULES.read_bytes())
    assert b".py" not in text and b"/home" not in text, "no files of who dumped them"


@pytest.mark.parametrize("program", bundled_programs()[::29], ids=lambda program: program.name)
def test_a_bundled_module_is_the_bundled_graph(program):
    found, nodes, ranks = program.read()
    graph = encode_module(found, -1)
    paths = list((BUNDLED / "npz/layout" / program.source).glob(f"*/*/{program.name}.npz"))
    assert len(paths) == 2
    for path in paths:
        wanted = read_layout(path)
        for name in ("node_feat", "node_opcode", "edge_index", "node_splits"):
            assert np.array_equal(getattr(graph, name), getattr(wanted, name))
        assert np.array_equal(nodes, wanted.node_config_ids)
        set_digits = (wanted.node_config_feat.reshape(-1, len(nodes), 3, 6) >= 0).sum(3)
        assert (np.isin(set_digits, (0,)) | (set_digits == np.array(ranks))).all()


def test_names_patterns_files_and_folders_are_selected(dump):
    (file,) = dump.glob("*1*before*")
    words = f"bert.*,vit.w64_d2_h4_p8_b8_r64.forward,{file}"
    names = [program.name for program in selected_programs(words)]
    assert names[-1] == "module_1.jit_f" and len(names) > 3
    assert {name.split(".")[0] for name in names[:-2]} == {"bert"}
    (program,) = selected_programs(str(dump))
    assert program.path == file
    assert selected_programs(f"{dump}/*1*before*.pb") == [program]
    _, nodes, ranks = program.read()
    assert (tuple(nodes), tuple(ranks)) == (NODES, RANKS)


def test_what_cannot_be_measured_is_one_line(dump):
    for word in ("nothing.*", f"{dump}/none.pb", f"{dump}/*2*.pb"):
        with pytest.raises(UserError, match="names no program with a layout to choose"):
            selected_programs(word)
    other = dump / "other"
    other.mkdir()
    (other / "module_1.jit_f.pb").write_bytes(module().SerializeToString())
    with pytest.raises(UserError, match="has the name of"):
        selected_programs(f"{dump},{other}")
    (dump / "text.pb").write_text("HloModule f")
    with pytest.raises(DataError, match=r"text\.pb"):
        selected_programs(str(dump))


def test_a_tensor_of_seven_dimensions_is_left_to_the_compiler(tmp_path):
    made = module()
    made.computations[0].instructions.append(
        instruction(18, "reshape", (1, 4, 1, 5, 1, 1, 1), [17])
    )
    (tmp_path / "a.pb").write_bytes(made.SerializeToString())
    (program,) = selected_programs(str(tmp_path / "a.pb"))
    assert tuple(program.read()[1]) == NODES


def test_variables_of_jax_and_xla_are_cleared_and_named(capsys):
    own = {"JAX_ENABLE_X64": "1", "XLA_FLAGS": "--xla_foo", "HOME": "/root", **ENVIRONMENT}
    own |= {"JAX_DEFAULT_MATMUL_PRECISION": "highest", "XLA_FLAGS": "--xla_foo"}
    assert measuring_environment(own) == ENVIRONMENT | {"HOME": "/root"}
    said = capsys.readouterr().err
    assert said.startswith(
        "cleared JAX_DEFAULT_MATMUL_PRECISION='highest', JAX_ENABLE_X64='1', XLA_FLAGS='--xla_foo'"
    )
    assert measuring_environment(ENVIRONMENT) == ENVIRONMENT and not capsys.readouterr().err


def run(*words: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "lib.collect.xla", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_command_line(tmp_path):
    names = run("--list").stdout.splitlines()
    assert len(names) == 430 and len({line.split()[0] for line in names[:20]}) == 2
    for words, said in (
        (("--rounds", "3"), "error: --rounds 3: at least 4, or labels are noise\n"),
        (("--cores", "x"), "error: --cores x: 'x' is not a core of this machine"),
        (("--programs", "nothing"), "error: --programs nothing: names no program"),
    ):
        done = run(*words, "--output", str(tmp_path / "out"))
        assert done.returncode == 2 and done.stderr.startswith(said)
    assert not (tmp_path / "out").exists()
