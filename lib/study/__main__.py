"""What permutations, batches, folds and blending buy, on scores of graphs not learned from.

Reads   <outputs>/<collection>/cache/, and <collection>[@<model>]/fold_<k>/ if these flags would
        train it; other networks are trained below the study
Writes  <outputs>/<collection>[@<model>]/study/{study,graphs}.parquet

    python -m lib.study --collection layout-xla-random --model tgraph
"""

from __future__ import annotations

import shlex

from lib import settings
from lib.cache.reader import Cache
from lib.files.errors import UserError, one_line_errors
from lib.ranking.kinds import kind_of
from lib.runs.identity import Making
from lib.runs.stage import Stage
from lib.study.results import run_study, study_text


def main(stage: Stage) -> None:
    """Run what the command line asks for, and print its tables."""
    parser = settings.parser(__doc__)
    parser.add_argument("--folds", type=int, help="use folds 0 to this minus 1 (default: all)")
    parser.add_argument("--parts", type=int, default=3, help="of the nested cross-validation")
    parser.add_argument("--jobs", type=int, default=1, help="networks side by side")
    parser.add_argument("--through", default="", help="a command that runs the stages elsewhere")
    args = parser.parse_args()
    resolved = settings.resolve(args)
    chosen, root = resolved.settings, resolved.root()
    if args.jobs < 1:
        raise UserError(f"--jobs {args.jobs}: must be at least 1")
    if not kind_of(chosen.collection).ordered:
        raise UserError(f"study: of rankings, and {chosen.collection} has predictions of seconds")
    folder = args.outputs / chosen.results
    cache = Cache(args.outputs / chosen.cache)
    stage.alone(args.outputs, folder / "study")
    through = shlex.split(args.through)
    making = Making(args.outputs, chosen, args.data)
    table = run_study(making, cache, root, args.folds, args.parts, args.jobs, through)
    print(study_text(table))
    print(f"study: {chosen.results}: {len(table)} choices; wrote {folder}/study/")


if __name__ == "__main__":
    with one_line_errors(), Stage() as stage:
        main(stage)
