"""The base-7 codec, the dictionary and de-duplication, against the plainest implementations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lib.cache.codec import (
    build_dictionary,
    decode_layouts,
    deduplicate,
    encode_layouts,
    smallest_type,
)
from lib.files.errors import DataError

DIGITS = st.integers(-1, 5)


def configurations(most: int = 12, nodes: int = 4) -> st.SearchStrategy[np.ndarray]:
    shapes = st.tuples(st.integers(0, most), st.integers(0, nodes), st.just(18))
    return shapes.flatmap(lambda shape: hnp.arrays(np.int8, shape, elements=DIGITS))


def slow_code(digits: np.ndarray) -> int:
    return int("".join(str(digit + 1) for digit in digits), 7)


@given(configurations())
@settings(max_examples=60, deadline=None)
def test_base_7_round_trip(features):
    codes = encode_layouts(features)
    assert codes.shape == (*features.shape[:2], 3)
    assert codes.dtype == np.int32
    assert np.array_equal(decode_layouts(codes), features)


@given(hnp.arrays(np.int64, 18, elements=DIGITS))
@settings(max_examples=60, deadline=None)
def test_a_code_is_the_base_7_number_of_its_digits(features):
    expected = [slow_code(features[first : first + 6]) for first in (0, 6, 12)]
    assert encode_layouts(features).tolist() == expected


@pytest.mark.parametrize("digit", [-2, 6, 127])
def test_a_digit_out_of_range_is_refused(digit):
    features = np.zeros((2, 3, 18), np.int8)
    features[1, 2, 17] = digit
    with pytest.raises(ValueError, match=r"-1\.\.5"):
        encode_layouts(features)
    with pytest.raises(DataError, match=r"-1\.\.5"):
        build_dictionary("f", [features], *features.shape[:2])


@given(configurations())
@settings(max_examples=60, deadline=None)
def test_dictionary_round_trip(features):
    dictionary, cells = build_dictionary("f", [features], *features.shape[:2])
    assert np.array_equal(decode_layouts(dictionary[cells]), features)
    assert cells.shape == features.shape[:2]
    triples = [tuple(row) for row in dictionary.tolist()]
    assert triples == sorted({tuple(row) for row in encode_layouts(features).reshape(-1, 3)})
    assert cells.dtype == smallest_type(len(dictionary))


@pytest.mark.parametrize(
    ("distinct", "dtype"), [(1, np.uint8), (256, np.uint8), (257, np.uint16), (1000, np.uint16)]
)
def test_cells_are_of_the_smallest_type(distinct, dtype):
    numbers = np.arange(distinct) * 104_729  # spread over all three layouts
    digits = numbers[:, None] // 7 ** np.arange(18, dtype=np.int64) % 7 - 1
    features = np.random.default_rng(0).permutation(digits)[:, None].astype(np.int8)
    dictionary, cells = build_dictionary("f", [features], *features.shape[:2])
    assert len(dictionary) == distinct
    assert cells.dtype == dtype
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
