"""Stage 1 on tile files: npz and tuning protobufs, and what the cache gives back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lib.cache.kernel import CachedKernel
from lib.cache.reader import Cache
from lib.files.errors import UserError
from lib.preprocess.collection import RawFile, write_cache
from lib.tpugraphs.schema_pb2 import TuningData
from tests.kernels import COLLECTION, tile_kernel, write_kernels
from tests.tpugraphs.builders import chain, tile_run

SETTINGS = {"collection": COLLECTION}


def cached(tmp_path: Path, *files: Path, **options) -> Cache:
    raw = [RawFile(path, "train") for path in files]
    write_cache(tmp_path / "cache", raw, SETTINGS, kind="tile", **options)
    return Cache(tmp_path / "cache")


def tuning(path: Path, *names: str, runs: int = 2) -> Path:
    """A tuning protobuf with a kernel of each name, of ``runs`` configurations."""
    data = TuningData()
    for name in names:
        module = data.modules.add(module=chain(name))
        module.runs.append(tile_run(7, default=True, output_bounds=[2, 3]))
        module.runs.extend(tile_run(9, output_bounds=[1, 1]) for _ in range(runs - 1))
    path.write_bytes(data.SerializeToString())
    return path


def test_kernels_survive_the_cache(tmp_path):
    kernels = [tile_kernel(f"k.{n}.v1", n, nodes=n, configurations=c) for n, c in ((2, 1), (9, 70))]
    write_kernels(tmp_path / "raw", kernels)
    cache = cached(tmp_path, *sorted((tmp_path / "raw").iterdir()), jobs=2)
    assert cache.names("train") == ["k.2.v1", "k.9.v1"]
    for kernel in kernels:
        found = cache.graph(kernel.name)
        assert isinstance(found, CachedKernel)
        assert found.labelled
        expected = CachedKernel.of(kernel, "train")
        for name in ("node_feat", "node_opcode", "edges", "config_feat", "runtime", "normalizer"):
            ours, theirs = getattr(found, name), getattr(expected, name)
            assert ours.dtype == theirs.dtype, name
            assert np.array_equal(ours, theirs), name
        assert np.array_equal(found.config_feat, kernel.config_feat)
        assert np.array_equal(found.original, np.arange(len(kernel.config_runtime)))


def test_all_kernels_of_a_protobuf(tmp_path):
    path = tuning(tmp_path / "many.pb", "fusion.1", "copy/2", "fusion.1")
    cache = cached(tmp_path, path)
    assert cache.names("train") == ["copy_2", "fusion.1", "fusion.1-2"]
    assert cache.graph("copy_2").target.tolist() == [1, 9 / 7]
    assert cache.table["source"].unique().to_list() == ["many.pb"]
    assert cache.table["source_configurations"].to_list() == [2, 2, 2]


def test_a_kernel_that_is_in_two_files(tmp_path):
    paths = [tuning(tmp_path / name, "fusion.1") for name in ("a.pb", "b.pb")]
    with pytest.raises(UserError, match=r"b\.pb: graph fusion\.1 is in another file too"):
        cached(tmp_path, *paths)
    assert not (tmp_path / "cache").exists()
