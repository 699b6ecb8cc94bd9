"""Configurations that are drawn or searched for, and the clock's word on the best."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from lib.files.errors import UserError
from lib.scoring.candidates import Request, candidates_in, slot_ranks, with_drawn
from lib.scoring.possible import check_layouts
from lib.scoring.timing import Timings, check_timeable, time_best
from lib.tpugraphs.program import Program, read_program
from tests.scoring.test_possible import program  # noqa: F401
from tests.stages import script
from tests.tpugraphs.builders import computation, instruction, module

F32 = 11


def shape(*sizes: int, layout=None) -> dict:
    order = layout or [*range(len(sizes))][::-1]
    return {"element_type": F32, "dimensions": sizes, "layout": {"minor_to_major": order}}


def hlo(folder: Path) -> Program:
    """A dot whose second operand has the lower id, and sizes of a first one; and a reshape."""
    made = module(
        computation(
            "main",
            1,
            instruction(1, "parameter", shape=shape(4, 3, 4)),
            instruction(2, "parameter", shape=shape(4, 4), parameter_number=1),
            instruction(3, "dot", shape=shape(4, 3, 4), operand_ids=[2, 1]),
            instruction(4, "reshape", shape=shape(48), operand_ids=[3]),
        )
    )
    made.entry_computation_id = 1
    path = folder / "a.hlo.pb"
    path.write_bytes(made.SerializeToString())
    return read_program(path)


def test_what_is_asked_for():
    assert candidates_in(None) is None
    assert candidates_in("search:2000") == Request("search", 2000)
    assert candidates_in("random:2") == Request("random", 2)
    for file in ("searches:3", "./search:3", "c.npz"):
        assert candidates_in(file) == Path(file)


@pytest.mark.parametrize("count", ["", "1", "-3", "2.5", "10001", "many", "²", "3\n"])
def test_a_number_that_there_cannot_be_is_one_line(count):
    with pytest.raises(UserError, match="expected search:N with N from 2 to 10,000"):
        candidates_in(f"search:{count}")


@pytest.mark.parametrize("hardware", ["cpu", "tpu"])
@pytest.mark.parametrize("how", ["random", "search"])
def test_all_are_legal_and_different_and_the_compilers_own_is_first(program, hardware, how):  # noqa: F811
    drawn = with_drawn(program, Request(how, 60), hardware, lambda one: np.zeros(one_count(one)))
    features = drawn.graph.node_config_feat
    assert len(np.unique(features.reshape(60, -1), axis=0)) == 60
    assert (features[0] == -1).all() and (features[1:] >= 0).any(axis=(1, 2)).all()
    assert (np.diff((features[..., ::6] >= 0).sum(axis=(1, 2))) >= 0).all(), "the simplest first"
    check_layouts(program.path, drawn, hardware)
    named = (features.reshape(60, 4, 3, 6) >= 0).sum(-1)
    assert named[:, 0].max() == (2 if hardware == "tpu" else 4)  # of the convolution
    assert named[:, 1, 0].max() == 2 and not named[:, 3].any()  # of reshapes; one is of a number
    again = with_drawn(program, Request(how, 60), hardware, lambda one: np.zeros(one_count(one)))
    assert np.array_equal(again.graph.node_config_feat, features)


def one_count(drawn: Program) -> int:
    return len(drawn.graph.config_runtime)


def test_a_search_finds_what_drawing_does_not(program):  # noqa: F811
    wanted = np.full((4, 3, 6), -1)
    wanted[0, :, :4], wanted[1, 0, :2], wanted[2, 0, :3] = (1, 3, 0, 2), (0, 1), (1, 0, 2)

    def scores(one: Program) -> np.ndarray:
        """How many digits are another than what is to be found."""
        return (one.graph.node_config_feat != wanted.reshape(4, 18)).sum(axis=(1, 2))

    best = {
        how: scores(with_drawn(program, Request(how, 600), "cpu", scores)).min()
        for how in ("random", "search")
    }
    assert best["search"] < best["random"] / 2


def test_a_program_with_few_layouts_has_no_more(tmp_path):
    drawn = with_drawn(hlo(tmp_path), Request("random", 1000), "tpu", lambda one: one)
    assert 2 < one_count(drawn) <= (2 * 6 + 1) * (2 + 1) * (2 * 6 + 1) * (6 + 1)


def test_operands_of_a_module_are_in_their_order(tmp_path):
    """Edges of the features are not."""
    assert slot_ranks(hlo(tmp_path)) == [(3, 2, 3), (0, 3, 0)]


def stand_in(folder: Path, lines: str) -> Path:
    """A script that is called in place of a Python with JAX."""
    return script(folder / "python", f"#!/bin/sh\n{lines}\n")


def test_the_clocks_word_on_some_configurations(tmp_path):
    drawn = with_drawn(hlo(tmp_path), Request("random", 5), "cpu", lambda one: one)
    rounds = '{"rounds": [[1000, 1020, 5000, 5000], [], [800, 800, 900, 900]]}'
    python = stand_in(tmp_path, f"ls $3 >{tmp_path}/files; echo '{rounds}' >$3/rounds.json")
    found = time_best(drawn, [3, 1], python)
    assert (tmp_path / "files").read_text().split() == ["0.pb", "1.pb", "2.pb"]
    assert (found.of, found.compilers_own) == ({3: None, 1: 800}, 1010)
    assert found.words(3) == "XLA refuses it, or it computes something else"
    assert found.words(1) == "timed 0.001 ms, 26.2% faster than the compiler's own"
    assert "the fastest of 1 is configuration 1 (#7), 26.2% faster" in found.summary(
        np.array([1, 7, 1, 1, 1])
    )
    assert "fastest" not in Timings({3: None}, 1010, 0.0).summary(np.ones(5))


def test_a_configuration_that_ends_xla_loses_its_own_time_alone(tmp_path):
    """Layout assignment does abort on CPUs, and takes the process with it."""
    drawn = with_drawn(hlo(tmp_path), Request("random", 4), "cpu", lambda one: one)
    lines = """case "$(md5sum <$3/1.pb)$(ls $3)" in *2.pb*|*{bad}*) kill -ABRT $$;; esac
