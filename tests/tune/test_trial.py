"""A trial is stage 2's training, and sees no test split."""

from __future__ import annotations

import pickle

import polars as pl
import pytest

from lib.cache.reader import Cache
from lib.files.errors import UserError
from lib.models.common.build import network_for
from lib.settings.search import space_of
from lib.training.fold import load_fold, new_network
from lib.training.loop import FoldTraining
from lib.tune import search
from lib.tune.search import Tuning
from lib.tune.storage import finished, open_study
from lib.tune.trial import train
from tests.builders import tiny_settings

SETTINGS = tiny_settings(folds_total=2)


def stage_2(cache: Cache, fold: int, state) -> FoldTraining:
    data = load_fold(cache, fold, SETTINGS)
    network = new_network(lambda: network_for(SETTINGS), data, SETTINGS.seed, fold)
    training = FoldTraining(network, data, fold)
    list(training.run(state, "identity"))
    return training


def curve(cache, tmp_path, folds=1, ends_at=99, settings=SETTINGS):
    """A trial's value, and what it reports."""
    told = []

    def report(step, value):
        told.append((step, value))
        return step < ends_at

    return train(settings, cache.folder, folds, tmp_path, report), told


def test_a_trial_has_what_stage_2_has(cache, tmp_path):
    trained = [stage_2(cache, fold, tmp_path / f"{fold}") for fold in (0, 1)]
    wanted = [one.state.validation("last")["tau"] for one in trained]
    value, told = curve(cache, tmp_path / "a")
    assert value == wanted[0]
    history = trained[0].state.history_frame()
    assert [step for step, _ in told] == [1, 2, 3, 4]
    assert [one for _, one in told] == history["validation_tau"].to_list()
    both, told_both = curve(cache, tmp_path / "b", folds=2)
    assert both == pytest.approx(sum(wanted) / 2)
    means = (history["validation_tau"] + trained[1].state.history_frame()["validation_tau"]) / 2
    assert [one for _, one in told_both] == pytest.approx(means.to_list())


def test_a_trial_never_looks_at_the_test_split(cache, tmp_path, monkeypatch):
    seen = {name: cache.rows[name]["split"] for name in cache.names("train", "valid")}
    assert len(seen) < len(cache.names("train", "valid", "test"))
    without = Cache(cache.folder)
    without.rows = {name: cache.rows[name] for name in seen}  # a graph of the test has none
    without.table = cache.table.filter(pl.col("graph").is_in(list(seen)))
    whole = curve(cache, tmp_path / "b")
    monkeypatch.setattr("lib.tune.trial.opened", lambda folder: without)
    assert curve(cache, tmp_path / "a") == whole


def test_trials_run_side_by_side(cache, tmp_path, monkeypatch):
    """Each on a copy of the search, as processes have it."""

    def on_copies(work, calls, jobs):
        for copied, call in [pickle.loads(pickle.dumps((work, call))) for call in calls]:
            yield copied(*call)

    monkeypatch.setattr(search, "side_by_side", on_copies)
    space = space_of(SETTINGS, set(space_of(SETTINGS)) - {"learning_rate"})
    study = open_study(tmp_path / "study.db", "name", True, 2)
    ended = []
    tuning = Tuning(study, SETTINGS, space, 1, cache.folder, tmp_path / "states")
    tuning.run(2, 3, lambda study: ended.append(len(finished(study))))
    assert ended == [1, 2, 3]
    assert len({one.params["learning_rate"] for one in finished(study)}) == 3
    value, _ = curve(cache, tmp_path / "here")
    assert value == next(one.value for one in finished(study) if one.number == 0)


def test_a_trial_that_is_ended_leaves_nothing(cache, tmp_path):
    value, told = curve(cache, tmp_path, ends_at=2)
    assert value is None
    assert len(told) == 2
    assert list(tmp_path.iterdir()) == []


def test_passes_without_a_validation_are_told_as_well(cache, tmp_path):
    _, told = curve(cache, tmp_path, settings=tiny_settings(folds_total=2, validate_every=3))
    assert [value is None for _, value in told] == [True, True, False, False]


def test_a_trial_that_was_killed_goes_on(cache, tmp_path):
    saving = tiny_settings(folds_total=2, save_seconds=0.0)

    class Killed(BaseException):
        pass

    def report(step, value):
        if step == 3:
            raise Killed
        return True

    with pytest.raises(Killed):
        train(saving, cache.folder, 2, tmp_path, report)
    assert len(list(tmp_path.rglob("*.safetensors"))) == 2
    assert curve(cache, tmp_path, 2, settings=saving) == curve(cache, tmp_path / "new", 2)
    assert not list(tmp_path.rglob("*.safetensors"))


def test_a_fold_that_there_is_not_is_told_and_leaves_nothing(cache, tmp_path):
    with pytest.raises(UserError, match="--fold 2: must be from 0 to 1"):
        curve(cache, tmp_path, folds=3)
    assert list(tmp_path.iterdir()) == []
