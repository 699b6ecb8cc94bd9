"""Which jobs are done, in which order, on which instruction sets."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lib.collect.tvm import plan, raw
from lib.collect.tvm.__main__ import check_device, remember
from lib.files import processor
from lib.files.artifacts import write_json
from lib.files.errors import UserError
from tests.collect.tvm.builders import task_name, write_raw, write_task
from tests.stages import REPOSITORY

METADATA = {
    "flops": 1e6,
    "arguments": [{"shape": [10, 10], "dtype": "float32"}],
}


@pytest.mark.parametrize(
    ("change", "measured"),
    [
        ({}, True),
        ({"flops": 5e9}, False),
        ({"flops": 1e4}, False),
        ({"flops": 0, "arguments": [{"shape": [1 << 15], "dtype": "float32"}]}, True),
        ({"arguments": [{"shape": [56_250_001], "dtype": "int64"}]}, False),
    ],
)
def test_tasks_that_are_tiny_or_slow_are_passed_over(change, measured):
    assert plan.eligible(METADATA | change) is measured


def test_rounds_go_over_all_tasks_and_repetitions_come_in_a_later_process():
    tasks = [task_name(k) for k in range(150)]
    found = list(plan.chunks(range(2), tasks, once=False))
    jobs = [job for chunk in found for job in chunk]
    main = [job for job in jobs if job[0] == "main"]
    assert [turn for _, turn, _ in main] == [0] * 150 + [1] * 150
    assert {task for _, _, task in main[:150]} == set(tasks)
    again = [job for job in jobs if job[0] == "again"]
    assert 20 <= len(again) <= 40
    chunk_of = {job: k for k, chunk in enumerate(found) for job in chunk}
    assert all(chunk_of[job] > chunk_of["main", job[1], job[2]] for job in again)
    assert max(len([j for j in chunk if j[0] == "main"]) for chunk in found) == plan.JOBS


def test_what_is_done_or_given_up_is_not_done_again(tmp_path):
    tasks = [write_task(tmp_path, k) for k in range(4)]
    write_raw(tmp_path, "main", 0, tasks[0])
    write_json(raw.failed(tmp_path, "main", 0, tasks[1]), {"error": "it crashed"})
    jobs = [(phase, 0, task) for phase in ("main", "again") for task in tasks]
    assert plan.to_do(tmp_path, jobs) == [
        ("main", 0, tasks[2]),
        ("main", 0, tasks[3]),
        ("again", 0, tasks[0]),  # of the others there is nothing yet to time again
    ]


def test_bundled_networks_are_written_with_their_tasks(tmp_path):
    assert plan.write_bundled(tmp_path, ["mlp.w256*", "no_such*"]) == ["mlp.w256_l3.b1"]
    assert plan.write_bundled(tmp_path, ["no_such*"]) == []
    (calls,) = plan.networks_of(tmp_path).values()
    tasks = plan.tasks_of(tmp_path)
    assert {*calls} == {*tasks} and all("module" not in metadata for metadata in tasks.values())
    assert plan.eligible_tasks(tmp_path, ["mlp.w256_l3.b1"])
    task, *_ = tasks
    assert plan.write_bundled(tmp_path / "one", [task, "no_such"]) == [task]
    assert plan.networks_of(tmp_path / "one") == {task: {task: 1}}


def test_a_processor_measures_the_instruction_sets_that_it_has(tmp_path, monkeypatch):
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text("flags\t\t: fpu sse sse2 avx avx2 fma\n")
    for device in ("native", "sse2", "avx2"):
        check_device(device)
    with pytest.raises(UserError, match="--device avx512: this processor has no avx512"):
        check_device("avx512")
    with pytest.raises(UserError, match="--device neon: choose from native, sse2, avx2, avx512"):
        check_device("neon")


def test_a_folder_is_for_the_device_that_it_began_with(tmp_path):
    for _ in range(2):
        remember(tmp_path / "work" / "devices.json", "native")
    with pytest.raises(UserError, match=r"--device avx2: .*work measures native; another"):
        remember(tmp_path / "work" / "devices.json", "avx2")


def test_a_collection_needs_nothing_that_its_environment_lacks():
    """Among what it does not list is polars, which the tables of a dataset are read by."""
    code = "import sys; sys.modules['polars'] = None; import lib.collect.tvm.__main__"
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)
