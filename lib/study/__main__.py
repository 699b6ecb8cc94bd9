"""What the way of blending and the number of folds buy, on scores of graphs not learned from.

Reads   <outputs>/<collection>/cache/
Writes  <outputs>/<collection>[@<model>]/study/study.parquet, and below the study networks that are
        trained without a part of the training graphs

    python -m lib.study --collection layout-xla-random --model tgraph
"""

from __future__ import annotations

from lib import settings
from lib.cache.reader import Cache
from lib.files.artifacts import atomic_file
from lib.files.errors import UserError, one_line_errors
from lib.files.parquet import write_parquet
from lib.ranking.kinds import kind_of
from lib.ranking.truth import CachedLabels, Truth
from lib.runs.identity import Making
from lib.runs.plan import TRAINED
from lib.runs.stage import Stage
from lib.study.nested import nested_folds
from lib.study.results import blending_rows, study_text, summarize


def main(stage: Stage) -> None:
    """Run what the command line asks for, and print its table."""
    parser = settings.parser(__doc__)
    parser.add_argument("--folds", type=int, help=f"that a part trains (default: {TRAINED})")
    parser.add_argument("--parts", type=int, default=3, help="of the nested cross-validation")
    parser.add_argument("--jobs", type=int, default=1, help="networks side by side")
    args = parser.parse_args()
    resolved = settings.resolve(args)
    chosen, root = resolved.settings, resolved.root()
    folds = args.folds or min(TRAINED, chosen.folds_total)
    if args.jobs < 1:
        raise UserError(f"--jobs {args.jobs}: must be at least 1")
    if not kind_of(chosen.collection).ordered:
        raise UserError(f"study: of rankings, and {chosen.collection} has predictions of seconds")
    folder = args.outputs / chosen.results / "study"
    cache = Cache(args.outputs / chosen.cache)
    stage.alone(args.outputs, folder)
    making = Making(args.outputs, chosen, args.data)
    parts = nested_folds(making, cache, root.path, folds, args.parts, args.jobs)
    truth = Truth(CachedLabels(cache), root.measurements(chosen.collection))
    rows = blending_rows(parts, chosen, truth)
    table = summarize(rows, chosen.blending, min(chosen.best_folds, folds))
    with atomic_file(folder / "study.parquet") as temporary:
        write_parquet(table, temporary)
    print(study_text(table))
    print(f"study: {chosen.results}: {len(table)} choices; wrote {folder}/study.parquet")


if __name__ == "__main__":
    with one_line_errors(), Stage() as stage:
        main(stage)
