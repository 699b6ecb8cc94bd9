"""The export of measured programs, on synthetic raw files."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from lib.collect.tvm import raw
from lib.collect.tvm.export import export
from lib.collect.tvm.plan import task_path
from lib.files.artifacts import read_json, write_json
from lib.files.errors import UserError
from lib.programs.tensorir.records import read_programs
from lib.programs.tensorir.tree import positions
from lib.tpugraphs.dataset import read_dataset
from tests.collect.tvm.builders import TESTED, task_name, write_raw, write_work


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


def test_what_is_exported_reads_back(work, exported, tmp_path):
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
    assert read_dataset(tmp_path / "root").name == "root"  # so stages know what they train on


def test_a_long_name_of_operators_is_cut(work, exported):
    path = task_path(work, task_name(4))
    write_json(path, read_json(path) | {"operators": "add_" * 100})
    assert "add_" * 50 in exported().tasks["operators"].to_list()


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


def test_a_second_process_stands_beside_the_first(work, exported):
    write_raw(work, "again", 0, task_name(3), scale=1.2)
    data = exported()
    rows = programs_of(data, task_name(3))
    for turn, ratio in ((0, 1.2), (1, 1.02)):
        programs = rows.filter(pl.col("round") == turn)["program"].implode()
        found = data.latencies.filter(pl.col("program").is_in(programs))
        np.testing.assert_allclose(found["again"] / found["seconds"], ratio, rtol=1e-5)
    once = programs_of(data, task_name(4))["program"].implode()
    assert data.latencies.filter(pl.col("program").is_in(once))["again"].null_count() == 18


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


def test_a_program_that_makes_zeros_alone_has_no_row(work, exported):
    path = raw.path(work, "main", 0, task_name(4))
    measured, nothing = raw.read(path), np.zeros(3, np.int32)
    arrays = measured.arrays | {"leaves": nothing, "features": measured.arrays["features"][:0]}
    arrays["accesses"] = measured.arrays["accesses"][:0]
    raw.write(path, arrays | {"hash": measured.hash}, measured.metadata)
    assert not len(programs_of(exported(), task_name(4)).filter(pl.col("round") == 0))


def test_programs_that_the_dataset_has_are_not_lost(work, tmp_path):
    export(work, tmp_path / "root")
    raw.path(work, "main", 1, task_name(4)).unlink()
    with pytest.raises(UserError, match=r"has 3 programs that .* lacks; another DATA= leaves them"):
        export(work, tmp_path / "root")
    assert len(read_programs(tmp_path / "root").programs) == 71
