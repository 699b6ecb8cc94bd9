"""Which trials a search runs, prunes, repeats and counts; training is a formula here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from lib.files.errors import DataError, UserError
from lib.settings import Settings
from lib.settings.file import read_settings
from lib.settings.space import space_of
from lib.tune.results import check_text, counts, report_text, verdict, write_best
from lib.tune.search import Tuning
from lib.tune.storage import completed, failures, finished, open_study
from lib.tune.workers import Message, Task
from tests.builders import tiny_settings

SETTINGS = tiny_settings(folds_total=2)
SEARCHED = {"learning_rate", "channels"}
PASSES = 4
optuna.logging.set_verbosity(optuna.logging.ERROR)


class Killed(BaseException):
    """The process is gone."""


def formula(settings: Settings) -> float:
    """A value that is highest at a rate of 0.005 and 128 channels."""
    rate = abs(settings.learning_rate - 0.005) * 40
    return 0.7 - rate - 0.1 * (settings.channels != 128) + 0.01 * (settings.seed % 3)


class Formula:
    """As :class:`lib.tune.workers.Workers`, at once and in this process."""

    def __init__(self, jobs: int = 1, value: Callable[[Settings], Any] = formula):
        self.jobs, self.value = jobs, value
        self.running: dict[Any, tuple[Task, int]] = {}
        self.started: list[Settings] = []
        self.most = 0

    @property
    def free(self) -> bool:
        return len(self.running) < self.jobs

    def start(self, task: Task) -> None:
        self.started.append(task.settings)
        self.running[task.key] = (task, 0)
        self.most = max(self.most, len(self.running))

    def hear(self) -> Iterator[Message]:
        for key, (task, step) in list(self.running.items()):
            value = self.value(task.settings)
            if isinstance(value, Message):
                del self.running[key]
                yield Message(key, value.what, why=value.why)
            elif step == PASSES:
                del self.running[key]
                yield Message(key, "ended", value=value)
            else:
                self.running[key] = (task, step + 1)
                yield Message(key, "pass", step + 1, value * (step + 1) / PASSES)

    def answer(self, key: Any, go_on: bool) -> None:
        if not go_on:
            self.running[key] = (self.running[key][0], PASSES)
            task = self.running.pop(key)[0]
            self.running[key] = (task, 0)
            self.value = _ending(self.value, task.settings)


def _ending(value: Callable[[Settings], Any], ended: Settings) -> Callable[[Settings], Any]:
    """A formula by which some settings have just been ended."""
    return lambda settings: Message(None, "ended") if settings == ended else value(settings)


def tuning(path: Path, settings: Settings = SETTINGS) -> Tuning:
    fixed = set(space_of(settings)) - SEARCHED
    study = open_study(path / "study.db", "name", settings.higher_is_better, 2)
    return Tuning(study, settings, space_of(settings, fixed), 1, path / "study.db")


def run(made: Tuning, count: int, workers: Formula | None = None, told=lambda study: None):
    workers = workers or Formula()
    made.run(workers, count, told)
    return workers


def tried(made: Tuning) -> list[dict[str, Any]]:
    """Values and outcome of each trial that came to an end, in order."""
    return [{**one.params, "value": one.value} for one in finished(made.study)]


def test_the_first_trial_has_the_settings_as_they_are_and_later_ones_are_better(tmp_path):
    made = tuning(tmp_path)
    workers = run(made, 20)
    assert workers.started[0] == SETTINGS
    assert len(workers.started) == len(finished(made.study)) == 20
    assert len(completed(made.study)) < 20  # some are pruned
    assert made.study.best_value > formula(SETTINGS)
    assert formula(made.best) == made.study.best_value
    assert "trial" in verdict(made)
    assert f"20 trials of tgraph on {SETTINGS.collection}" in counts(made)


def test_more_trials_go_on_from_those_there_are(tmp_path):
    made = tuning(tmp_path)
    run(made, 6)
    assert len(run(tuning(tmp_path), 9).started) == 3
    assert run(tuning(tmp_path), 9).started == []


@pytest.mark.parametrize("killed_at", [0, 1, 7])
def test_a_search_that_is_killed_tries_what_it_would_have_tried(tmp_path, killed_at):
    whole = tuning(tmp_path / "whole")
    run(whole, 9)

    class Dying(Formula):
        def hear(self):
            for said in super().hear():
                if len(self.started) == killed_at + 1 and said.step == 1:
                    raise Killed
                yield said

    with pytest.raises(Killed):
        run(tuning(tmp_path / "killed"), 9, Dying())
    resumed = tuning(tmp_path / "killed")
    run(resumed, 9)
    assert tried(resumed) == tried(whole)
    assert resumed.values == whole.values


def test_a_trial_killed_twice_is_begun_anew_once(tmp_path):
    for _ in range(2):
        made = tuning(tmp_path)
        if not made.study.get_trials():
            made.study.enqueue_trial({})
        trial = made.study.ask({"x": optuna.distributions.FloatDistribution(0, 1)})
        trial.set_user_attr("values", 1)
    made = tuning(tmp_path)
    waiting = made.study.get_trials(states=(TrialState.WAITING,))
    assert [one.system_attrs["fixed_params"] for one in waiting] == [trial.params]


def test_jobs_are_trials_side_by_side(tmp_path):
    made = tuning(tmp_path)
    assert run(made, 7, Formula(jobs=3)).most == 3
    assert len(finished(made.study)) == 7


def test_values_that_do_not_go_together_are_a_trial_that_came_to_nothing(tmp_path):
    settings = tiny_settings(folds_total=2, squeeze=3, channels=18)
    made = tuning(tmp_path, settings)
    workers = run(made, 8)
    assert len(workers.started) < 8 == len(finished(made.study))
    why = failures(made.study)
    assert all("must be a multiple of 6" in text for text in why.values())
    assert len(why) == 8 - len(workers.started)
    assert "failed" in counts(made)


def test_a_trial_that_cannot_be_trained_counts_and_the_search_goes_on(tmp_path):
    def value(settings):
        failed = Message(None, "failed", why="diverged")
        return failed if settings.learning_rate > 0.002 else formula(settings)

    made = tuning(tmp_path)
    run(made, 8, Formula(value=value))
    assert len(finished(made.study)) == 8
    assert set(failures(made.study).values()) == {"diverged"}


def test_trials_that_die_end_the_search_if_they_are_several_in_a_row(tmp_path):
    dying = Formula(value=lambda settings: Message(None, "died", why="signal 9"))
    with pytest.raises(UserError, match="3 trials in a row died; the last of signal 9"):
        run(tuning(tmp_path), 8, dying)
    assert len(dying.started) == 3


def test_a_search_without_a_value_says_why(tmp_path):
    failing = Formula(value=lambda settings: Message(None, "failed", why="it is too large"))
    with pytest.raises(UserError, match="2 trials, and none has a value: it is too large"):
        run(tuning(tmp_path), 2, failing)


def test_the_best_is_compared_on_other_seeds_once(tmp_path):
    made = tuning(tmp_path)
    run(made, 8)
    workers = Formula(jobs=2)
    seeds = made.check(workers, 3)
    assert [seed for seed, _, _ in seeds] == [1, 2, 3]
    assert sorted({one.seed for one in workers.started}) == [1, 2, 3]
    for seed, before, best in seeds:
        assert before == pytest.approx(formula(tiny_settings(folds_total=2, seed=seed)))
        assert best > before
    again = Formula()
    assert made.check(again, 3) == seeds
    assert again.started == []
    gain = made.study.best_value - formula(SETTINGS)
    assert f"{gain:+.4f} ± 0.0000" in check_text(made, seeds)
    assert "partly by luck" in check_text(made, [])


def test_defaults_that_are_best_are_compared_with_nothing(tmp_path):
    made = tuning(tmp_path)
    run(made, 1)
    workers = Formula()
    assert made.check(workers, 3) == []
    assert workers.started == []
    assert "no trial was better" in verdict(made)


def test_the_best_values_are_a_settings_file(tmp_path):
    made = tuning(tmp_path)
    run(made, 6)
    path = tmp_path / "best.toml"
    write_best(path, made, ["--epochs=4"], "make all")
    found = read_settings(path, SETTINGS.collection, type(SETTINGS))
    assert found == made.values == made.study.best_trial.params
    assert "# All trials had --epochs=4, which is not in this file." in path.read_text()
    text = report_text(made, [])
    assert all(name in text for name in made.space)


@pytest.mark.parametrize("content", [b"", b"not a database", b"SQLite format 3\0" + b"x" * 5000])
def test_a_file_that_is_no_database_is_told(tmp_path, content):
    path = tmp_path / "study.db"
    path.write_bytes(content)
    if not content:  # as a kill may leave it: a database without tables
        assert open_study(path, "name", True, 2).get_trials() == []
        return
    with pytest.raises(DataError, match=f"{path}: database: found .*expected a database of Optu"):
        open_study(path, "name", True, 2)
