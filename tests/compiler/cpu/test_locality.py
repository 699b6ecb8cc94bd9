"""Walks through memory against a cache that is simulated."""

from __future__ import annotations

from math import log2

from hypothesis import given
from hypothesis import strategies as st

from lib.compiler.cpu.moves import (
    LINE,
    LOCALITY_FEATURES,
    MOST,
    PAGE,
    SETS,
    WAYS,
    locality,
    walk,
)

SIZES = st.sampled_from([2, 3, 4, 7, 8, 16, 24, 32, 64])


def walked(shape, order, read, width):
    """Bytes that a loop reads until it comes back to a line, in its order."""
    distance, step = {}, width
    for d in order:
        distance[d], step = step, step * shape[d]
    places = [0]
    for d in read[: read.index(order[0])]:
        places = [place + i * distance[d] for i in range(shape[d]) for place in places]
    return places


def missed_again(lines, sets):
    """Share of the lines that are gone when they are read a second time, in the same order."""
    kept = [[] for _ in range(sets)]
    missed = 0
    for turn in (0, 1):
        for line in lines:
            own = kept[line % sets]
            missed += turn and line not in own
            if line in own:
                own.remove(line)
            own.append(line)
            del own[:-WAYS]
    return missed / len(lines)


@given(st.tuples(SIZES, SIZES, SIZES), st.permutations(range(3)), st.permutations(range(3)))
def test_lines_that_are_gone(shape, order, read):
    """Elements as wide as a line, so that each is read once a turn."""
    places = walked(shape, order, read, LINE)
    result = locality(shape, tuple(order), tuple(order), tuple(read), LINE)
    assert len(result) == len(LOCALITY_FEATURES)
    if len(places) > MOST:
        assert result[1:4] == [1.0, 1.0, 1.0]
        return
    lines = [place // LINE for place in places]
    expected = [missed_again(lines, sets) for sets in SETS] if len(lines) > 1 else [0.0, 0.0]
    assert result[1:3] == expected
    assert result[0] == log2(len(lines)) / 8
    if len(lines) > 1:
        used, pages = len({line % SETS[0] for line in lines}), {place // PAGE for place in places}
        assert result[-3:] == [
            log2(len(set(lines)) / used) / 3,
            log2(len(set(lines))) / 8,
            log2(len(pages)) / 8,
        ]


@given(st.permutations(range(3)), st.permutations(range(3)))
def test_dimensions_of_one_element_are_no_part_of_a_walk(order, path):
    with_ones = (1, 16, 8, 1, 4)
    place = {0: 1, 1: 2, 2: 4}
    orders = [(0, *(place[d] for d in one), 3) for one in (order, path)]
    assert walk(with_ones, *orders, 4) == walk((16, 8, 4), tuple(order), tuple(path), 4)
