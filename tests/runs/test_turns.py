"""Folds on GPUs: one at a time on each, unless a number of jobs was named."""

from __future__ import annotations

import threading

import pytest
import torch

from lib.files import locks
from lib.files.errors import UserError
from lib.runs import turns
from lib.runs.stage import Stage, parser_of, stage_script
from lib.settings import resolve
from tests.builders import COLLECTION
from tests.stages import LONGEST

GPU = torch.device("cuda")


@pytest.fixture(autouse=True)
def machine(monkeypatch) -> list[int]:
    """Which of its two GPUs were chosen."""
    chosen: list[int] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setenv(turns.TURNS, "1")
    return chosen


def test_a_fold_waits_for_the_one_that_has_its_gpu(tmp_path, machine, monkeypatch):
    order: list[str] = []
    told, said = threading.Event(), []
    monkeypatch.setattr(locks, "print", lambda text, **_: (said.append(text), told.set()), False)

    def third() -> None:
        with turns.turn_on(GPU, tmp_path, 2):
            order.append("third")
            told.set()  # too early, if it has not waited

    with turns.turn_on(GPU, tmp_path, 0), turns.turn_on(GPU, tmp_path, 1):
        waiting = threading.Thread(target=third)
        waiting.start()
        assert told.wait(LONGEST)
        order.append("first")
    waiting.join()
    assert order == ["first", "third"]
    assert "GPU 0: process" in said[0]
    assert machine == [0, 1, 0]


@pytest.mark.parametrize("why", ["cpu", "jobs"])
def test_nobody_waits_where_there_are_no_turns(tmp_path, machine, monkeypatch, why):
    if why == "jobs":
        monkeypatch.delenv(turns.TURNS)
    monkeypatch.setattr(turns, "only_writer", None)  # or it would wait for itself
    device = torch.device("cpu") if why == "cpu" else GPU
    with turns.turn_on(device, tmp_path, 0), turns.turn_on(device, tmp_path, 2):
        assert not list(tmp_path.iterdir())
    assert machine == []


def test_a_gpu_that_is_named_is_the_one(tmp_path, machine):
    with turns.turn_on(torch.device("cuda:1"), tmp_path, 0):
        assert machine == [1]


@pytest.mark.parametrize("name", ["train", "infer"])
def test_stages_have_their_turn(tmp_path, name, monkeypatch):
    script, taken = stage_script(name), []

    def turn_on(*given: object) -> None:
        taken.append(given)
        raise UserError("enough")

    monkeypatch.setattr(script, "turn_on", turn_on)
    monkeypatch.setattr(script, "resolve_device", lambda _: GPU)
    flags = ["--collection", COLLECTION, "--outputs", str(tmp_path), "--fold", "3"]
    arguments = parser_of(name).parse_args(flags)
    with (
        pytest.raises(UserError, match="enough"),
        Stage(name, arguments, resolve(arguments)) as one,
    ):
        script.main(one)
    assert taken == [(GPU, tmp_path, 3)]
