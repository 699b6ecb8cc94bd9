"""Stage 4: blend the best folds into a submission, or predictions, and measure it.

Reads   <outputs>/<collection>/cache/, <collection>[@<model>]/fold_<k>/metrics.json and
        scores/fold_<k>.parquet
Writes  <outputs>/<collection>[@<model>]/submission.csv (of programs: predictions.csv),
        metrics.json and report.html
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

sys.path.insert(0, str(Path(__file__).parent))  # where PYTHONSAFEPATH has left it out

from lib.cache.reader import Cache
from lib.files.artifacts import write_json
from lib.files.results import SPLIT_OF
from lib.ranking.blending import blend_frames, choose_folds
from lib.report.experiment import read_experiment
from lib.report.page import write_page
from lib.report.publish import publish
from lib.runs.stage import Stage, run
from lib.scoring.ensemble import ensemble_of


def main(stage: Stage) -> None:
    """Choose folds by validation score, blend them, write the results and the metrics."""
    settings, folder, cache = stage.settings, stage.run.folder, Cache(stage.run.cache)
    ensemble = ensemble_of(settings)

    # Of each fold its score in validation, and its scores, each the mean over permutations.
    validation, scores = ensemble.read(folder, cache, settings, stage.run.folds)
    for fold in scores:
        stage.run.check_scored(fold)
    best = choose_folds(validation, settings.best_folds, settings.higher_is_better)
    blended = {
        section: ensemble.order(frame, cache)
        for section, frame in blended_scores(scores, best, settings.blending).items()
    }
    write_table, content = ensemble.table(blended, cache, settings)
    measurements = stage.resolved.root().measurements(settings.collection)
    sections = ensemble.evaluate(blended, cache, measurements, settings)

    stage.begin(cache.fingerprint)
    stage.track()
    used = {f"validation_{settings.metric}": validation, "blended": best}
    metadata = stage.result_metadata(cache.fingerprint)
    with stage.results() as (table, metrics, report):
        write_table(table)
        write_json(metrics, {**sections, "folds": used, "settings": metadata})
        experiment = read_experiment(folder, metrics)
        write_page(report, experiment, stage.record())
    publish(experiment, stage, stage.files)

    print(ensemble.summary(sections, settings.collection))
    print(
        f"ensemble: {settings.results}: folds {', '.join(map(str, best))} of "
        f"{len(scores)}, {content}; "
        f"wrote {stage.files[0]}, metrics.json and report.html"
    )


def blended_scores(
    scores: Mapping[int, pl.DataFrame], best: Sequence[int], method: str
) -> dict[str, pl.DataFrame]:
    """Return the mean of the folds' scores: ``graph, config, score, variance``, by section.

    The best folds are blended (TGraph paper, 2.4.3); but a graph in validation is scored by the one
    fold that has not learned from it.

    Args:
        scores: ``split, graph, config, score`` of each fold.
        best: numbers of the best folds.
        method: on which scale, a key of :data:`lib.ranking.blending.METHODS`.
    """
    blended = {}
    for section, split in SPLIT_OF.items():
        folds = scores if split == "valid" else best
        frames = [scores[fold].filter(pl.col("split") == split) for fold in folds]
        blended[section] = blend_frames(frames, method)
    return blended


if __name__ == "__main__":
    run("ensemble", main, __doc__)
