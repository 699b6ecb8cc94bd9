"""The base-7 codec, the dictionary and de-duplication, against the plainest implementations."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lib.cache.codec import (
    build_dictionary,
    decode_layouts,
    deduplicate,
)

DIGITS = st.integers(-1, 5)


def configurations(most: int = 12, nodes: int = 4) -> st.SearchStrategy[np.ndarray]:
    shapes = st.tuples(st.integers(0, most), st.integers(0, nodes), st.just(18))
    return shapes.flatmap(lambda shape: hnp.arrays(np.int8, shape, elements=DIGITS))


@given(configurations())
def test_codes_are_the_base_7_numbers_of_the_digits(features):
    dictionary, cells = build_dictionary("f", [features], *features.shape[:2])
    expected = {
        tuple(int("".join(str(digit + 1) for digit in layout), 7) for layout in row.reshape(3, 6))
        for row in features.reshape(-1, 18)
    }
    assert dictionary.tolist() == [list(triple) for triple in sorted(expected)]
    assert np.array_equal(decode_layouts(dictionary[cells]), features)


TABLES = st.tuples(
    st.integers(0, 25), st.integers(0, 3), st.sampled_from([np.uint8, np.uint16, np.uint32])
).flatmap(
    lambda t: st.tuples(
        hnp.arrays(t[2], t[:2], elements=st.integers(0, 2)),
        hnp.arrays(np.int64, t[0], elements=st.integers(0, 2**62)),
    )
)


@given(TABLES)
@settings(max_examples=100, deadline=None)
def test_deduplicate_against_comparing_every_pair(table):
    cells, runtimes = table
    first, smallest, original = deduplicate(cells, runtimes)
    equal = [[bool((a == b).all()) for b in cells] for a in cells]
    kept = [i for i in range(len(cells)) if not any(equal[i][:i])]
    assert first.tolist() == kept  # in order of first appearance
    for i in range(len(cells)):
        assert kept[original[i]] == equal[i].index(True)
    for place, i in enumerate(kept):
        assert smallest[place] == min(r for r, same in zip(runtimes, equal[i], strict=True) if same)
    assert np.array_equal(cells[first][original], cells)
    assert (first.dtype, smallest.dtype, original.dtype) == (np.int64, np.int64, np.int32)


def test_rows_that_share_bytes_but_not_cells_stay_apart():
    cells = np.array([[1, 0], [256, 0], [0, 1], [1, 0]], np.uint16)
    first, smallest, original = deduplicate(cells, np.array([9, 8, 7, 6]))
    assert first.tolist() == [0, 1, 2]
    assert smallest.tolist() == [6, 8, 7]
    assert original.tolist() == [0, 1, 2, 0]
