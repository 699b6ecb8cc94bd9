"""One trial: stage 2's training of some folds under some settings, epoch by epoch together.

Only the training and validation graphs of a cache are read; the test split is never looked at.
"""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Callable
from functools import cache
from itertools import zip_longest
from pathlib import Path

import numpy as np
import torch

from lib.cache.reader import Cache
from lib.files.artifacts import fingerprint_value
from lib.files.errors import UserError
from lib.models.common.build import network_for
from lib.runs.identity import Run, outputs_of
from lib.settings import Settings, described
from lib.training.fold import load_fold, new_network
from lib.training.loop import FoldTraining

Report = Callable[[int, float | None], bool]


def train(
    settings: Settings, cache_folder: Path, folds: int, states: Path, report: Report
) -> float | None:
    """Train the first folds, a pass of each in turn, and say how well they do in validation.

    A trial that is killed goes on where it was; one of the same settings and code gives the same.

    Args:
        settings: of the trial.
        cache_folder: of the collection's cache.
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
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # what stage 2 says of a fold
            value = _train(settings, opened(cache_folder), folds, folder, report)
    except UserError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
    return value


@cache
def opened(folder: Path) -> Cache:
    """A cache, whose files a process compares with their checksums once."""
    return Cache(folder)


def _train(
    settings: Settings, data: Cache, folds: int, folder: Path, report: Report
) -> float | None:
    making = Run(outputs_of(data.folder, settings), settings)
    trainings = [_training(settings, data, fold) for fold in range(folds)]
    runs = [
        # A state is resumed by settings, fold, data, and the code that trains.
        training.run(folder / f"fold_{fold}.safetensors", making.identity("train", fold))
        for fold, training in enumerate(trainings)
    ]
    for step, rows in enumerate(zip_longest(*runs, fillvalue={}), start=1):
        values = [row.get(f"validation_{settings.metric}") for row in rows]
        if not report(step, None if None in values else float(np.mean(values))):
            return None
    finals = [training.state.validation(settings.weights) for training in trainings]
    return float(np.mean([final[settings.metric] for final in finals]))


def _training(settings: Settings, data: Cache, fold: int) -> FoldTraining:
    """As stage 2 makes it."""
    graphs = load_fold(data, fold, settings)
    network = new_network(lambda: network_for(settings), graphs, settings.seed, fold)
    return FoldTraining(network, graphs, fold)
