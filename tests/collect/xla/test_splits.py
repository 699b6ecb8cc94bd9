"""The split rule."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

from hypothesis import given
from hypothesis import strategies as st

from lib.collect.xla.splits import assign_splits


@st.composite
def program_sets(draw):
    """(source, program, family) of one or both sources; families of 1 to 6 programs."""
    programs = []
    for source in draw(st.sampled_from([("xla",), ("xla", "nlp")])):
        for family, size in enumerate(draw(st.lists(st.integers(1, 6), min_size=1, max_size=15))):
            programs += [(source, f"f{family}.v{k}.train", f"f{family}") for k in range(size)]
    return programs


def by_family(programs, splits):
    """(source, family) -> how many programs are in each split."""
    found = defaultdict(Counter)
    for source, program, family in programs:
        found[source, family][splits[source, program]] += 1
    return found


@given(program_sets(), st.integers(0, 5), st.randoms())
def test_a_pure_function_of_the_set_and_the_seed(programs, seed, shuffler: random.Random):
    splits = assign_splits(programs, seed)
    assert set(splits) == {(source, program) for source, program, _ in programs}
    assert set(splits.values()) <= {"train", "valid", "test"}
    shuffler.shuffle(programs)
    assert assign_splits(programs + programs[:3], seed) == splits


@given(program_sets(), st.integers(0, 5))
def test_families_are_whole_in_test_or_have_a_relative_in_training(programs, seed):
    for counts in by_family(programs, assign_splits(programs, seed)).values():
        assert counts["train"] or set(counts) == {"test"}


@given(program_sets(), st.integers(0, 5))
def test_shares(programs, seed):
    splits = assign_splits(programs, seed)
    families = by_family(programs, splits)
    for source in {source for source, _, _ in programs}:
        mine = [counts for (s, _), counts in families.items() if s == source]
        total = Counter()
        for counts in mine:
            total.update(counts)
        tests = max(1, round(0.2 * total.total()))
        spare = sum(c["train"] - 1 for c in mine if c["train"])  # could have been dealt out
        assert total["train"] >= 1
        assert total["test"] <= tests
        assert total["test"] == tests or not spare
        assert total["valid"] <= max(1, round(0.1 * total.total()))
        unseen = sum(c["test"] for c in mine if not c["train"])
        assert unseen <= (tests + 1) // 2


@given(program_sets(), st.integers(0, 5), st.data())
def test_more_programs_change_no_split_that_is_settled(programs, seed, data):
    known = data.draw(st.sets(st.sampled_from(programs)).map(sorted))
    settled = assign_splits(known, seed)
    splits = assign_splits(programs, seed, settled)
    assert {key: splits[key] for key in settled} == settled
    unseen = unseen_families(known, settled)
    for key, counts in by_family(programs, splits).items():
        assert counts["train"] or set(counts) == {"test"}
        assert key not in unseen or set(counts) == {"test"}


@given(program_sets(), st.integers(0, 5))
def test_what_is_settled_counts_even_if_it_is_not_measured_again(programs, seed):
    settled = assign_splits(programs, seed)
    unseen = unseen_families(programs, settled)
    new = [(source, f"{family}.new.train", family) for source, _, family in programs]
    for (source, program), split in assign_splits(new, seed, settled).items():
        assert (source, program.split(".")[0]) not in unseen or split == "test"


def unseen_families(programs, splits):
    """The families that are in ``test`` alone."""
    return {key for key, counts in by_family(programs, splits).items() if set(counts) == {"test"}}


def test_growing_a_collection_keeps_the_shares():
    programs = [("xla", f"f{k % 13}.v{k}", f"f{k % 13}") for k in range(40)]
    more = programs + [("xla", f"f{k % 29}.w{k}", f"f{k % 29}") for k in range(60)]
    splits = assign_splits(more, settled=assign_splits(programs))
    assert Counter(splits.values()) == {"train": 70, "test": 20, "valid": 10}


def test_sources_do_not_influence_each_other():
    xla = [("xla", f"f{k % 4}.v{k}", f"f{k % 4}") for k in range(20)]
    nlp = [("nlp", f"g{k % 7}.v{k}", f"g{k % 7}") for k in range(30)]
    assert assign_splits(xla + nlp) == assign_splits(xla) | assign_splits(nlp)


def test_a_typical_collection_has_everything():
    programs = [("xla", f"f{k % 13}.v{k}", f"f{k % 13}") for k in range(50)]
    splits = assign_splits(programs)
    assert Counter(splits.values()) == {"train": 35, "test": 10, "valid": 5}
    families = by_family(programs, splits).values()
    unseen = sum(c["test"] for c in families if not c["train"])
    assert 3 <= unseen <= 5
    assert assign_splits(programs, 1) != splits
