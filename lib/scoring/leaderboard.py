"""The local leaderboard: score submissions against true runtimes, as Kaggle would.

Reads   one or more submissions, and the data root's runtimes: those of labelled npz files, and of
        our own measurements' test split, which lie apart in measurements.parquet
Writes  <outputs>/score.parquet: submission, collection, graph, family, family_in_training, metric,
        score

A layout entry scores Kendall's tau, a tile entry M_tile (equation 10 of the TGraph paper); a
collection scores the mean over its graphs, and a submission the mean over its collections, each
counting the same, as the competition averaged five. Graphs of families that training has (seen)
and has not (unseen) are shown apart where the data tell families.

    python -m lib.scoring.leaderboard [outputs/submission.csv ...]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import polars as pl

from lib import settings
from lib.files.artifacts import atomic_file
from lib.files.command_line import Parser
from lib.files.errors import DataError, UserError, one_line_errors
from lib.files.parquet import write_parquet
from lib.ranking.measures import measures_of
from lib.ranking.metrics import TAU
from lib.ranking.truth import ALIKE, RawLabels, Truth
from lib.scoring.expected import OFFICIAL_TEST, data_root, identifiers, submission_of
from lib.scoring.submission import check_entry, entry_score, read_entries, shortness
from lib.tpugraphs.dataset import folder_of
from lib.tpugraphs.roots import DataRoot

SCHEMA = {
    "submission": pl.String,
    "collection": pl.String,
    "graph": pl.String,
    "family": pl.String,
    "family_in_training": pl.Boolean,
    "metric": pl.String,
    "score": pl.Float64,
}
# Of one collection: its runtimes, if it has raw data; and each graph's family, if it is known, and
# whether training has graphs of it.
_Known = tuple[Truth | None, dict[str, tuple[str, bool]]]
LISTED = 40  # graphs of a collection that are listed one by one, at most
UNTIED = "; stage 4's tau counts configurations scored alike as tied, which have places here"
SHORT = "since they are too short, for which Kaggle would refuse the file"
UNKNOWN, NAMED = "since nobody knows their runtimes", 8  # rows that are named of each reason


def score_submission(path: Path, data: Path | None) -> tuple[pl.DataFrame, dict[str, list[str]]]:
    """Score every entry whose truth is known and that names as many configurations as it must.

    Args:
        path: the submission.
        data: data root, or ``None`` for the usual ones.

    Returns:
        A frame of ``SCHEMA``, sorted by collection and graph; and IDs without a score, by reason.

    Raises:
        DataError: if an entry or an ID cannot be.
    """
    collections = {identifier: name for name, identifier in identifiers().items()}
    of_collections: dict[str, _Known] = {}
    scored, unscored = [], {}
    for name, order in read_entries(path).items():
        identifier, _, graph = name.rpartition(":")
        if identifier not in collections:
            raise DataError(path, "ID", name, f"one of {', '.join(collections)}, and a graph")
        collection = collections[identifier]
        if collection not in of_collections:
            of_collections[collection] = _known(collection, data_root(collection, data))
        truth, families = of_collections[collection]
        runtimes = truth.runtimes(graph) if truth else None
        if runtimes is None:
            unscored.setdefault(UNKNOWN, []).append(name)
            continue
        if short := shortness(name, order, len(runtimes)):
            unscored.setdefault(SHORT, []).append(f"{name} ({short})")
            continue
        check_entry(path, name, order, len(runtimes))
        if not truth.can_be_ranked(graph, runtimes):
            unscored.setdefault(ALIKE, []).append(name)
            continue
        score = entry_score(name, order, runtimes)
        columns = (collection, graph, *families.get(graph, (None, None)))
        scored.append((str(path), *columns, measures_of(name).main.heading, score))
    frame = pl.DataFrame(scored, schema=SCHEMA, orient="row").sort("collection", "graph")
    return frame, unscored


def _known(collection: str, root: DataRoot | None) -> _Known:
    if root is None:
        return None, {}
    truth = Truth(RawLabels(root, folder_of(collection)), root.measurements(collection))
    programs = root.programs(collection)
    rows = () if programs is None else programs.iter_rows()
    return truth, {graph: (family, in_training) for graph, family, in_training in rows}


def collection_means(scores: pl.DataFrame) -> pl.DataFrame:
    """One submission's means by collection, in the order of the collections.

    Returns:
        ``collection, metric, graphs, mean, seen, unseen``; the last two over the graphs of
        families that training has and has not, null without such graphs.
    """
    order = pl.col("collection").replace_strict({n: i for i, n in enumerate(OFFICIAL_TEST)})
    score, seen = pl.col("score"), pl.col("family_in_training")
    means = scores.group_by("collection", "metric").agg(
        graphs=pl.len(),
        mean=score.mean(),
        seen=score.filter(seen).mean(),
        unseen=score.filter(~seen).mean(),
    )
    return means.sort(order)


def kaggle_mean(means: pl.DataFrame) -> float:
    """The mean over collections, each counting the same."""
    return float(means["mean"].mean())


def report(scores: pl.DataFrame, means: pl.DataFrame) -> str:
    """The graphs (of collections that are not too long) and the means, as aligned text."""
    lines = []
    for collection, count in means.select("collection", "graphs").iter_rows():
        if count <= LISTED:
            rows = scores.filter(pl.col("collection") == collection)
            lines += [_graph_line(row) for row in rows.iter_rows(named=True)]
    lines.append(f"{'':<24}{'graphs':>7}{'metric':>9}{'mean':>9}{'seen':>9}{'unseen':>9}")
    for row in means.iter_rows(named=True):
        numbers = "".join(f"{_number(row[key]):>9}" for key in ("mean", "seen", "unseen"))
        lines.append(f"{row['collection']:<24}{row['graphs']:>7}{row['metric']:>9}" + numbers)
    return "\n".join(lines)


def _graph_line(row: dict) -> str:
    family = {True: "seen", False: "unseen", None: ""}[row["family_in_training"]]
    name = f"{row['collection']} {row['graph']}"
    return f"{name:<72}{family:>7}{row['metric']:>9}{_number(row['score']):>9}"


def _unscored_line(why: str, names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"not scored, {why}: {', '.join(names[:NAMED])}{more}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def main(arguments: list[str] | None = None) -> None:
    """Score each submission, write the table of all, and rank them if they are several."""
    description, _, _ = __doc__.partition("\n\n    python")
    parser = Parser(
        prog="python -m lib.scoring.leaderboard",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("submissions", type=Path, nargs="*", help="default: that of --outputs")
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), help="where results are")
    parser.add_argument("--data", type=Path, help="data root (downloaded, else bundled)")
    parser.add_argument("--model", help="of which, that of --outputs")
    parser.add_argument("--experiment", default="", help="of which, if it has a name")
    args = parser.parse_args(arguments)

    if args.data and not any(data_root(name, args.data) for name in OFFICIAL_TEST):
        settings.root_of(next(iter(OFFICIAL_TEST)), args.data)  # says what is not there
    frames, board = [], []
    usual = submission_of(args.outputs, args.model, args.experiment)
    for path in args.submissions or [usual]:
        scores, unscored = score_submission(path, args.data)
        reasons = [_unscored_line(*reason) for reason in unscored.items()]
        if scores.is_empty():
            raise UserError(f"{path}: no row can be scored; {'; '.join(reasons)}")
        means = collection_means(scores)
        print("\n".join([report(scores, means), *reasons]))
        left_out = [name for name in OFFICIAL_TEST if name not in set(means["collection"])]
        note = f" (without {', '.join(left_out)})" if left_out else ""
        mean = kaggle_mean(means)
        note += UNTIED if TAU.heading in set(means["metric"]) else ""
        print(f"score: {path}: mean over {len(means)} collections {mean:.4f}{note}\n")
        frames.append(scores)
        board.append((mean, path))
    if len(board) > 1:
        for place, (mean, path) in enumerate(sorted(board, key=lambda b: -b[0]), start=1):
            print(f"{place:>3}  {mean:.4f}  {path}")
    with atomic_file(args.outputs / "score.parquet") as temporary:
        write_parquet(pl.concat(frames), temporary)
    print(f"score: {sum(map(len, frames))} rows; wrote {args.outputs}/score.parquet")


if __name__ == "__main__":
    with one_line_errors():
        main()
