"""Stage 4: blend the best folds into a submission, or predictions, and measure it.

Reads   <outputs>/<collection>/cache/, <collection>[@<model>]/fold_<k>/metrics.json and
        scores/fold_<k>.parquet
Writes  <outputs>/<collection>[@<model>]/submission.csv (of programs: predictions.csv),
        metrics.json and report.html
"""

from __future__ import annotations

from lib.runs.begin import one_line_errors  # before all others, which take seconds

# isort: split
from lib import settings
from lib.cache.reader import Cache
from lib.ensemble.kinds import ENDINGS
from lib.files.artifacts import write_json
from lib.files.results import SPLIT_OF, read_fold_metrics
from lib.report.experiment import read_experiment
from lib.report.page import write_page
from lib.report.publish import publish
from lib.runs.provenance import versions
from lib.runs.stage import Stage


def main(stage: Stage) -> None:
    """Choose folds by validation score, blend them, write the results and the metrics."""
    parser = settings.parser(__doc__)
    parser.add_argument("--folds", type=int, help="use folds 0 to this minus 1 (default: all)")
    args = parser.parse_args()
    chosen, root = settings.resolve(args)
    folder = args.outputs / chosen.results
    cache = Cache(args.outputs / chosen.cache)
    ending = ENDINGS[chosen.kind]
    results = [folder / name for name in (chosen.table, "metrics.json", "report.html")]
    stage.alone(args.outputs, results[0], *results)

    folds = ending.read(folder, cache, chosen, args.folds)
    blended = {section: folds.blended(split) for section, split in SPLIT_OF.items()}
    write_table, told = ending.table(blended, cache, chosen)
    measurements = root.measurements(chosen.collection)
    sections = ending.evaluate(blended, cache, measurements, chosen)
    trained = read_fold_metrics(folder / f"fold_{folds.best[0]}" / "metrics.json")
    stage.begin("ensemble", args.outputs, chosen, cache.fingerprint, trained=trained)
    stage.note(**settings.changed_by(args, chosen, root.dataset))
    about = {**settings.described(chosen), "data": cache.fingerprint, "versions": versions()}
    used = {f"validation_{chosen.metric}": folds.validation, "blended": folds.best}
    with stage.results(*results) as (table, metrics, report):
        write_table(table)
        write_json(metrics, {**sections, "folds": used, "settings": about})
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
        main(stage)
