"""What a long run says of itself: a line now and then, in whole lines."""

import pytest

from lib.files import progress
from lib.files.progress import LOGGED, Lines
from tests.stages import REPOSITORY


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets, in seconds."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_line_each_half_minute_says_what_is_done_and_how_long_it_takes_yet(clock, capsys):
    lines = Lines("train: x fold 0", 1000, "step")
    for done in range(1, 76):
        clock[0] += 1
        lines.note("loss 0.5")
        lines.at(done)
    told = capsys.readouterr().out.splitlines()
    assert told == [
        "train: x fold 0: 30 of 1,000 steps, 16 min 10 s left, loss 0.5",
        "train: x fold 0: 60 of 1,000 steps, 15 min 40 s left, loss 0.5",
    ]


def test_a_resumed_run_goes_by_its_own_steps(clock, capsys):
    lines = Lines("train", 1000, "step")
    for done in range(901, 933):
        clock[0] += 1
        lines.at(done)
    assert capsys.readouterr().out == "train: 930 of 1,000 steps, 1 min 10 s left\n"


def test_a_short_run_says_nothing_and_a_finished_one_no_more(clock, capsys):
    items = []
    for item in Lines("infer", 3, "graph").over("abc"):
        items.append(item)
        clock[0] += LOGGED / 4 if item != "c" else 2 * LOGGED
    assert items == list("abc") and not capsys.readouterr().out


def test_a_part_that_takes_long_is_said_to_go_on(monkeypatch, capsys):
    """From the first one on, of which nobody knows yet how long it takes."""
    monkeypatch.setattr(progress, "LOGGED", 0.01)
    list(Lines("collect", 2, "program").over(wait_for(capsys)))


def wait_for(capsys):
    for expected in ("collect: 0 of 2 programs\n", "collect: 1 of 2 programs, "):
        told = ""
        while expected not in told:
            told += capsys.readouterr().out
        yield expected


def test_no_command_has_a_bar_which_is_silent_in_a_log():
    bars = [path for path in (REPOSITORY / "lib").rglob("*.py") if "tqdm" in path.read_text()]
    assert not bars
