"""The -1 padding rebuilt from 0-padded features against the official code's."""

from __future__ import annotations

import numpy as np

from lib.tpugraphs.encoding import encode_module
from lib.tpugraphs.padding import detect_padding, pad_with_minus_one
from tests.tpugraphs.builders import one
from tests.tpugraphs.conftest import same_bits

REBUILT = [*range(95, 99), *range(101, 105), *range(134, 140)]


def check(golden):
    plain, opcode = golden["node_feat"], golden["node_opcode"]
    official = golden["node_feat_pad_minus1"]
    before = plain.copy()
    rebuilt = pad_with_minus_one(plain, opcode)
    assert np.array_equal(rebuilt[:, REBUILT], official[:, REBUILT])
    assert np.array_equal(np.delete(rebuilt, REBUILT, 1), np.delete(plain, REBUILT, 1))
    assert same_bits(plain, before)
    assert detect_padding(plain) == 0
    assert detect_padding(rebuilt) == detect_padding(official) == -1
    assert same_bits(pad_with_minus_one(official, opcode), official)


def test_layout_golden(layout_golden):
    check(layout_golden)


def test_tile_golden(tile_golden):
    check(tile_golden[1])


def test_lists_of_a_convolution():
    numbers = {"input_spatial_dimensions": [1, 2], "kernel_spatial_dimensions": [0, 1]}
    hlo = one(
        opcode="convolution",
        shape={"dimensions": [8, 4, 4, 2], "layout": {"minor_to_major": [3, 2, 1, 0]}},
        window={"dimensions": [{"size": 3, "window_reversal": True}, {"size": 3}]},
        convolution_dimension_numbers=numbers,
    )
    plain, official = encode_module(hlo, 0), encode_module(hlo, -1)
    rebuilt = pad_with_minus_one(plain.node_feat, plain.node_opcode)
    assert np.array_equal(rebuilt[:, REBUILT], official.node_feat[:, REBUILT])
    assert rebuilt[0, 134:140].tolist() == [3, 2, 1, 0, -1, -1]
