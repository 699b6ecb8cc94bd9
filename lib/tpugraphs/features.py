"""What must hold for node features before later stages build on them.

Every feature is a 64-bit integer that was rounded to float32 (FORMAT.md, section 4). Those that
later stages compute with have narrower ranges: they tell shapes, sizes in memory and dimension
numbers, and who indexes with a negative one gets another dimension, or none.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lib.files.errors import DataError
from lib.tpugraphs.encoding import FEATURE_NAMES

INTEGERS = -(2.0**63), 2.0**63
# No machine has as many; of any element type, their bytes can be counted in 64 bits.
MOST_ELEMENTS = 2.0**55
ELEMENTS, FLAGS, COUNTS = (0.0, MOST_ELEMENTS), (0.0, 1.0), (0.0, 2.0**63)
PREFIXES = {  # of features' names: their range
    "shape_element_type_is_": FLAGS,
    "shape_dimensions_": ELEMENTS,
    "window_window_reversal_true_count": COUNTS,
    "window_window_reversal_false_count": COUNTS,
    "feature_group_count": COUNTS,
    "batch_group_count": COUNTS,
    **{
        f"convolution_dim_numbers_{tensor}_dim": COUNTS
        for tensor in (
            "input_batch",
            "input_feature",
            "kernel_input_feature",
            "kernel_output_feature",
            "output_batch",
            "output_feature",
        )
    },
}
RANGES = np.array(
    [next((PREFIXES[p] for p in PREFIXES if n.startswith(p)), INTEGERS) for n in FEATURE_NAMES]
)  # (140, 2)
_FIRST = FEATURE_NAMES.index("shape_dimensions_0")
SHAPE = slice(_FIRST, _FIRST + 6)


def check_features(path: Path | str, features: np.ndarray) -> np.ndarray:
    """The features, (n, 140) finite float32, if they can be those of a program.

    Raises:
        DataError: one is no integer, or out of the range of its column, or a node's output has
            more elements than any tensor.
    """
    low, high = RANGES.T
    check_integers(path, "node_feat", features)
    if (features.min(axis=0) < low).any() or (features.max(axis=0) > high).any():
        node, column = np.argwhere((features < low) | (features > high))[0]
        actual = f"{features[node, column]:g} in {FEATURE_NAMES[column]} of node {node}"
        expected = f"integers in {low[column]:g}..{high[column]:g}"
        raise DataError(path, "node_feat", actual, expected)
    elements = np.maximum(features[:, SHAPE], 1).prod(axis=1, dtype=np.float64)
    if (elements > MOST_ELEMENTS).any():
        node = int(elements.argmax())
        actual = f"a tensor of {elements[node]:g} elements at node {node}"
        raise DataError(path, "node_feat", actual, f"at most {MOST_ELEMENTS:g}")
    return features


def check_integers(path: Path | str, key: str, array: np.ndarray) -> np.ndarray:
    """The array, (r, w) finite float32, if all are 64-bit integers; raises DataError else."""
    low, high = INTEGERS
    whole = np.array_equal(np.trunc(array), array)
    if not whole or array.min(initial=0) < low or array.max(initial=0) > high:
        bad = (np.trunc(array) != array) | (array < low) | (array > high)
        row, column = np.argwhere(bad)[0]
        actual = f"{array[row, column]:g} at [{row}, {column}]"
        raise DataError(path, key, actual, "integers of 64 bits")
    return array
