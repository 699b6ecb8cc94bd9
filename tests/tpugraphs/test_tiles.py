"""Tile configurations to rank instead of a kernel's own."""

from __future__ import annotations

import numpy as np
import pytest

from lib.files.errors import DataError
from lib.tpugraphs.tiles import bounds_of, with_bounds
from tests.tpugraphs.builders import tile_kernel


def test_bounds_as_json_lines_and_as_the_official_array(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text('{"kernel_bounds": [2, 3], "output_bounds": [8, 0, 128]}\n\n{}\n')
    found = with_bounds(tile_kernel(), path)
    assert found.config_feat.shape == (2, 24)
    assert found.config_feat[0, :8].tolist() == [2, 3, 0, 0, 0, 0, 5, 6]
    assert found.config_feat[0, 8:16].tolist() == [8, 0, 128, 0, 0, 0, 136, 0]
    assert not found.config_feat[1].any()
    assert found.config_runtime.tolist() == found.config_runtime_normalizers.tolist() == [0, 0]
    wanted = {"kernel_bounds": [2, 3], "output_bounds": [8, 0, 128], "input_bounds": []}
    assert bounds_of(found.config_feat[0]) == wanted
    np.savez(tmp_path / "c.npz", config_feat=found.config_feat)
    again = with_bounds(tile_kernel(), tmp_path / "c.npz")
    assert np.array_equal(again.config_feat, found.config_feat)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", "configurations: found none"),
        ('{"tile": [1]}', "line 1, tile: found no such list, expected one of kernel_bounds, "),
        ('{"input_bounds": 3}', "line 1, input_bounds: found 3, expected a list"),
        ('{"input_bounds": [2147483648]}', "expected a list of whole numbers"),
        ('{"input_bounds": [1], "input_bounds": [1]}', "line 1: found input_bounds twice"),
        ("[1]", "line 1: found list, expected a JSON object"),
    ],
)
def test_bad_bounds_are_told_in_one_line(tmp_path, line, told):
    (tmp_path / "c.jsonl").write_text(line)
    with pytest.raises(DataError) as error:
        with_bounds(tile_kernel(), tmp_path / "c.jsonl")
    assert told in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("features", [np.zeros((2, 23), np.float32), np.full((2, 24), np.nan)])
def test_arrays_that_are_no_bounds(tmp_path, features):
    np.savez(tmp_path / "c.npz", config_feat=features)
    with pytest.raises(DataError, match=r"c\.npz: config_feat"):
        with_bounds(tile_kernel(), tmp_path / "c.npz")
