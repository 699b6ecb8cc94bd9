"""Tile configurations as people read them."""

from __future__ import annotations

from lib.tpugraphs.protobuf import tile_features
from lib.tpugraphs.schema_pb2 import TileSizeConfig
from lib.tpugraphs.tiles import bounds_of


def test_bounds_are_read_from_features():
    config = TileSizeConfig(kernel_bounds=[2, 3], output_bounds=[8, 0, 128])
    wanted = {"kernel_bounds": [2, 3], "output_bounds": [8, 0, 128], "input_bounds": []}
    assert bounds_of(tile_features(config)) == wanted
