"""The site-to-node mapping and the reading of raw files."""

from __future__ import annotations

import numpy as np
import pytest

from lib.collect.xla.hlo import operation_name, read_module, read_raw, site_positions
from lib.files.errors import DataError
from tests.collect.xla.builders import POSITIONS, SITES, instruction, module, write_raw

OPCODES = [opcode for opcode, _ in SITES]
RANKS = np.array([ranks for _, ranks in SITES])


def guarded():
    return read_module(module().SerializeToString())


def test_operation_name():
    assert operation_name(instruction(1, "dot", scope="site3")) == "jit(f)/site3/op"
    assert operation_name(instruction(1, "dot")) == "jit(f)/op"


def test_sites_map_to_their_nodes():
    positions = site_positions(guarded(), OPCODES, RANKS)
    assert positions.dtype == np.int64
    instructions = [inst for comp in guarded().computations for inst in comp.instructions]
    assert [instructions[p].opcode for p in positions] == OPCODES
    assert tuple(positions) == POSITIONS


def test_barriers_of_sites_vanish_and_their_users_are_joined():
    main = guarded().computations[1]
    assert [inst.id for inst in main.instructions] == [10, 11, 12, 14, 16, 17]
    assert {inst.id: list(inst.operand_ids) for inst in main.instructions}[14] == [10]
    assert {inst.id: list(inst.operand_ids) for inst in main.instructions}[16] == [14, 11]
    assert main.root_id == 17
    assert operation_name(main.instructions[3]) == "jit(f)/site2/op"  # metadata survives


def test_a_barrier_of_the_program_itself_stays():
    source = module()
    source.computations[1].instructions.append(instruction(30, "opt-barrier", (4,), [17]))
    kept = read_module(source.SerializeToString()).computations[1].instructions
    assert kept[-1].opcode == "opt-barrier"
    assert list(kept[-1].operand_ids) == [17]


@pytest.mark.parametrize("opcodes, ranks", [(["dot"] * 3, RANKS), (OPCODES, RANKS[::-1])])
def test_a_site_that_does_not_fit_is_an_error(opcodes, ranks):
    with pytest.raises(DataError, match="site"):
        site_positions(guarded(), opcodes, ranks, "some.npz")


def test_a_site_without_instruction_and_one_with_two_are_errors():
    with pytest.raises(DataError, match="site3"):
        site_positions(guarded(), [*OPCODES, "dot"], np.vstack([RANKS, RANKS[0]]))
    twice = module()
    twice.computations[1].instructions.append(instruction(31, "dot", (4, 5), [14, 11], "site0"))
    with pytest.raises(DataError, match="site0"):
        site_positions(read_module(twice.SerializeToString()), OPCODES, RANKS)


def test_site_1_is_not_site_12():
    text = module().SerializeToString().replace(b"/site1/", b"/site9/")
    with pytest.raises(DataError, match="site1:"):
        site_positions(read_module(text), OPCODES, RANKS)


def test_read_raw_orders_the_nodes_and_their_configurations(tmp_path):
    arrays = write_raw(tmp_path / "xla" / "net.a.b.npz", random=6, genetic=4)
    random, default = read_raw(tmp_path / "xla" / "net.a.b.npz")
    assert (random.source, random.search, random.name) == ("xla", "random", "net.a.b")
    assert (random.family, default.collection) == ("net", "layout-xla-default")
    assert random.nodes.tolist() == sorted(POSITIONS)
    order = np.argsort(POSITIONS)
    expected = arrays["configuration"][6:, order].reshape(4, 3, 18)
    assert np.array_equal(default.configuration, expected)
    assert np.array_equal(random.runtime, arrays["rounds"][:6, :5].min(1))
    assert len(default.optimized_hash) == 4


def test_a_search_that_was_not_run_is_left_out(tmp_path):
    write_raw(tmp_path / "xla" / "a.npz", random=5, genetic=0)
    assert [one.search for one in read_raw(tmp_path / "xla" / "a.npz")] == ["random"]


@pytest.mark.parametrize(
    "changes",
    [
        {"module": None},
        {"module": np.frombuffer(b"\x0a\xff", np.uint8)},
        {"module": np.zeros(0, np.uint8)},
        {"site_ranks": np.ones((3, 2), np.int8)},
        {"search": np.zeros(3, np.int8)},
        {"rounds": np.ones((80, 1), np.int64)},
        {"rounds": np.tile([5, 0, 5], (80, 1))},
        {"rounds": np.full((80, 2), -5)},
        {"rounds": np.ones((80, 5))},
        {"about": np.array("{}")},
        {"about": np.array("no json")},
        {"optimized_hash": np.array([None] * 80)},
    ],
)
def test_a_broken_raw_file_is_an_error(tmp_path, changes):
    write_raw(tmp_path / "a.npz", **changes)
    with pytest.raises(DataError, match=r"a\.npz"):
        read_raw(tmp_path / "a.npz")


def test_a_truncated_raw_file_is_an_error(tmp_path):
    write_raw(tmp_path / "a.npz")
    (tmp_path / "a.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:-200])
    with pytest.raises(DataError):
        read_raw(tmp_path / "a.npz")
