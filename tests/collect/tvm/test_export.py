"""The export of measured programs, on synthetic raw files."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from lib.collect.tvm import raw
from lib.collect.tvm.export import export
from lib.files.errors import DataError
from lib.programs.tensorir.records import DISAGREE, SLOW, read_programs
from lib.programs.tensorir.tree import positions
from tests.collect.tvm.builders import REFERENCE, TESTED, task_name, write_raw, write_work


@pytest.fixture
def work(tmp_path):
    write_work(tmp_path / "work")
    return tmp_path / "work"


@pytest.fixture
def exported(work, tmp_path):
    """What reads the dataset that is exported of the work folder as it is then."""

    def read():
        export(work, tmp_path / "root")
        return read_programs(tmp_path / "root")

    return read


def programs_of(data, task: str) -> pl.DataFrame:
    """A task's programs with their row numbers."""
    number = data.tasks["task"].to_list().index(task)
    return data.programs.with_row_index("program").filter(pl.col("task") == number)


def test_what_is_exported_reads_back(work, exported):
    data = exported()
    assert len(data.programs) == 11 * 2 * 3 + 5
    assert len(data.latencies) == 3 * len(data.programs)
    one = raw.read(raw.path(work, "main", 1, task_name(4)))
    rows = programs_of(data, task_name(4)).filter(pl.col("round") == 1)
    assert rows["schedule"].to_list() == one.hash.tolist()
    for k, program in enumerate(rows["program"]):
        part = slice(data.starts[program], data.starts[program + 1])
        np.testing.assert_array_equal(data.features[part], one.tables()[k].astype(np.float16))
        tree = one.forest().tree(k)
        np.testing.assert_array_equal(data.position[part], positions(tree))
        np.testing.assert_array_equal(data.forest.tree(program).extent, tree.extent)
        timed = data.latencies.filter(pl.col("program") == program).sort("device")
        np.testing.assert_allclose(timed["seconds"], one.arrays["seconds"][:, k, 2], rtol=1e-6)
    names = [d["instructions"] for d in data.metadata["devices"]]
    assert names == ["sse2", "avx2", "avx512"]


def test_the_same_files_give_the_same_bytes(work, tmp_path):
    export(work, tmp_path / "one")
    export(work, tmp_path / "two")
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_every_task_of_the_test_networks_is_kept_from_training(work, exported):
    data = exported()
    split = dict(zip(data.tasks["task"], data.tasks["split"], strict=True))
    # Task 2 is called by both networks.
    assert [split[task_name(k)] for k in (0, 1, 2, 3)] == ["test", "test", "test", "train"]
    assert split[task_name(11)] == "search"
    assert len(programs_of(data, task_name(11))) == 5
    calls = data.networks.filter(pl.col("network") == TESTED)["calls"]
    assert sorted(calls) == [1, 1, 2] and data.metadata["test_networks"] == [TESTED]


def test_the_label_is_the_fastest_reading_and_long_first_runs_count(work, exported):
    seconds = np.full((3, 1, 11), np.nan)
    seconds[:, 0, :3] = [[0.001, 0.004, 0.003], [0.021, 0.03, 0.025], [0.5, 0.6, np.nan]]
    write_raw(work, "main", 0, task_name(3), n=1, seconds=seconds)
    data = exported()
    program = programs_of(data, task_name(3)).filter(pl.col("round") == 0)["program"][0]
    found = data.latencies.filter(pl.col("program") == program).sort("device")["seconds"]
    np.testing.assert_allclose(found, [0.003, 0.021, 0.5], rtol=1e-6)


