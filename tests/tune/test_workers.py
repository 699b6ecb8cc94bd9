"""Processes that run trials: what they say, and how they end."""

from __future__ import annotations

import os
import signal

from lib.tune.workers import Message, Task, Workers
from tests.builders import tiny_settings
from tests.tune.test_trial import curve

SETTINGS = tiny_settings(folds_total=2)


def heard(workers: Workers, until: int) -> list[Message]:
    """What workers say until so many trials are over; each pass is answered."""
    found: list[Message] = []
    while sum(one.what != "pass" for one in found) < until:
        for said in workers.hear():
            found.append(said)
            if said.what == "pass":
                workers.answer(said.key, said.key != "ended early" or said.step < 2)
    return found


def test_workers_run_trials_side_by_side_one_after_another_and_are_heard_dying(cache, tmp_path):
    other = tiny_settings(folds_total=2, seed=1)
    with Workers(2, cache.folder, tmp_path) as workers:
        workers.start(Task("a", SETTINGS, 1))
        assert workers.free
        workers.start(Task("b", other, 1))
        assert not workers.free
        said = heard(workers, 2)
        for key, settings in (("a", SETTINGS), ("b", other)):
            value, told = curve(cache, tmp_path / "here", settings=settings)
            own = [one for one in said if one.key == key]
            assert own[-1] == Message(key, "ended", value=value)
            assert [(one.step, one.value) for one in own[:-1]] == told
        processes = {one.process.pid for one in workers.idle}

        workers.start(Task("ended early", SETTINGS, 1))
        workers.start(Task("wrong", SETTINGS, 3))
        ends = {one.key: one for one in heard(workers, 2) if one.what != "pass"}
        assert (ends["ended early"].what, ends["ended early"].value) == ("ended", None)
        assert ends["wrong"].what == "failed"
        assert ends["wrong"].why.startswith("--fold 2: must be")
        assert {one.process.pid for one in workers.idle} == processes  # the same ones

        workers.start(Task("killed", SETTINGS, 1))
        (worker,) = workers.busy.values()
        os.kill(worker.process.pid, signal.SIGKILL)
        assert heard(workers, 1)[-1] == Message("killed", "died", why="signal 9")
        last = workers.idle[0]
    assert not last.process.is_alive()
