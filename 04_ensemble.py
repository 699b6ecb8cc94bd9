"""Stage 4: blend the best folds into a submission and measure it.

Reads   <outputs>/<collection>/cache/, <collection>[@<model>]/fold_<k>/metrics.json and
        scores/fold_<k>.parquet
Writes  <outputs>/<collection>[@<model>]/submission.csv, metrics.json and report.html
"""

from __future__ import annotations

from lib.runs.begin import one_line_errors  # before all others, which take seconds

# isort: split
import polars as pl

from lib import settings
from lib.cache.reader import Cache
from lib.ensemble import evaluation
from lib.ensemble.blend import fold_files, read_scores, validation_score
from lib.ensemble.submission import submission_lines, write_submission
from lib.files.artifacts import atomic_files, write_json
from lib.files.results import read_fold_metrics
from lib.ranking.blending import blend_frames, choose_folds
from lib.ranking.folds import splits_of_fold
from lib.ranking.kinds import kind_of
from lib.ranking.truth import CachedLabels, Truth
from lib.report.experiment import read_experiment
from lib.report.page import write_page
from lib.report.publish import publish
from lib.runs.provenance import versions
from lib.runs.stage import Stage

RESULTS = ("submission.csv", "metrics.json", "report.html")


def main(stage: Stage) -> None:
    """Choose folds by validation score, blend them, write the submission and the metrics."""
    parser = settings.parser(__doc__)
    parser.add_argument("--folds", type=int, help="use folds 0 to this minus 1 (default: all)")
    args = parser.parse_args()
    chosen, root = settings.resolve(args)
    folder = args.outputs / chosen.results
    cache = Cache(args.outputs / chosen.cache)
    kind, metric = kind_of(chosen.collection), chosen.metric

    results = [folder / name for name in RESULTS]
    stage.alone(args.outputs, folder / "submission.csv", *results)

    files = fold_files(folder / "scores", args.folds)
    validation = {
        k: validation_score(folder / f"fold_{k}", cache.fingerprint, metric) for k in files
    }
    best = choose_folds(validation, chosen.best_folds)
    names = cache.names("train", "valid"), cache.names("test")
    scores = {
        fold: read_scores(path, splits_of_fold(*names, fold, chosen), cache.counts)
        for fold, path in files.items()
    }

    def blended(split: str, folds: list[int]) -> pl.DataFrame:
        frames = [scores[fold].filter(pl.col("split") == split) for fold in folds]
        return blend_frames(frames, chosen.blending)

    test = blended("test", best)
    counts = {name: cache.counts[name] for name in names[1]}
    lines = submission_lines(test, chosen.identifier, counts, kind.listed)

    measurements = root.measurements(chosen.collection)
    truth = Truth(CachedLabels(cache), measurements)
    ceiling = evaluation.ceilings(measurements)
    parts = {"training": blended("train", best), "validation": blended("valid", list(files))}
    sections = {
        name: evaluation.evaluate(part, cache, truth, ceiling, kind)
        for name, part in {**parts, "test": test}.items()
    }
    trained = read_fold_metrics(folder / f"fold_{best[0]}" / "metrics.json")
    stage.begin("ensemble", args.outputs, chosen, cache.fingerprint, trained=trained)
    about = {**settings.described(chosen), "data": cache.fingerprint, "versions": versions()}
    folds = {f"validation_{metric}": validation, "blended": best}
    with atomic_files(*results) as (submission, metrics, report):
        write_submission(submission, lines)
        write_json(metrics, {**sections, "folds": folds, "settings": about})
        experiment = read_experiment(folder, metrics)
        write_page(report, experiment, measurements, stage.record())
    publish(experiment, stage)

    print(evaluation.summary_table(sections.items(), kind.columns))
    print(
        f"ensemble: {chosen.results}: folds {', '.join(map(str, best))} of {len(files)}, "
        f"{len(lines)} test graphs; wrote {folder}/submission.csv, metrics.json and report.html"
    )


if __name__ == "__main__":
    with one_line_errors(), Stage() as stage:
        main(stage)
