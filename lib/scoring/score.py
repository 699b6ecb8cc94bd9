"""Score submissions against true runtimes, as Kaggle would.

Reads   submissions, and the runtimes of the data root: of labelled npz files, and of our own
        measurements' test split, which are apart in measurements.parquet
Writes  <outputs>/score.parquet: submission, collection, graph, metric, score

A layout entry scores Kendall's tau, a tile entry M_tile (equation 10 of the TGraph paper), a
collection the mean over its graphs, and a submission the mean over its collections.

    python -m lib.scoring.score [outputs/submission.csv ...]
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import polars as pl

from lib import settings
from lib.files.artifacts import atomic_file
from lib.files.command_line import Parser
from lib.files.errors import DataError, UserError, one_line_errors
from lib.files.parquet import write_parquet
from lib.files.terminal import table
from lib.ranking.measures import measures_of
from lib.ranking.truth import ALIKE, RawLabels, Truth
from lib.scoring.expected import OFFICIAL_TEST, data_root, identifiers, submission_of
from lib.scoring.submission import check_entry, entry_score, read_entries
from lib.tpugraphs.dataset import folder_of

COLUMNS = ("submission", "collection", "graph", "metric")
UNKNOWN, NAMED = "since nobody knows their runtimes", 8  # rows that are named of each reason


def score_submission(  # longer: every reason that a row has no score, in one loop
    path: Path, data: Path | None
) -> tuple[pl.DataFrame, dict[str, list[str]]]:
    """Score every entry whose truth is known.

    Args:
        path: the submission.
        data: data root, or ``None`` for the usual ones.

    Returns:
        A frame as in ``score.parquet``, and IDs without a score, by reason.

    Raises:
        DataError: if an entry or an ID cannot be.
    """
    collections = {identifier: name for name, identifier in identifiers().items()}

    @cache
    def truth_of(name: str) -> Truth | None:
        root = data_root(name, data)
        return root and Truth(RawLabels(root, folder_of(name)), root.measurements(name))

    scored, unscored = [], {}
    for name, order in read_entries(path).items():
        identifier, _, graph = name.rpartition(":")
        if identifier not in collections:
            raise DataError(path, "ID", name, f"one of {', '.join(collections)}, and a graph")
        truth = truth_of(collections[identifier])
        runtimes = truth.runtimes(graph) if truth else None
        if runtimes is None:
            unscored.setdefault(UNKNOWN, []).append(name)
            continue
        check_entry(path, name, order, len(runtimes))
        if not truth.can_be_ranked(graph, runtimes):
            unscored.setdefault(ALIKE, []).append(name)
            continue
        words = (str(path), collections[identifier], graph, measures_of(name).main.heading)
        scored.append((*words, entry_score(name, order, runtimes)))
    schema = {**dict.fromkeys(COLUMNS, pl.String), "score": pl.Float64}
    frame = pl.DataFrame(scored, schema=schema, orient="row").sort("collection", "graph")
    return frame, unscored


def means_of(scores: pl.DataFrame) -> pl.DataFrame:
    """Return ``collection, metric, graphs, mean``, in the order of the collections."""
    place = pl.col("collection").replace_strict({n: i for i, n in enumerate(OFFICIAL_TEST)})
    groups = scores.group_by("collection", "metric")
    return groups.agg(graphs=pl.len(), mean=pl.col("score").mean()).sort(place)


def main(arguments: list[str] | None = None) -> None:
    """Score each submission, and write the table of all."""
    parser = Parser(description="Score submissions against true runtimes, as Kaggle would.")
    parser.add_argument("submissions", type=Path, nargs="*", help="default: that of --outputs")
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), help="where results are")
    parser.add_argument("--data", type=Path, help="data root (downloaded, else bundled)")
    parser.add_argument("--model", help="of which, that of --outputs")
    parser.add_argument("--experiment", default="", help="of which, if it has a name")
    args = parser.parse_args(arguments)

    if args.data and not any(data_root(name, args.data) for name in OFFICIAL_TEST):
        settings.root_of(next(iter(OFFICIAL_TEST)), args.data)  # says what is not there
    usual, frames = submission_of(args.outputs, args.model, args.experiment), []
    for path in args.submissions or [usual]:
        if not path.exists():
            merged = "make submission writes it first" if path == usual else "name one that is"
            raise UserError(f"{path}: not there; {merged}")
        scores, unscored = score_submission(path, args.data)
        reasons = [
            f"not scored, {why}: {', '.join(names[:NAMED])}"
            + (f" and {len(names) - NAMED} more" if names[NAMED:] else "")
            for why, names in unscored.items()
        ]
        if scores.is_empty():
            raise UserError(f"{path}: no row can be scored; {'; '.join(reasons)}")
        means = means_of(scores)
        rows = [[*map(str, row[:3]), f"{row[3]:.4f}"] for row in means.iter_rows()]
        print("\n".join([table(rows, means.columns), *reasons]))
        print(f"score: {path}: mean over {len(means)} collections {means['mean'].mean():.4f}\n")
        frames.append(scores)
    with atomic_file(args.outputs / "score.parquet") as temporary:
        write_parquet(pl.concat(frames), temporary)
    print(f"score: {sum(map(len, frames))} graphs in {args.outputs}/score.parquet")


if __name__ == "__main__":
    with one_line_errors():
        main()
