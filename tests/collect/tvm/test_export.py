"""The export of measured programs, on synthetic raw files."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from lib.collect.tvm import raw
from lib.collect.tvm.export import export
from lib.collect.tvm.networks import TEST
from lib.files.artifacts import read_json
from lib.files.errors import DataError, UserError
from lib.programs.tensorir.records import DISAGREE, SLOW, read_programs
from lib.programs.tensorir.tree import positions
from tests.collect.tvm.builders import REFERENCE, task_name, write_raw, write_work


@pytest.fixture
def work(tmp_path):
    write_work(tmp_path / "work")
    return tmp_path / "work"


def programs_of(data, task: str) -> pl.DataFrame:
    """A task's programs with their row numbers."""
    number = data.tasks["task"].to_list().index(task)
    return data.programs.with_row_index("program").filter(pl.col("task") == number)


def test_what_is_exported_reads_back(work, tmp_path):
    export(work, tmp_path / "root")
    data = read_programs(tmp_path / "root")
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
    names = [d["instructions"] for d in data.about["devices"]]
    assert names == ["sse2", "avx2", "avx512"]


def test_the_same_files_give_the_same_bytes(work, tmp_path):
    export(work, tmp_path / "one")
    export(work, tmp_path / "two")
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_the_readme_tells_of_what_there_is(work, tmp_path):
    export(work, tmp_path / "root")
    text = (tmp_path / "root" / "README.md").read_text()
    assert "named by their processor" in text and "named by a set" not in text
    tested = set(read_programs(tmp_path / "root").networks["network"]) & set(TEST)
    assert tested and all((f"- `{name}`\n" in text) == (name in tested) for name in TEST)


def test_rounds_from_a_hundred_on_count(work, tmp_path):
    before = export(work, tmp_path / "one")["programs"]
    write_raw(work, "main", 100, task_name(4))
    after = export(work, tmp_path / "two")["programs"]
    assert len(after) > len(before) and after["round"].max() == 100


def test_every_task_of_the_test_networks_is_kept_from_training(work, tmp_path):
    export(work, tmp_path / "root")
    data = read_programs(tmp_path / "root")
    split = dict(zip(data.tasks["task"], data.tasks["split"], strict=True))
    # Task 2 is called by both networks.
    assert [split[task_name(k)] for k in (0, 1, 2, 3)] == ["test", "test", "test", "train"]
    assert split[task_name(11)] == "search"
    assert len(programs_of(data, task_name(11))) == 5
    calls = data.networks.filter(pl.col("network") == "resnet50.w32_s64.b1")["calls"]
    assert sorted(calls) == [1, 1, 2]


def test_the_label_is_the_fastest_reading_and_long_first_runs_count(work, tmp_path):
    seconds = np.full((3, 1, 11), np.nan)
    seconds[:, 0, :3] = [[0.001, 0.004, 0.003], [0.021, 0.03, 0.025], [0.5, 0.6, np.nan]]
    write_raw(work, "main", 0, task_name(3), n=1, seconds=seconds)
    export(work, tmp_path / "root")
    data = read_programs(tmp_path / "root")
    program = programs_of(data, task_name(3)).filter(pl.col("round") == 0)["program"][0]
    found = data.latencies.filter(pl.col("program") == program).sort("device")["seconds"]
    np.testing.assert_allclose(found, [0.003, 0.021, 0.5], rtol=1e-6)


def test_a_second_process_stands_beside_the_first_and_disagreement_is_flagged(work, tmp_path):
    write_raw(work, "again", 0, task_name(3), scale=1.2)
    export(work, tmp_path / "root")
    data = read_programs(tmp_path / "root")
    rows = programs_of(data, task_name(3))
    for turn, ratio, flag in ((0, 1.2, DISAGREE), (1, 1.02, 0)):
        programs = rows.filter(pl.col("round") == turn)["program"].implode()
        found = data.latencies.filter(pl.col("program").is_in(programs))
        np.testing.assert_allclose(found["again"] / found["seconds"], ratio, rtol=1e-5)
        assert set(found["flags"]) == {flag}
    once = programs_of(data, task_name(4))["program"].implode()
    assert data.latencies.filter(pl.col("program").is_in(once))["again"].null_count() == 18
    noise = read_json(tmp_path / "root" / "dataset.json")["noise"]
    assert all(n["programs"] == 24 and n["median"] == 0.0198 for n in noise.values())


def test_a_repetition_of_other_programs_is_no_repetition(work, tmp_path):
    write_raw(work, "again", 0, task_name(3), hash=np.array(["f" * 16] * 3))
    export(work, tmp_path / "root")
    data = read_programs(tmp_path / "root")
    rows = programs_of(data, task_name(3)).filter(pl.col("round") == 0)["program"].implode()
    assert data.latencies.filter(pl.col("program").is_in(rows))["again"].null_count() == 9


