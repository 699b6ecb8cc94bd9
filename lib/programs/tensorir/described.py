"""Programs as arrays: what TVM's environment says of them, in raw files and in messages.

See :func:`lib.collect.tvm.raw.described`, which makes them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lib.programs.tensorir.tree import COLUMNS, Forest

ARRAYS = (*COLUMNS, "hash", "joined", "leaves", "nodes", "features", "accesses")


def forest_of(arrays: Mapping[str, np.ndarray]) -> Forest:
    """Return the trees of described programs."""
    starts = np.cumsum(arrays["nodes"]) - arrays["nodes"]
    columns = (arrays[name].astype(dtype) for name, dtype in COLUMNS.items())
    return Forest(*columns, starts.astype(np.int64))
