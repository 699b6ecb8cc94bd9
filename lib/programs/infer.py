"""Predictions of one fold for tensor programs, all of a split at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
from torch import nn

from lib.cache.reader import Cache
from lib.programs.folds import Pairs, sides_of_fold
from lib.programs.inputs import (
    device_features,
    devices_of,
    load_programs,
    pair_predictions,
    predict,
)
from lib.programs.predictions import SCHEMA
from lib.programs.settings import ProgramCollection
from lib.scoring.infer import Infer

Wanted = tuple[str, str, np.ndarray]  # split, task, which of its pairs


def programs_to_predict(cache: Cache, fold: int, settings: ProgramCollection) -> list[Wanted]:
    """Return all that one fold predicts; its training programs only if the settings say so."""
    sides = sides_of_fold(cache, fold, settings)
    if not settings.score_training:
        del sides["train"]
    return [(side, name, mask) for side, own in sides.items() for name, mask in own.items()]


def predict_programs(
    network: nn.Module,
    cache: Cache,
    wanted: Sequence[Wanted],
    settings: ProgramCollection,
    permuted_scores: Any = None,
) -> Iterator[pl.DataFrame]:
    """Predict each task's programs; yield a frame of ``SCHEMA`` for each of ``wanted``.

    Predictions do not depend on the batch, so nothing is permuted.
    """
    network.eval()
    devices = devices_of(cache)
    features, names = device_features(devices), [device["name"] for device in devices]
    for side in dict.fromkeys(side for side, _, _ in wanted):
        own: Pairs = {name: mask for split, name, mask in wanted if split == side}
        predictions = predict(network, load_programs(cache, own), features, settings.batch)
        first = 0
        for name, mask in own.items():
            task = cache.graph(name).restricted(mask)
            distinct = task.used
            part = predictions[first : first + len(distinct)]
            first += len(distinct)
            predicted = np.exp(pair_predictions(task, distinct, part))
            columns = {
                "split": [side] * len(predicted),
                "task": [task.name] * len(predicted),
                "program": task.program[task.owner],
                "device": [names[number] for number in task.device],
                "prediction": predicted,
                "latency": task.seconds,
            }
            yield pl.DataFrame(columns, schema=SCHEMA)


INFER = Infer(
    to_score=programs_to_predict,
    frames=predict_programs,
    counts={
        "tasks": pl.col("task").n_unique(),
        "programs": pl.col("program").n_unique(),
        "devices": pl.col("device").n_unique(),
        "scores": pl.len(),
    },
)
