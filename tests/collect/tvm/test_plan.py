"""Which jobs are done, and in which order."""

from __future__ import annotations

import pytest

from lib.collect.tvm import plan, raw
from lib.files.artifacts import write_json
from lib.files.errors import DataError, UserError
from tests.collect.tvm.builders import task_name, write_network, write_raw, write_task

ABOUT = {
    "distinct": 36,
    "sampled": 48,
    "flops": 1e6,
    "arguments": [{"shape": [10, 10], "dtype": "float32"}],
}


@pytest.mark.parametrize(
    ("change", "measured"),
    [
        ({}, True),
        ({"distinct": 35}, False),
        ({"flops": 1e4}, False),
        ({"flops": 2e9}, False),
        ({"arguments": [{"shape": [25_000_001], "dtype": "float32"}]}, False),
        ({"arguments": [{"shape": [12_500_001], "dtype": "int64"}]}, False),
        ({"arguments": [{"shape": [25_000_000], "dtype": "float32"}]}, True),
    ],
)
def test_tasks_that_are_tiny_or_slow_or_have_few_schedules_are_passed_over(change, measured):
    assert plan.eligible(ABOUT | change) is measured


def test_rounds_go_over_all_tasks_and_repetitions_come_in_a_later_process():
    tasks = [task_name(k) for k in range(150)]
    found = list(plan.chunks(["main", "again"], range(2), tasks, []))
    jobs = [job for chunk in found for job in chunk]
    main = [job for job in jobs if job[0] == "main"]
    assert [turn for _, turn, _ in main] == [0] * 150 + [1] * 150
    assert {task for _, _, task in main[:150]} == set(tasks)
    again = [job for job in jobs if job[0] == "again"]
    assert 20 <= len(again) <= 40
    chunk_of = {job: k for k, chunk in enumerate(found) for job in chunk}
    assert all(chunk_of[job] > chunk_of["main", job[1], job[2]] for job in again)
    assert max(len([j for j in chunk if j[0] == "main"]) for chunk in found) == plan.JOBS


def test_other_phases_come_when_asked_for():
    tasks = [task_name(k) for k in range(3)]
    found = list(plan.chunks(["search", "plain"], range(1), tasks, tasks[:1]))
    jobs = [job for chunk in found for job in chunk]
    assert jobs == [("search", 0, tasks[0]), *(("plain", 0, t) for t in sorted(tasks))]


def test_a_share_of_the_first_round_that_is_asked_for_is_timed_on_two_threads():
    tasks = [task_name(k) for k in range(200)]
    found = list(plan.chunks(["threads"], range(1, 3), tasks, []))
    jobs = [job for chunk in found for job in chunk]
    assert {(phase, turn) for phase, turn, _ in jobs} == {("threads", 1)}
    assert 30 <= len(jobs) <= 70


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


def test_tasks_for_searching_are_remembered_and_kept_from_everything_else(tmp_path):
    tasks = [write_task(tmp_path, k) for k in range(50)]
    write_network(tmp_path, "mlp.w8", dict.fromkeys(tasks, 1))
    about = plan.tasks_of(tmp_path)
    found = plan.searched(tmp_path, about, excluded=set(tasks[:5]))
    assert len(found) == plan.SEARCHED and not set(found) & set(tasks[:5])
    write_task(tmp_path, 50)
    assert plan.searched(tmp_path, plan.tasks_of(tmp_path), set()) == found


def test_networks_without_a_task_to_measure_are_one_line(tmp_path):
    write_network(tmp_path, "mlp.w8", {write_task(tmp_path, 0, distinct=1): 1})
    with pytest.raises(UserError, match="enough schedules"):
        plan.chosen_tasks(tmp_path, ["mlp.w8"])


def test_tasks_that_a_file_names_are_measured_and_no_others(tmp_path):
    tasks = [write_task(tmp_path, k) for k in range(4)]
    write_network(tmp_path, "mlp.w8", dict.fromkeys(tasks, 1))
    path = tmp_path / "tasks.txt"
    path.write_text(f"# chosen\n\nconv2d_add.{tasks[2]}\n{tasks[0]}\n{task_name(99)}\n")
    named = plan.named_tasks(path)
    assert named == [tasks[2], tasks[0], task_name(99)]
    assert plan.chosen_tasks(tmp_path, ["mlp.w8"], named) == sorted([tasks[2], tasks[0]])
    with pytest.raises(UserError, match="no task of these networks among those that were named"):
        plan.chosen_tasks(tmp_path, ["mlp.w8"], [task_name(99)])


@pytest.mark.parametrize("line", ["conv2d", "conv2d.12", "0123456789ABCDEF", "a b"])
def test_a_line_that_names_no_task_is_told(tmp_path, line):
    path = tmp_path / "tasks.txt"
    path.write_text(f"{task_name(1)}\n{line}\n")
    with pytest.raises(DataError, match="16 hexadecimal digits"):
        plan.named_tasks(path)
    with pytest.raises(DataError, match=r"none\.txt"):
        plan.named_tasks(tmp_path / "none.txt")