echo '{{"rounds": [[1000, 1000], [800, 800]]}}' >$3/rounds.json"""
    rounds = '{"rounds": [[9, 9], [9, 9]]}'
    copies = f"cp $3/1.pb {tmp_path}/bad.pb; echo '{rounds}' >$3/rounds.json"
    time_best(drawn, [2], stand_in(tmp_path, copies))
    bad = hashlib.md5((tmp_path / "bad.pb").read_bytes()).hexdigest()
    found = time_best(drawn, [1, 2, 3], stand_in(tmp_path, lines.format(bad=bad)))
    assert (found.of, found.compilers_own) == ({1: 800, 2: None, 3: 800}, 1000)
    with pytest.raises(UserError, match=r"a\.hlo\.pb: XLA ended without a result: exit code -6"):
        time_best(drawn, [1], stand_in(tmp_path, "kill -ABRT $$"))


def test_what_cannot_be_timed_is_one_line(tmp_path, program):  # noqa: F811
    drawn = with_drawn(hlo(tmp_path), Request("random", 5), "cpu", lambda one: one)
    python = stand_in(tmp_path, "echo 'error: XLA cannot run it here: no' >&2; exit 2")
    for one, hardware, at, said in (
        (program, "cpu", python, r"program\.pb: no HLO module"),
        (drawn, "tpu", python, "this machine's CPU is no tpu"),
        (drawn, "cpu", tmp_path / "none", "none: no such file; make rank MEASURE=8"),
    ):
        with pytest.raises(UserError, match=said):
            check_timeable(one, hardware, at)
    with pytest.raises(UserError, match=r"a\.hlo\.pb: XLA cannot run it here: no$"):
        time_best(drawn, [1], python)
