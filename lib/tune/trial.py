"""One trial: stage 2's training of some folds under some settings, epoch by epoch together.

Only the training and validation graphs of a cache are read; the test split is never looked at.
"""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Callable, Sequence
from itertools import count, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lib.cache.reader import Cache
from lib.files.artifacts import fingerprint_value
from lib.files.errors import UserError
from lib.inputs.input import network_for
from lib.runs.identity import Making
from lib.runs.ingredients import outputs_of
from lib.settings import Settings, described
from lib.train.fold import load_fold
from lib.train.loop import FoldTraining, new_network

Report = Callable[[int, float | None], bool]


def run_trial(
    settings: Settings, cache: Cache, folds: int, states: Path, report: Report
) -> float | None:
    """Train the first folds, a pass of each in turn, and say how well they do in validation.

    A trial that is killed goes on where it was; one of the same settings and code gives the same.

    Args:
        settings: of the trial.
        cache: of the collection.
        folds: how many are trained.
        states: a folder for the training states of trials that are under way.
        report: gets, after each pass, its number from 1 and the mean of the folds' validation
            metric, or ``None`` if there was no validation. If it answers no, the trial ends.

    Returns:
        The mean over the folds of the metric that stage 2 tells of the weights that stage 3 uses;
        ``None`` if the trial was ended.

    Raises:
        UserError: a fold cannot be trained with these settings, or diverged.
    """
    torch.set_num_threads(settings.threads)
    folder = states / fingerprint_value(described(settings))[:16]
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # what stage 2 says of a fold
            trainings = [_training(settings, cache, fold) for fold in range(folds)]
            value = _train(trainings, settings, cache, folder, report)
    except UserError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    for training in trainings:
        training.state.delete()
    shutil.rmtree(folder, ignore_errors=True)
    return value


def _training(settings: Settings, cache: Cache, fold: int) -> FoldTraining:
    """As stage 2 makes it."""
    data = load_fold(cache, fold, settings)
    network = new_network(lambda: network_for(settings), data, settings.seed, fold)
    return FoldTraining(network, data, fold)


def _train(
    trainings: Sequence[FoldTraining], settings: Settings, cache: Cache, path: Path, report: Report
) -> float | None:
    metric = settings.metric
    runs = [
        training.run(state, _identity(settings, cache, training.fold))
        for training, state in zip(trainings, _states(path), strict=False)
    ]
    for step, rows in enumerate(zip_longest(*runs, fillvalue={}), start=1):
        values = [row.get(f"validation_{metric}") for row in rows]
        mean = None if None in values else float(np.mean(values))
        if not report(step, mean):
            return None
    finals = [training.state.validation(settings.weights)[metric] for training in trainings]
    return float(np.mean(finals))


def _states(path: Path) -> Any:
    """Each fold's training state."""
    path.mkdir(parents=True, exist_ok=True)
    return (path / f"fold_{fold}.safetensors" for fold in count())


def _identity(settings: Settings, cache: Cache, fold: int) -> str:
    """What a training state is resumed by: settings, fold, data, and the code that trains."""
    return Making(outputs_of(cache.folder, settings), settings).identity("train", fold)
