"""Access patterns of statements, against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lib.programs.tensorir.accesses import COLUMNS, MOST, WIDTH, Access, Statement, columns
from lib.programs.tensorir.nests import ABSENT
from lib.programs.tensorir.tree import PARALLEL, SERIAL, VECTORIZED


def access(span: list, shape: list[int], inside: int = -1) -> Access:
    """A buffer of single-precision numbers."""
    return Access(np.array(span), np.array(shape), 4, inside)


# c[i, j] += a[i, k] * b[k, j], loops of 8 i (parallel), 4 k, 16 j (vectorized).
PRODUCT = Statement(
    extent=np.array([8, 4, 16]),
    kind=np.array([PARALLEL, SERIAL, VECTORIZED]),
    reduces=np.array([False, True, False]),
    unroll=0,
    accesses=[
        access([[7, 0, 0], [0, 0, 15]], [8, 16]),
        access([[7, 0, 0], [0, 3, 0]], [8, 4]),
        access([[0, 3, 0], [0, 0, 15]], [4, 16]),
    ],
    domains=np.array([8, 16, 1, 1, 1, 4, 1, 1, 1, 1]),
    needed=512.0,
    conditions=0,
    conditional=np.zeros(3, bool),
)


def row_of(statement: Statement, *names: str) -> list[float]:
    """Some columns of one statement."""
    (row,) = columns([statement])
    return [float(row[COLUMNS.index(name)]) for name in names]


def numbered(name: str, count: int) -> list[str]:
    """The first of columns that are counted."""
    return [f"{name}{k}" for k in range(count)]


def test_strides_and_reductions_loop_by_loop_innermost_first():
    assert row_of(PRODUCT, *numbered("reduces", 4)) == [0, 1, 0, ABSENT]
    assert row_of(PRODUCT, *numbered("output_stride", 4)) == [1, 0, 5, ABSENT]  # 1, no, 16 numbers
    assert row_of(PRODUCT, *numbered("read0_stride", 3)) == [0, 1, 3]
    assert row_of(PRODUCT, *numbered("read1_stride", 3)) == [1, 5, 0]
    assert row_of(PRODUCT, *numbered("read2_stride", 3)) == [ABSENT] * 3


def test_what_the_vector_and_the_innermost_other_loop_load():
    parts = ("place", "extent", "reduces", "output", "broadcast", "contiguous", "gathered")
    assert row_of(PRODUCT, *(f"vector_{p}" for p in parts)) == [0, 4, 0, 1, 1, 1, 0]
    assert row_of(PRODUCT, *(f"serial_{p}" for p in parts)) == [1, 2, 1, 0, 0, 1, 1]
    scalar = replace(PRODUCT, kind=np.array([PARALLEL, SERIAL, SERIAL]))
    assert row_of(scalar, *(f"vector_{p}" for p in parts)) == [ABSENT] * 7
    assert row_of(scalar, "serial_place", "serial_contiguous") == [0, 1]


def test_an_unrolled_body_counts_vectors():
    """All 8 * 4 steps: 8 sums, 8 * 4 numbers of a, 4 vectors of b."""
    names = ("steps", "accumulators", "loads", "loads_per_step")
    found = row_of(replace(PRODUCT, unroll=64), *(f"unrolled_{one}" for one in names))
    assert found == pytest.approx([5, 3, np.log2(37), 36 / 32], rel=1e-3)
    found = row_of(replace(PRODUCT, unroll=16), *(f"unrolled_{one}" for one in names))
    assert found == pytest.approx([2, 0, np.log2(9), 2], rel=1e-3)
    assert row_of(PRODUCT, "tile", "tile_reduction") == [4, 2]


def test_footprints_and_what_caches_are_read_for():
    vector = 1 + 15 * 4 / 64  # lines
    found = row_of(PRODUCT, "footprint1", "footprint2")
    first, second = 1 + 2 * vector, 1 + 3 * 4 / 64 + (1 + 63 * 4 / 64) + vector
    assert found == pytest.approx(np.log2([64 * first, 64 * second]), rel=1e-3)
    every = (1 + 127 * 4 / 64) + (1 + 31 * 4 / 64) + (1 + 63 * 4 / 64)
    found = row_of(PRODUCT, "cache0_loops", "cache0_footprint", "cache0_traffic")
    assert found == pytest.approx([3, np.log2(64 * every), np.log2(every)], rel=1e-3)


def test_a_cache_that_is_too_small_is_filled_again():
    """4,096 rows of a million bytes: each is read once a step of the outermost loop, b as well."""
    rows = np.array([4096, 16, 2**14])
    spans = [[4095, 0, 0], [0, 15, 0], [0, 0, 2**14 - 1]]
    large = replace(
        PRODUCT,
        extent=rows,
        accesses=[access([[4095, 0, 0]], [4096]), access(spans, rows.tolist())],
    )
    loops, traffic = row_of(large, "cache1_loops", "cache1_traffic")
    lines = 1 + (1 + (2**14 - 1) * 4 / 64)  # of the innermost loop
    assert loops == 1
    assert traffic == pytest.approx(np.log2(4096 * (1 + 16 * (lines - 1))), rel=1e-3)


def test_a_buffer_that_is_kept_for_one_iteration_is_small_and_stays_in_place():
    kept = [access([[7, 0, 0], [0, 0, 15]], [8, 16], inside=1), *PRODUCT.accesses[1:]]
    local = replace(PRODUCT, accesses=kept)
    assert row_of(local, "output_local", "output_bytes") == [1, 6]
    assert row_of(PRODUCT, "output_local", "output_bytes") == [0, 9]
    assert row_of(local, *numbered("output_stride", 3)) == [1, 0, 0]


def test_work_that_is_done_again_and_conditions():
    again = replace(PRODUCT, needed=128.0, conditions=2, conditional=np.array([1, 1, 0], bool))
    names = ("steps", "needed", "repeated", "conditions", "conditional_loop", "reads")
    assert row_of(again, *names) == [9, 7, 2, 2, 1, 2]
    assert row_of(replace(PRODUCT, conditions=95), "conditions") == [MOST]
    assert row_of(PRODUCT, *numbered("spatial", 3), *numbered("reduction", 2)) == [3, 4, 0, 2, 0]


def test_statements_do_not_depend_on_their_neighbours():
    nothing = replace(
        PRODUCT,
        **dict.fromkeys(("extent", "kind"), np.zeros(0, np.int64)),
        **dict.fromkeys(("reduces", "conditional"), np.zeros(0, bool)),
        accesses=[access(np.zeros((1, 0)), [1])],
    )
    deep = replace(
        PRODUCT,
        **{name: np.repeat(getattr(PRODUCT, name), 5) for name in ("extent", "kind")},
        **{name: np.repeat(getattr(PRODUCT, name), 5) for name in ("reduces", "conditional")},
        accesses=[access(np.ones((6, 15)), [99] * 6)] * 9,
    )
    both = columns([nothing, deep, PRODUCT])
    assert both.shape == (3, WIDTH) and np.isfinite(both).all()
    for one, row in zip((nothing, deep, PRODUCT), both, strict=True):
        np.testing.assert_array_equal(columns([one])[0], row)
    assert columns([]).shape == (0, WIDTH)
