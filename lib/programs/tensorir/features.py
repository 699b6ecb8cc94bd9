"""The 164 numbers that MetaSchedule's ``PerStoreFeature`` knows of a store, by name.

Values are log2(1 + x). They are those of Ansor (https://arxiv.org/abs/2006.06762, appendix B):
what is computed, how the loops around are marked, each buffer's accesses, arithmetic intensity
over loop levels, the size of the buffer that is written, and the loops themselves.
"""

from __future__ import annotations

_OPERATIONS = ("mad", "add_sub", "mul", "div_mod", "cmp", "math", "other")
_MARKED = ("num", "prod", "len")
_WHERE = (
    *("none", "inner_spatial", "middle_spatial", "outer_spatial"),
    *("inner_reduce", "middle_reduce", "outer_reduce", "mixed"),
)
_ACCESS = (
    *("read", "write", "read_write", "bytes", "unique_bytes", "lines", "unique_lines"),
    *("reuse_loop", "reuse_serial", "reuse_none", "reuse_iterations", "reuse_bytes", "reuse_count"),
    *("bytes_per_reuse", "unique_bytes_per_reuse", "lines_per_reuse", "unique_lines_per_reuse"),
    "stride",
)
BUFFERS, CURVE = 5, 10

FEATURES: tuple[str, ...] = (
    *(f"{kind}_{op}" for kind in ("float", "int") for op in _OPERATIONS),
    *("bool_op", "select_op"),
    *(
        f"{mark}_{part}"
        for mark in ("vectorized", "unrolled", "parallel")
        for part in (*_MARKED, *_WHERE)
    ),
    "gpu",
    *(f"{kind}_{axis}" for kind in ("block", "thread") for axis in "xyz"),
    "vthread",
    *(f"buffer{k}_{part}" for k in range(BUFFERS) for part in _ACCESS),
    *(f"intensity{k}" for k in range(CURVE)),
    *(f"alloc_{part}" for part in ("bytes", "elements", "outer", "inner")),
    *("loops_product", "loops", "unroll_steps"),
)
WIDTH = len(FEATURES)
OPERATIONS = {  # what an operation counts in a leaf's work
    **{"float_mad": 2.0, "float_math": 4.0},
    **dict.fromkeys(("float_add_sub", "float_mul", "float_div_mod", "float_cmp"), 1.0),
    "float_other": 1.0,
}
COUNTED = tuple(OPERATIONS.get(name, 0.0) for name in FEATURES)  # the same, by feature