def test_a_slow_machine_is_flagged(work, tmp_path):
    write_raw(work, "main", 0, task_name(4), reference=np.full(10, 1.2 * REFERENCE))
    export(work, tmp_path / "root")
    data = read_programs(tmp_path / "root")
    slow = data.latencies.filter(pl.col("flags") == SLOW)["program"].unique()
    rows = programs_of(data, task_name(4)).filter(pl.col("round") == 0)
    assert sorted(slow) == rows["program"].to_list()


def test_what_a_search_has_found_is_measured_as_well_and_nobody_knows_when_it_was_slow(
    work, tmp_path
):
    write_raw(work, raw.FOUND, 7, task_name(4), reference=np.ones(10))
    export(work, tmp_path / "root")
    data = read_programs(tmp_path / "root")
    rows = programs_of(data, task_name(4)).filter(pl.col("round") == 7)["program"]
    latencies = data.latencies.filter(pl.col("program").is_in(rows.implode()))
    assert len(rows) == 3 and len(latencies) == 9 and latencies["flags"].max() == 0


def test_programs_that_compute_something_else_or_do_not_join_are_left_out(work, tmp_path):
    check = np.tile([1.0, 0.01], (3, 3, 1))
    check[2, 1] = [1.0, 0.02]
    joined = np.array([True, True, False])
    write_raw(work, "main", 0, task_name(4), check=check, joined=joined)
    export(work, tmp_path / "root")
    data = read_programs(tmp_path / "root")
    rows = programs_of(data, task_name(4)).filter(pl.col("round") == 0)
    assert (
        rows["schedule"].to_list()
        == raw.read(raw.path(work, "main", 0, task_name(4))).hash.tolist()[:1]
    )
    assert data.about["dropped"] == {"another output": 1, "features and tree disagree": 1}
    assert "1 (another output)" in (tmp_path / "root" / "README.md").read_text()


def test_another_processor_and_two_threads_are_devices_of_their_own(work, tmp_path):
    write_raw(work, "main", 0, task_name(4), processor="Intel Xeon (family 6, model 207)")
    write_raw(work, "threads", 0, task_name(3), scale=0.6, threads=2)
    export(work, tmp_path / "root")
    data = read_programs(tmp_path / "root")
    names = [d["name"] for d in data.about["devices"]]
    assert len(names) == 9
    assert {"amd-epyc-26-2.core-avx2.2t", "intel-xeon-6-207.core-avx2.1t"} <= set(names)
    two = data.latencies.filter(pl.col("device") == names.index("amd-epyc-26-2.core-avx2.2t"))
    assert len(two) == 3


def test_a_repetition_on_another_processor_is_a_device_and_no_noise(work, tmp_path):
    export(work, tmp_path / "before")
    write_raw(work, "again", 0, task_name(3), scale=2, processor="Intel Xeon (family 6, model 207)")
    export(work, tmp_path / "root")
    data, before = read_programs(tmp_path / "root"), read_programs(tmp_path / "before")
    assert len(data.latencies) == len(before.latencies) + 9
    assert data.latencies["again"].null_count() == before.latencies["again"].null_count() + 18
    assert set(data.latencies["flags"]) == {0}
    other = [d["name"].startswith("intel") for d in data.about["devices"]]
    assert sum(other) == 3


def test_unscheduled_latencies_have_a_table(work, tmp_path):
    write_raw(work, "plain", 0, task_name(5), n=1)
    export(work, tmp_path / "root")
    found = read_programs(tmp_path / "root").unscheduled
    tasks = read_programs(tmp_path / "root").tasks["task"]
    assert found.shape == (3, 3) and {tasks[t] for t in found["task"]} == {task_name(5)}


def test_jobs_without_programs_are_passed_over(work, tmp_path):
    write_raw(work, "main", 2, task_name(4), n=0, seconds=np.zeros((3, 0, 11)))
    export(work, tmp_path / "root")
    assert len(programs_of(read_programs(tmp_path / "root"), task_name(4))) == 6


def test_nothing_to_export_is_one_line(tmp_path):
    with pytest.raises(UserError, match="nothing is measured"):
        export(tmp_path / "none", tmp_path / "root")
    assert not (tmp_path / "root").exists()


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


def test_programs_of_a_task_that_no_network_calls_any_more_are_left_out(work, tmp_path):
    for phase in ("main", "plain"):
        write_raw(work, phase, 0, task_name(99))
    tables = export(work, tmp_path / "root")
    assert task_name(99) not in tables["tasks"]["task"]
    dropped = read_json(tmp_path / "root" / "dataset.json")["dropped"]
    assert dropped["of a task that no network calls"] > 0
