"""Datasets of tensor programs to caches: nothing is lost, and equal programs merge."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from lib.cache.manifest import read_manifest
from lib.files.parquet import write_parquet
from lib.preprocess.collection import RawFile, write_cache
from lib.programs.inputs import devices_of
from lib.programs.tensorir.accesses import around
from lib.programs.tensorir.records import read_programs, table_path
from tests.programs.builders import SPEED, write_programs, write_root


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    return write_programs(folder), read_programs(folder / "root")


def test_every_latency_of_the_source_is_there_once(made):
    cache, data = made
    rows = []
    for name in cache.names("train", "test"):
        task = cache.graph(name)
        pairs = task.program[task.owner], task.device, task.seconds
        rows += zip(*(one.tolist() for one in pairs), strict=True)
    expected = data.latencies.select("program", "device", "seconds").rows()
    assert sorted(rows) == sorted(expected)


def test_features_places_and_loops_are_the_sources_to_the_bit(made):
    cache, data = made
    loops = around(data.forest, data.accesses)
    for name in cache.names("train", "test"):
        task = cache.graph(name)
        starts = np.concatenate([[0], np.cumsum(task.counts)])
        for number, program in zip(task.original, task.program, strict=True):
            own, source = (
                slice(starts[number], starts[number + 1]),
                slice(data.starts[program], data.starts[program + 1]),
            )
            assert task.features[own].tobytes() == data.features[source].tobytes()
            np.testing.assert_array_equal(task.position[own], data.position[source])
            np.testing.assert_array_equal(task.loops[own], loops[source])


def test_equal_programs_are_one_and_keep_their_latencies(made):
    cache, _ = made
    for name in cache.names("train", "test"):
        task = cache.graph(name)
        assert len(task.counts) == 9 and len(task.original) == 10
        assert task.original[9] == task.original[0]
        assert (task.owner == 0).sum() == len(SPEED) and (task.owner == 9).sum() == 1


def test_a_peak_is_what_one_program_in_a_hundred_exceeds(made):
    cache, data = made
    for number, device in enumerate(devices_of(cache)):
        seconds = data.latencies.filter(device=number)["seconds"]
        gops = [1e6 / one / 1e9 for one in seconds]  # each task is of a million operations
        assert device["peak_gops"] == pytest.approx(np.quantile(gops, 0.99), rel=1e-3)


def test_the_manifest_knows_the_devices_and_every_file(made, tmp_path):
    cache, data = made
    told = [{k: v for k, v in one.items() if k != "peak_gops"} for one in devices_of(cache)]
    assert told == data.metadata["devices"]
    again = write_programs(tmp_path / "same")
    assert again.fingerprint == cache.fingerprint
    root = tmp_path / "same" / "root"
    frame = pl.read_parquet(table_path(root, "latencies"))
    write_parquet(frame.with_columns(pl.col("seconds") * 2), table_path(root, "latencies"))
    write_cache(tmp_path / "c", [RawFile(root / "dataset.json", "train")], {}, kind="programs")
    assert read_manifest(tmp_path / "c")["fingerprint"] != cache.fingerprint


def test_tasks_that_are_kept_for_searching_stay_out(tmp_path):
    root = write_root(tmp_path / "root")
    frame = pl.read_parquet(table_path(root, "tasks"))
    first = pl.int_range(pl.len()) == 4
    split = pl.when(first).then(pl.lit("search")).otherwise(pl.col("split"))
    write_parquet(frame.with_columns(split=split), table_path(root, "tasks"))
    files = [RawFile(root / "dataset.json", "train")]
    table, _ = write_cache(tmp_path / "cache", files, {}, kind="programs")
    assert len(table) == 11 and not [n for n in table["graph"] if n.endswith(f"{4:016x}")]