def test_a_second_process_stands_beside_the_first_and_disagreement_is_flagged(work, exported):
    write_raw(work, "again", 0, task_name(3), scale=1.2)
    data = exported()
    rows = programs_of(data, task_name(3))
    for turn, ratio, flag in ((0, 1.2, DISAGREE), (1, 1.02, 0)):
        programs = rows.filter(pl.col("round") == turn)["program"].implode()
        found = data.latencies.filter(pl.col("program").is_in(programs))
        np.testing.assert_allclose(found["again"] / found["seconds"], ratio, rtol=1e-5)
        assert set(found["flags"]) == {flag}
    once = programs_of(data, task_name(4))["program"].implode()
    assert data.latencies.filter(pl.col("program").is_in(once))["again"].null_count() == 18
    noise = data.metadata["noise"]
    assert all(n["programs"] == 24 and n["median"] == 0.0198 for n in noise.values())


def test_a_slow_machine_is_flagged(work, exported):
    write_raw(work, "main", 0, task_name(4), reference=np.full(10, 1.2 * REFERENCE))
    data = exported()
    slow = data.latencies.filter(pl.col("flags") == SLOW)["program"].unique()
    rows = programs_of(data, task_name(4)).filter(pl.col("round") == 0)
    assert sorted(slow) == rows["program"].to_list()


def test_programs_that_compute_something_else_or_do_not_join_are_left_out(work, exported):
    check = np.tile([1.0, 0.01], (3, 3, 1))
    check[2, 1] = [1.0, 0.02]
    joined = np.array([True, True, False])
    write_raw(work, "main", 0, task_name(4), check=check, joined=joined)
    data = exported()
    rows = programs_of(data, task_name(4)).filter(pl.col("round") == 0)
    assert (
        rows["schedule"].to_list()
        == raw.read(raw.path(work, "main", 0, task_name(4))).hash.tolist()[:1]
    )
    assert data.metadata["dropped"] == {"another output": 1, "features and tree disagree": 1}


def test_another_processor_and_two_threads_are_devices_of_their_own(work, exported):
    write_raw(work, "main", 0, task_name(4), processor="Intel Xeon (family 6, model 207)")
    write_raw(work, "threads", 0, task_name(3), scale=0.6, threads=2)
    data = exported()
    names = [d["name"] for d in data.metadata["devices"]]
    assert len(names) == 9
    assert {"amd-epyc-26-2.core-avx2.2t", "intel-xeon-6-207.core-avx2.1t"} <= set(names)
    two = data.latencies.filter(pl.col("device") == names.index("amd-epyc-26-2.core-avx2.2t"))
    assert len(two) == 3


@pytest.mark.parametrize("kept", [0, 100, 1000])
def test_a_raw_file_that_is_cut_is_one_line_and_nothing_is_written(work, tmp_path, kept):
    place = raw.path(work, "main", 0, task_name(4))
    place.write_bytes(place.read_bytes()[:kept])
    with pytest.raises(DataError, match=place.name):
        export(work, tmp_path / "root")
    assert not (tmp_path / "root").exists()


BROKEN = {
    "no seconds": {"seconds": np.zeros((3, 3))},
    "seconds of other programs": {"seconds": np.ones((3, 2, 11))},
    "no reading": {"seconds": np.full((3, 3, 11), np.nan)},
    "a negative time": {"seconds": np.full((3, 3, 11), -1.0)},
    "fewer features": {"features": np.zeros((1, 164), np.float32)},
    "features that are no numbers": {"features": np.full((6, 164), np.nan, np.float32)},
    "counts that do not add up": {"leaves": np.array([1, 1, 99], np.int32)},
    "negative counts": {"nodes": np.array([-1, 1, 9], np.int32)},
    "trees that are none": {"kind": np.zeros(18, np.int8)},
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_raw_file_that_says_what_cannot_be_is_one_line(work, tmp_path, name):
    place = write_raw(work, "main", 0, task_name(4), **BROKEN[name])
    with pytest.raises(DataError, match=place.name):
        export(work, tmp_path / "root")
    assert not (tmp_path / "root").exists()


def test_programs_of_a_task_that_no_network_calls_any_more_are_left_out(work, exported):
    for phase in ("main", "plain"):
        write_raw(work, phase, 0, task_name(99))
    data = exported()
    assert task_name(99) not in data.tasks["task"]
    assert data.metadata["dropped"]["of a task that no network calls"] > 0
