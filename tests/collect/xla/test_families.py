"""Families: programs that differ little count as one."""

from __future__ import annotations

import json
from collections import Counter

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.collect.xla.export import export
from lib.collect.xla.families import ALIKE, joined, likeness, named
from lib.collect.xla.operations import operations
from tests.collect.xla.builders import write_raw

COUNTS = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 50), min_size=1)
DENSE, POOLED = {"dot 2": 8, "add 2": 8}, {"reduce-window 4": 3, "add 4": 1}


TEXT = """HloModule jit_f, entry_computation_layout={(f32[8,8]{1,0})->(f32[8]{0}, f32[8,8]{0,1})}

%region_0.1 (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  ROOT %add.3 = f32[] add(%a, %b), metadata={op_name="jit(f)/reduce_sum"}
}

ENTRY %main.2 (x.1: f32[8,8]) -> (f32[8], f32[8,8]) {
  %x.1 = f32[8,8]{1,0} parameter(0)
  %dot.1 = f32[8,8]{1,0} dot(%x.1, %x.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %sort = (f32[8,8]{1,0}, /*index=1*/s32[8,8]{1,0}) sort(%x.1, %x.1), dimensions={0}
  %copy-start = f32[2,4,8]{2,1,0} copy(%dot.1)
  ROOT %tuple = (f32[8]{0}, f32[8,8]{0,1}) tuple(%dot.1, %copy-start)
}
"""


def test_operations_are_counted_by_opcode_and_rank_and_carriers_are_not():
    assert operations(TEXT) == {"add 0": 1, "copy 3": 1, "dot 2": 1, "sort 0": 1}


@given(COUNTS, COUNTS, st.integers(1, 9))
def test_likeness_is_a_share_whatever_the_depth(a, b, times):
    assert 0 <= likeness(a, b) <= 1 + 1e-9
    assert likeness(a, b) == pytest.approx(likeness(b, a))
    assert likeness(a, a) == pytest.approx(1)
    deeper = {name: times * count for name, count in b.items()}
    assert likeness(a, deeper) == pytest.approx(likeness(a, b))


def test_likeness_by_hand():
    assert likeness({"dot 2": 3, "add 2": 1}, {"dot 2": 1, "copy 2": 1}) == pytest.approx(0.5)
    assert likeness({}, DENSE) == 0


def test_a_program_joins_the_family_of_the_likest_before_it():
    nearly = Counter(DENSE) + Counter({"tanh 2": 1})
    found = joined([("c.1", nearly), ("a.1", DENSE), ("b.1", POOLED), ("d.1", None)])
    assert likeness(nearly, DENSE) > ALIKE
    assert found == {"a.1": "a", "b.1": "b", "c.1": "a", "d.1": "d"}


def test_a_program_that_is_like_its_own_family_stays_in_it():
    found = joined([("a.1", DENSE), ("b.1", {"dot 2": 9, "add 2": 8}), ("b.2", DENSE)])
    assert found == {"a.1": "a", "b.1": "a", "b.2": "a"}
    found = joined([("a.1", DENSE), ("b.1", DENSE), ("b.2", DENSE)], {"a.1": "a", "b.1": "b"})
    assert found["b.2"] == "b"


def test_what_is_settled_stays_and_comes_first():
    found = joined([("a.1", DENSE), ("b.1", DENSE)], settled={"b.1": "b"})
    assert found == {"a.1": "b", "b.1": "b"}


@given(st.permutations([("a.1", DENSE), ("b.1", DENSE), ("c.1", POOLED), ("d.1", DENSE)]))
def test_the_order_in_which_programs_are_given_does_not_count(programs):
    assert joined(programs) == {"a.1": "a", "b.1": "a", "c.1": "c", "d.1": "a"}


def test_names():
    assert named("a.1", "a") == "a.1"
    assert named("a.1", "b") == "b.a.1"


def write(folder, name: str, counts: dict[str, int] | None, seed: int) -> None:
    about = {"processor": "Test 9000", "measured_at": "2026-01-02T03:04:05Z", "jax": "0.10.2"}
    about |= {"operations": json.dumps(counts)} if counts else {}
    write_raw(folder / "xla" / f"{name}.npz", seed, about=json.dumps(about))


def splits_of(programs: pl.DataFrame) -> dict[str, str]:
    return dict(programs.select("graph", "split").rows())


def test_an_exported_dataset_names_graphs_by_their_families(tmp_path):
    """Alike programs are of one split's family, and so they stay when more are added."""
    raw, data = tmp_path / "raw", tmp_path / "data"
    write(raw, "anet.w0.forward", DENSE, 0)
    write(raw, "bnet.w0.forward", POOLED, 1)
    write(raw, "cnet.w0.forward", DENSE, 2)
    _, programs = export(raw, data)
    names = ["anet.cnet.w0.forward", "anet.w0.forward", "bnet.w0.forward"]
    assert sorted(programs["graph"].unique()) == names
    rows = programs.filter(graph=names[0])
    assert set(rows["family"]) == {"anet"}
    assert set(rows["program"]) == {"cnet.w0.forward"}
    assert json.loads(rows["operations"][0]) == DENSE

    before = (data / "programs.parquet").read_bytes()
    export(raw, data)
    export(raw, data, add=True)  # the same programs, not others beside them
    assert (data / "programs.parquet").read_bytes() == before

    settled = splits_of(programs)
    write(tmp_path / "more", "aaa.w0.forward", POOLED, 3)
    _, programs = export(tmp_path / "more", data, add=True)
    assert sorted(programs["graph"].unique()) == sorted([*names, "bnet.aaa.w0.forward"])
    assert splits_of(programs).items() >= settled.items()


def test_programs_whose_operations_were_not_counted_are_of_the_family_of_their_name(tmp_path):
    write(tmp_path / "raw", "anet.w0.forward", None, 0)
    write(tmp_path / "raw", "cnet.w0.forward", None, 2)
    _, programs = export(tmp_path / "raw", tmp_path / "data")
    assert set(programs["family"]) == {"anet", "cnet"}
    assert programs["operations"].dtype == pl.String
