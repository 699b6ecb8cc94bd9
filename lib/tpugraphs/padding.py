"""The "-1 padding" of node features, rebuilt where there is no protobuf (FORMAT.md, section 8)."""

from __future__ import annotations

import numpy as np

from lib.tpugraphs import opcodes

# First column and length of the lists whose length other columns show.
CONVOLUTION_LISTS = ((95, 4), (101, 4))  # input and kernel spatial dimensions
LAYOUT_LIST = (134, 6)  # layout_minor_to_major
SHAPE_COLUMNS = slice(21, 27)  # shape_dimensions_0..5
WINDOW_COUNTS = [91, 92]  # true and false window_reversal: together the window's dimensions


def detect_padding(node_feat: np.ndarray) -> int:
    """Return the fill of the "leading only" columns of (n, 140) features: -1, or 0 (also when
    nothing shows any padding).

    The lists hold positions of dimensions, so a negative value in them can only be padding.
    Columns 31-36 are not consulted, for :func:`pad_with_minus_one` leaves them alone.
    """
    blocks = (node_feat[:, a : a + k] for a, k in (*CONVOLUTION_LISTS, LAYOUT_LIST))
    return -1 if any((block < 0).any() for block in blocks) else 0


def pad_with_minus_one(node_feat: np.ndarray, node_opcode: np.ndarray) -> np.ndarray:
    """Rebuild the -1 padding of columns 95-98, 101-104 and 134-139 (section 8).

    The length of the layout is the rank, which is the number of leading non-zero dimensions; the
    length of the spatial lists is that of a convolution's window, and 0 for every other opcode.
    Both agree with the official code on every real graph that has been tried. Columns 31-36
    (``dimensions``) are left with zeros: the length of that list is stored nowhere, and guessing
    it from the operands' ranks is wrong on some nodes (a reduce with a tuple output), whereas
    every column touched here is exact. Graphs encoded from protobuf have all 20 columns padded.

    Args:
        node_feat: (n, 140) float, padded with 0 or with -1.
        node_opcode: (n,) integer.

    Returns:
        (n, 140) of the same type, a copy; an equal copy if it was padded with -1 already.
    """
    padded = node_feat.copy()
    if detect_padding(node_feat) == -1:
        return padded
    rank = np.cumprod(node_feat[:, SHAPE_COLUMNS] != 0, axis=1).sum(axis=1)
    window = node_feat[:, WINDOW_COUNTS].sum(axis=1)
    spatial = np.where(node_opcode == opcodes.CONVOLUTION, window, 0)
    _fill(padded, LAYOUT_LIST, rank)
    for columns in CONVOLUTION_LISTS:
        _fill(padded, columns, spatial)
    return padded


def _fill(features: np.ndarray, columns: tuple[int, int], lengths: np.ndarray) -> None:
    """Set the slots past the end of each node's list to -1, in place."""
    first, count = columns
    block = features[:, first : first + count]  # (n, count), a view
    block[np.arange(count) >= lengths[:, None]] = -1
