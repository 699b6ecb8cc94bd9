"""Stage 4: blend the best folds into a submission, or predictions, and measure it.

Reads   <outputs>/<collection>/cache/, <collection>[@<model>]/fold_<k>/metrics.json and
        scores/fold_<k>.parquet
Writes  <outputs>/<collection>[@<model>]/submission.csv (of programs: predictions.csv),
        metrics.json and report.html
"""

from __future__ import annotations

from lib.runs.begin import one_line_errors

# isort: split
from lib.runs.asked import parse_or_end

if __name__ == "__main__":  # before all other imports, which take seconds
    asked = parse_or_end("ensemble", __doc__)

# isort: split
import argparse

from lib import settings
from lib.cache.reader import Cache
from lib.files.artifacts import write_json
from lib.files.named import named
from lib.files.results import SPLIT_OF
from lib.report.experiment import read_experiment
from lib.report.page import write_page
from lib.report.publish import publish
from lib.runs.asked import making_of, tell_as_it_was
from lib.runs.descent import check_scored
from lib.runs.provenance import versions
from lib.runs.stage import Stage
from lib.scoring.ending import ending_of


def main(stage: Stage, args: argparse.Namespace, resolved: settings.Resolved) -> None:
    """Choose folds by validation score, blend them, write the results and the metrics."""
    chosen = resolved.settings
    making = making_of(args, chosen)
    folder, cache = making.folder, Cache(making.cache)
    ending = ending_of(chosen)
    results = making.files("ensemble")
    if stage.alone(args.outputs, results[0], *results) and making.as_it_was("ensemble"):
        tell_as_it_was(making, "ensemble")
        return

    folds = ending.read(folder, cache, chosen, args.folds)
    for fold in folds.scores:
        check_scored(making, fold)
    blended = {section: folds.blended(split) for section, split in SPLIT_OF.items()}
    write_table, told = ending.table(blended, cache, chosen)
    measurements = resolved.root().measurements(chosen.collection)
    sections = ending.evaluate(blended, cache, measurements, chosen)
    explained = {}
    if chosen.picks:
        explained["picks"] = named(chosen.picks)(folder, cache, chosen, folds.best, blended["test"])
    stage.begin("ensemble", making, cache.fingerprint)
    stage.note(**resolved.record())
    about = {**settings.described(chosen), "data": cache.fingerprint, "versions": versions()}
    about["identity"] = making.identity("ensemble")
    used = {f"validation_{chosen.metric}": folds.validation, "blended": folds.best}
    with stage.results(*results) as (table, metrics, report):
        write_table(table)
        write_json(metrics, {**sections, **explained, "folds": used, "settings": about})
        experiment = read_experiment(folder, metrics)
        write_page(report, experiment, measurements, stage.record())
    publish(experiment, stage, results)

    print(ending.summary(sections, chosen.collection))
    print(
        f"ensemble: {chosen.results}: folds {', '.join(map(str, folds.best))} of "
        f"{len(folds.scores)}, {told}; "
        f"wrote {results[0]}, metrics.json and report.html"
    )


if __name__ == "__main__":
    with one_line_errors(), Stage() as stage:
        main(stage, *asked)
