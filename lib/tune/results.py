"""What a search leaves: the best values as a settings file, and its account in words."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from optuna.importance import get_param_importances

from lib.files.terminal import table
from lib.settings.file import write_settings
from lib.tune.search import Tuning
from lib.tune.storage import completed, failures, finished

Seeds = Sequence[tuple[int, float, float]]  # of each: its number, the value before, and of the best
DIGITS = 4


def write_best(
    path: Path, tuning: Tuning, kept: Mapping[str, Any], flags: Sequence[str], command: str
) -> None:
    """Write the best values found so far as a settings file.

    Args:
        path: the file.
        tuning: with a trial that has a value.
        kept: settings of a file that all trials had, unless they were searched.
        flags: settings that all trials have, as words of a command line.
        command: that uses the file.
    """
    comments = [f"Found by make tune: {counts(tuning)}.", f"{verdict(tuning)}.", f"Use: {command}"]
    if flags:
        comments.insert(2, f"All trials had {' '.join(flags)}, which is not in this file.")
    chosen = tuning.settings
    of = {"collection": chosen.collection, "model": chosen.model}
    write_settings(path, of | {**kept} | tuning.values, comments)


def rows_of(tuning: Tuning) -> list[list[str]]:
    """A row a setting that was searched: before, best, importance; most important first."""
    weights = importances(tuning)
    rows = [
        [name, shown(getattr(tuning.settings, name)), shown(value), weights.get(name)]
        for name, value in tuning.values.items()
    ]
    rows.sort(key=lambda row: -(row[3] or 0))
    return [[*row[:3], "–" if row[3] is None else f"{row[3]:.2f}"] for row in rows]


def importances(tuning: Tuning) -> dict[str, float]:
    """Optuna's importance of each setting; empty if the trials cannot tell it."""
    if len({trial.value for trial in completed(tuning.study)}) < 2:
        return {}
    shares = get_param_importances(tuning.study)
    return shares if all(map(math.isfinite, shares.values())) else {}


def verdict(tuning: Tuning) -> str:
    """One sentence: what the best trial has, and what the settings had as they were."""
    best, chosen = tuning.study.best_trial, tuning.settings
    text = f"validation {chosen.metric} {best.value:.{DIGITS}f} in trial {best.number}"
    first = next((trial for trial in completed(tuning.study) if trial.number == 0), None)
    if first is None:
        return text
    if tuning.best == chosen:
        return f"{text}: no trial was better than the settings as they are"
    return f"{text}, {first.value:.{DIGITS}f} with the settings as they are"


def counts(tuning: Tuning) -> str:
    """How many trials there were, and how they ended."""
    every, whole = len(finished(tuning.study)), len(completed(tuning.study))
    failed = len(failures(tuning.study))
    chosen, folds = tuning.settings, tuning.folds
    trained = "a fold" if folds == 1 else f"{folds} folds"
    text = f"{every} trials of {chosen.model} on {chosen.collection}, {trained} each: "
    text += f"{whole} to the end, {every - whole - failed} pruned"
    return f"{text}, {failed} failed" if failed else text


def check_text(tuning: Tuning, seeds: Seeds) -> str:
    """How the best values do on other seeds; what to do if they were not tried on any."""
    if tuning.best == tuning.settings:
        return "The best values are the settings as they are."
    if not seeds:
        return "Not compared on other seeds: the best of many trials is the best partly by luck."
    metric = tuning.settings.metric
    differences = [best - before for _, before, best in seeds]
    before, best = (statistics.fmean(seed[place] for seed in seeds) for place in (1, 2))
    text = (
        f"On {len(seeds)} other seeds, which deal other folds: {metric} {best:.{DIGITS}f} against "
        f"{before:.{DIGITS}f}, {best - before:+.{DIGITS}f}"
    )
    if len(seeds) > 1:
        text += f" ± {statistics.stdev(differences) / len(seeds) ** 0.5:.{DIGITS}f}"
    return text


def report_text(tuning: Tuning, seeds: Seeds) -> str:
    """The account for a terminal."""
    head = ["setting", "as it is", "best", "importance"]
    return "\n".join(
        [table(rows_of(tuning), head), verdict(tuning), check_text(tuning, seeds), counts(tuning)]
    )


def shown(value: Any) -> str:
    """A value as people read it."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
