"""What is noted at sites, numbered all at once, against counting it one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lib.compiler.cpu.tables import BITS, NumberingAtSites, Occurrences

CONFIGURATIONS = 4


def differing(site: str, one: int, other: int) -> tuple[str, int, int] | None:
    """Nothing where orders are the same, or differ in their lowest bit only."""
    return None if one // 2 == other // 2 else (site, one // 2, other // 2)


def _each(values: np.ndarray) -> np.ndarray:
    return np.broadcast_to(values, CONFIGURATIONS)


def under_each(draw, values):
    """(b,) of values, or (1,) if they are the same under all."""
    size = draw(st.sampled_from([1, CONFIGURATIONS]))
    return np.array(draw(st.lists(values, min_size=size, max_size=size)))


@st.composite
def notes(draw):
    """What is added: a site, where, and orders, negative only where nothing is noted."""
    where = under_each(draw, st.booleans())
    one, other = (under_each(draw, st.integers(0, 5)) for _ in range(2))
    if len(one) == len(where):
        one = np.where(where, one, -1)
    return draw(st.sampled_from("ab")), where, one, other


@given(batches=st.lists(st.lists(notes(), max_size=5), min_size=1, max_size=3))
def test_every_configuration_has_what_was_noted_in_the_order_of_the_notes(batches):
    numbering = NumberingAtSites(differing)
    for batch in batches:
        occurrences = Occurrences(numbering, CONFIGURATIONS)
        expected: list[list] = [[] for _ in range(CONFIGURATIONS)]
        for site, *each in batch:
            occurrences.add(site, *each)
            for own, noted, *orders in zip(expected, *map(_each, each), strict=True):
                item = differing(site, *map(int, orders)) if noted else None
                own += [] if item is None else [item]
        found: list[list] = [[] for _ in range(CONFIGURATIONS)]
        for configuration, number in occurrences.all().tolist():
            found[configuration].append(numbering.items[number])
        assert found == expected
    assert len(set(numbering.items)) == len(numbering.items)


def test_keys_hold_the_largest_numbers():
    numbering = NumberingAtSites(lambda site, one, other: (site, one, other))
    numbering.sites.items.extend(range(1 << 10))
    largest = (1 << BITS) - 1
    key = ((((1 << 10) - 1) << BITS | largest) << BITS) | largest
    (number,) = numbering.numbers_of(np.array([key]))
    assert numbering.items[number] == ((1 << 10) - 1, largest, largest)
