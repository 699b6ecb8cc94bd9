"""Adding to a dataset: equal programs merge, and nothing that was there is lost."""

from __future__ import annotations

import shutil

import numpy as np
import polars as pl
import pytest

from lib.collect.tvm import raw
from lib.collect.tvm.export import export
from lib.files.errors import UserError
from lib.programs.tensorir.records import DISAGREE, read_programs
from tests.collect.tvm.builders import (
    task_name,
    write_network,
    write_raw,
    write_task,
    write_work,
)

XEON = "Intel Xeon (family 6, model 207)"


@pytest.fixture
def work(tmp_path):
    """Two rounds, as they come from one sitting."""
    write_work(tmp_path / "work")
    return tmp_path / "work"


@pytest.fixture
def later(work, tmp_path):
    """The work folder of another sitting: the same tasks, nothing measured."""
    shutil.copytree(work, tmp_path / "later")
    shutil.rmtree(tmp_path / "later" / "raw")
    return tmp_path / "later"


def files(root) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in root.iterdir()}


def test_adding_the_same_again_changes_nothing(work, tmp_path):
    export(work, tmp_path / "root")
    before = files(tmp_path / "root")
    export(work, tmp_path / "root", add=True)
    assert files(tmp_path / "root") == before


def test_sittings_one_after_the_other_are_as_one(work, later, tmp_path):
    for turn in (2, 3):
        for k in (0, 3, 4):
            write_raw(later, "main", turn, task_name(k))
    write_raw(later, "plain", 0, task_name(5), n=1)
    new = write_task(later, 12)
    write_network(later, "vgg.new", {new: 3})
    write_raw(later, "main", 0, new)
    export(work, tmp_path / "root")
    export(later, tmp_path / "root", add=True)
    shutil.copytree(later, work, dirs_exist_ok=True)
    export(work, tmp_path / "whole")
    read_programs(tmp_path / "root")
    assert files(tmp_path / "root") == files(tmp_path / "whole")


def test_another_processor_adds_latencies_of_the_same_programs(work, later, tmp_path):
    export(work, tmp_path / "root")
    write_raw(later, "main", 0, task_name(4), processor=XEON, scale=3)
    before = read_programs(tmp_path / "root")
    export(later, tmp_path / "root", add=True)
    data = read_programs(tmp_path / "root")
    assert len(data.programs) == len(before.programs)
    assert len(data.latencies) == len(before.latencies) + 9
    assert len(data.metadata["devices"]) == 6 and XEON in data.metadata["hardware"]
    pairs = data.latencies.filter(pl.col("device") >= 3).join(
        data.latencies.filter(pl.col("device") < 3).with_columns(pl.col("device") + 3),
        on=["program", "device"],
    )
    np.testing.assert_allclose(pairs["seconds"] / pairs["seconds_right"], 3, rtol=1e-5)


@pytest.mark.parametrize(("scale", "flag"), [(1.05, 0), (1.3, DISAGREE)])
def test_the_same_device_again_is_a_second_process(work, later, tmp_path, scale, flag):
    export(work, tmp_path / "root")
    path = write_raw(later, "main", 0, task_name(4), scale=scale)
    export(later, tmp_path / "root", add=True)
    data = read_programs(tmp_path / "root")
    hashes = pl.Series(raw.read(path).hash.tolist())
    rows = data.programs["schedule"].is_in(hashes.implode()).arg_true()
    found = data.latencies.filter(pl.col("program").is_in(rows.implode()))
    np.testing.assert_allclose(found["again"] / found["seconds"], scale, rtol=1e-5)
    assert set(found["flags"]) == {flag} and len(found) == 9


def test_what_the_work_folder_lacks_is_not_lost_by_mistake(work, later, tmp_path):
    export(work, tmp_path / "root")
    before = files(tmp_path / "root")
    write_raw(later, "main", 0, task_name(4))
    with pytest.raises(UserError, match="has 68 programs that "):
        export(later, tmp_path / "root")
    assert files(tmp_path / "root") == before
