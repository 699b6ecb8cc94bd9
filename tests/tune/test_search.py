"""Which trials a search runs, prunes, repeats and counts; training is a formula here."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from lib.files.errors import DataError, UserError
from lib.settings import Settings
from lib.settings.file import read_settings
from lib.settings.search import space_of
from lib.tune import search
from lib.tune.results import check_text, counts, report_text, verdict, write_best
from lib.tune.search import MOST_TIMES, Tuning, side_by_side
from lib.tune.space import distributions
from lib.tune.storage import completed, failures, finished, open_study
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
    """Stands in for training: a formula's value, approached pass by pass."""

    def __init__(self, value: Callable[[Settings], float] = formula):
        self.value, self.started = value, list[Settings]()

    def __call__(self, settings: Settings, cache, folds, states, report) -> float | None:
        self.started.append(settings)
        value = self.value(settings)
        passes = (report(step, value * step / PASSES) for step in range(1, PASSES + 1))
        return value if all(passes) else None


def tuning(path: Path, settings: Settings = SETTINGS) -> Tuning:
    fixed = set(space_of(settings)) - SEARCHED
    study = open_study(path / "study.db", "name", settings.higher_is_better, 2)
    return Tuning(study, settings, space_of(settings, fixed), 1, path / "cache", path / "states")


@pytest.fixture
def run(monkeypatch) -> Callable[..., Formula]:
    """Runs a search to a number of trials."""

    def to_end(made: Tuning, count: int, training: Formula | None = None) -> Formula:
        training = training or Formula()
        monkeypatch.setattr(search, "train", training)
        made.run(1, count, lambda study: None)
        return training

    return to_end


def tried(made: Tuning) -> list[dict[str, Any]]:
    """Values and outcome of each trial that came to an end, in order."""
    return [{**one.params, "value": one.value} for one in finished(made.study)]


def test_the_first_trial_has_the_settings_as_they_are_and_later_ones_are_better(tmp_path, run):
    made = tuning(tmp_path)
    workers = run(made, 20)
    assert workers.started[0] == SETTINGS
    assert len(workers.started) == len(finished(made.study)) == 20
    assert len(completed(made.study)) < 20  # some are pruned
    assert made.study.best_value > formula(SETTINGS)
    assert formula(made.best) == made.study.best_value
    assert "trial" in verdict(made)
    assert f"20 trials of tgraph on {SETTINGS.collection}" in counts(made)


def test_more_trials_go_on_from_those_there_are(tmp_path, run):
    made = tuning(tmp_path)
    run(made, 6)
    assert len(run(tuning(tmp_path), 9).started) == 3
    assert run(tuning(tmp_path), 9).started == []


@pytest.mark.parametrize("killed_at", [0, 1, 7])
def test_a_search_that_is_killed_tries_what_it_would_have_tried(tmp_path, run, killed_at):
    whole = tuning(tmp_path / "whole")
    run(whole, 9)

    class Dying(Formula):
        def __call__(self, *given):
            if len(self.started) == killed_at:
                raise Killed
            return super().__call__(*given)

    with pytest.raises(Killed):
        run(tuning(tmp_path / "killed"), 9, Dying())
    resumed = tuning(tmp_path / "killed")
    run(resumed, 9)
    assert tried(resumed) == tried(whole)
    assert resumed.values == whole.values


def test_a_trial_that_is_killed_each_time_is_left_out(tmp_path, run):
    started = []

    def dies(settings):
        started.append(settings)
        raise Killed

    for _ in range(MOST_TIMES):
        with pytest.raises(Killed):
            run(tuning(tmp_path), 2, Formula(dies))
    assert started == [SETTINGS] * MOST_TIMES
    made = tuning(tmp_path)
    assert SETTINGS not in run(made, 2).started
    assert len(finished(made.study)) == 2


def test_no_trial_waits_for_two_processes_that_take_it(tmp_path, run):
    """Optuna lets both, where the database is SQLite: the second could not tell what it found."""
    made, waiting = tuning(tmp_path), []
    for _ in range(2):  # processes were killed
        made.study.ask(distributions(SETTINGS, made.space))

    def value(settings):
        waiting.append(len(made.study.get_trials(states=(TrialState.WAITING,))))
        return formula(settings)

    run(made, 3, Formula(value))
    assert waiting == [0, 0, 0]


def test_values_that_do_not_go_together_are_a_trial_that_came_to_nothing(tmp_path, run):
    settings = tiny_settings(folds_total=2, squeeze=3, channels=18)
    made = tuning(tmp_path, settings)
    workers = run(made, 8)
    assert len(workers.started) < 8 == len(finished(made.study))
    why = failures(made.study)
    assert all("must be a multiple of 6" in text for text in why.values())
    assert len(why) == 8 - len(workers.started)
    assert "failed" in counts(made)


def test_a_trial_that_cannot_be_trained_counts_and_the_search_goes_on(tmp_path, run):
    def value(settings):
        if settings.learning_rate > 0.002:
            raise UserError("diverged")
        return formula(settings)

    made = tuning(tmp_path)
    run(made, 8, Formula(value))
    assert len(finished(made.study)) == 8
    assert set(failures(made.study).values()) == {"diverged"}


def test_a_search_without_a_value_says_why(tmp_path, run):
    def value(settings):
        raise UserError("it is too large")

    with pytest.raises(UserError, match="2 trials, and none has a value: it is too large"):
        run(tuning(tmp_path), 2, Formula(value))


def test_a_process_that_is_killed_is_one_line():
    with pytest.raises(UserError, match="killed, most likely for want of memory"):
        list(side_by_side(os._exit, [(1,)], 2))


def test_the_best_is_compared_on_other_seeds_once(tmp_path, run):
    made = tuning(tmp_path)
    training = run(made, 8)
    training.started.clear()
    seeds = made.check(1, 3)
    assert [seed for seed, _, _ in seeds] == [1, 2, 3]
    assert sorted({one.seed for one in training.started}) == [1, 2, 3]
    for seed, before, best in seeds:
        assert before == pytest.approx(formula(tiny_settings(folds_total=2, seed=seed)))
        assert best > before
    training.started.clear()
    assert made.check(1, 3) == seeds
    assert training.started == []
    gain = made.study.best_value - formula(SETTINGS)
    assert f"{gain:+.4f} ± 0.0000" in check_text(made, seeds)
    assert "partly by luck" in check_text(made, [])


def test_defaults_that_are_best_are_compared_with_nothing(tmp_path, run):
    made = tuning(tmp_path)
    assert run(made, 1).started == [SETTINGS]
    assert made.check(1, 3) == []
    assert "no trial was better" in verdict(made)


def test_the_best_values_are_a_settings_file(tmp_path, run):
    made = tuning(tmp_path)
    run(made, 6)
    path = tmp_path / "best.toml"
    write_best(path, made, {"weight_decay": 0.5}, ["--epochs=4"], "make all")
    found = read_settings(path, SETTINGS.collection, type(SETTINGS))
    assert made.values == made.study.best_trial.params
    assert found == {"weight_decay": 0.5} | made.values
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
