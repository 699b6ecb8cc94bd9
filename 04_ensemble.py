"""Stage 4: blend the best folds into a submission, or predictions, and measure it.

Reads   <outputs>/<collection>/cache/, <collection>[@<model>]/fold_<k>/metrics.json and
        scores/fold_<k>.parquet
Writes  <outputs>/<collection>[@<model>]/submission.csv (of programs: predictions.csv),
        metrics.json and report.html
"""

from __future__ import annotations

from lib.cache.reader import Cache
from lib.files.artifacts import write_json
from lib.files.named import named
from lib.files.results import SPLIT_OF
from lib.report.experiment import read_experiment
from lib.report.page import write_page
from lib.report.publish import publish
from lib.runs.stage import Stage, run
from lib.scoring.ensemble import ensemble_of


def main(stage: Stage) -> None:
    """Choose folds by validation score, blend them, write the results and the metrics."""
    settings, folder, cache = stage.settings, stage.run.folder, Cache(stage.run.cache)
    ensemble = ensemble_of(settings)

    # Of each fold its scores, mean over permutations; the best in validation are blended.
    folds = ensemble.read(folder, cache, settings, stage.run.folds)
    for fold in folds.scores:
        stage.run.check_scored(fold)
    blended = {section: folds.blended(split) for section, split in SPLIT_OF.items()}

    write_table, content = ensemble.table(blended, cache, settings)
    measurements = stage.resolved.root().measurements(settings.collection)
    sections = ensemble.evaluate(blended, cache, measurements, settings)
    picks = {}
    if settings.picks:
        pick = named(settings.picks)
        picks = {"picks": pick(folder, cache, settings, folds.best, blended["test"])}

    stage.begin(cache.fingerprint)
    used = {f"validation_{settings.metric}": folds.validation, "blended": folds.best}
    metadata = stage.result_metadata(cache.fingerprint)
    with stage.results() as (table, metrics, report):
        write_table(table)
        write_json(metrics, {**sections, **picks, "folds": used, "settings": metadata})
        experiment = read_experiment(folder, metrics)
        write_page(report, experiment, measurements, stage.record())
    publish(experiment, stage, stage.files)

    print(ensemble.summary(sections, settings.collection))
    print(
        f"ensemble: {settings.results}: folds {', '.join(map(str, folds.best))} of "
        f"{len(folds.scores)}, {content}; "
        f"wrote {stage.files[0]}, metrics.json and report.html"
    )


if __name__ == "__main__":
    run("ensemble", main, __doc__)
