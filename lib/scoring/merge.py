"""Merge the collections' submissions into the one file that Kaggle scores.

Reads   <outputs>/<collection>/submission.csv and cache/graphs.parquet, or the raw test split
Writes  <outputs>/submission.csv

Everything is checked before a byte is written: the IDs against the test split (or against
Kaggle's sample), no ID twice, every layout entry a permutation of all configurations of its graph,
every tile entry five distinct configurations, fewer only if the kernel has fewer. For official data
(in data/tpugraphs, or with --official) the test split itself must be the official one.

    python -m lib.scoring.merge [--partial] [--sample sample_submission.csv]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lib import settings
from lib.files.command_line import Parser
from lib.files.errors import DataError, UserError, one_line_errors
from lib.scoring.expected import (
    OFFICIAL_TEST,
    OFFICIAL_TOTAL,
    Collection,
    find_collection,
    identifiers,
)
from lib.scoring.submission import check_entry, read_entries, read_ids, write_submission
from lib.settings.resolved import DOWNLOADED


@dataclass(frozen=True)
class Merged:
    """Checked entries in the order they are to be written, and what there is none of."""

    entries: dict[str, np.ndarray]
    missing: list[str]


def merge(
    collections: Iterable[Collection], wanted: list[str] | None = None, official: bool = False
) -> Merged:
    """Put the collections' entries together.

    Args:
        collections: all that a submission is made of.
        wanted: the IDs to have, in this order; ``None`` for those of the test splits.
        official: whether the test splits must have as many graphs as the official ones.

    Raises:
        DataError: if an entry, or an ID, is not as it should be.
        UserError: if some collections are official data and some are not.
    """
    collections = list(collections)
    _check_one_dataset(collections)
    counts = {name: n for one in collections for name, n in one.ids.items()}
    entries: dict[str, np.ndarray] = {}
    missing = []
    for one in collections:
        own = read_entries(one.file) if one.file.exists() else {}
        for name, order in own.items():
            _check_known(one, name, counts)
            check_entry(one.file, name, order, counts[name])
        entries |= own
        ids = list(one.ids) if wanted is None else [n for n in wanted if _belongs(n, one)]
        missing += _missing(one, ids, own, official)
    if wanted is None:
        return Merged(entries, missing)
    surplus = sorted(set(entries) - set(wanted))
    if surplus:
        raise DataError("rows", surplus[0], f"{len(surplus)} IDs", "only IDs of the sample")
    return Merged({name: entries[name] for name in wanted if name in entries}, missing)


def check_sample(path: Path) -> list[str]:
    """The IDs of Kaggle's sample; :class:`DataError` if one is of no collection known here."""
    wanted, known = read_ids(path), set(identifiers().values())
    for name in wanted:
        if name.rpartition(":")[0] not in known:
            raise DataError(path, "ID", name, f"one of {', '.join(sorted(known))}, and a graph")
    return wanted


def _belongs(name: str, one: Collection) -> bool:
    return name.rpartition(":")[0] == one.identifier


def _check_one_dataset(collections: list[Collection]) -> None:
    """Official data and one's own measurements must not end up in one file."""
    there = [one for one in collections if one.root and one.file.exists()]
    found = {one.root.dataset.size == "official": one for one in there}
    if len(found) > 1:
        raise UserError(
            f"{found[True].name} is of {found[True].root.path}, {found[False].name} of "
            f"{found[False].root.path}: official data and others make no submission together; "
            f"name one with DATA=path"
        )


def _check_known(one: Collection, name: str, counts: dict[str, int]) -> None:
    if not _belongs(name, one) or name not in counts:
        raise DataError(one.file, "ID", name, f"a graph of the test split of {one.name}")


def _missing(
    one: Collection, ids: list[str], entries: dict[str, np.ndarray], official: bool
) -> list[str]:
    """What a collection lacks, in words: nothing, one phrase, or one a reason."""
    absent = [name for name in ids if name not in entries]
    found = []
    if not one.file.exists():
        size = f"{len(ids)} rows" if ids else "all of it: no data"
        found.append(f"{one.name} ({size}; make all COLLECTION={one.name})")
    elif absent:
        more = f" and {len(absent) - 1} more" if absent[1:] else ""
        found.append(f"{absent[0]}{more}")
    if official and one.file.exists() and len(ids) != OFFICIAL_TEST.get(one.name, len(ids)):
        found.append(f"{one.name}: {len(ids)} of {OFFICIAL_TEST[one.name]} official test graphs")
    return found


def main(arguments: list[str] | None = None) -> None:
    """Merge, or say in one line what is missing."""
    args = _parsed(arguments)
    wanted = check_sample(args.sample) if args.sample else None
    collections = [
        find_collection(name, args.outputs, args.data, args.model, args.experiment)
        for name in identifiers()
    ]
    official = args.official or _of_downloaded_data(collections)
    merged = merge(collections, wanted, official and not wanted)
    missing = "missing: " + "; ".join(merged.missing) if merged.missing else ""
    if missing and not args.partial:
        raise UserError(f"{missing}; --partial (PARTIAL=1) writes what there is")
    if not merged.entries:
        raise UserError(f"no collection has a submission yet; {missing}")

    firsts = [next(iter(models)) for models in settings.MODELS.values()]
    other = f"@{args.model}" if args.model and args.model not in firsts else ""
    other += f"+{args.experiment}" if args.experiment else ""
    path = args.outputs / f"submission{other}.csv"
    entries = merged.entries.items()
    write_submission(path, [(name, ";".join(map(str, order.tolist()))) for name, order in entries])
    if missing:
        print(missing)
    total = len(wanted) if wanted else OFFICIAL_TOTAL
    of = f" of {total} ({'the sample' if wanted else 'the official test split'})"
    parts = sum(any(_belongs(name, one) for name in merged.entries) for one in collections)
    print(
        f"submission: {len(merged.entries)} rows{of if official or wanted else ''}, "
        f"{parts} of {len(OFFICIAL_TEST)} collections; wrote {path}"
    )


def _parsed(arguments: list[str] | None) -> argparse.Namespace:
    description, _, _ = __doc__.partition("\n\n    python")
    parser = Parser(
        prog="python -m lib.scoring.merge",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), help="where results are")
    parser.add_argument("--data", type=Path, help="data root (downloaded, else bundled)")
    parser.add_argument("--sample", type=Path, help="Kaggle's sample_submission.csv")
    parser.add_argument("--partial", action="store_true", help="write what there is")
    parser.add_argument("--official", action="store_true", help="check the official 894 rows")
    known = sorted({name for models in settings.MODELS.values() for name in models})
    parser.add_argument("--model", choices=known, help="whose, of kinds that have it")
    parser.add_argument("--experiment", default="", help="of which, if it has a name")
    return parser.parse_args(arguments)


def _of_downloaded_data(collections: Iterable[Collection]) -> bool:
    """Whether a submission is of the official data, where `make download` puts them."""
    downloaded = DOWNLOADED.resolve()
    return any(
        one.root is not None and one.root.path.resolve() == downloaded and one.file.exists()
        for one in collections
    )


if __name__ == "__main__":
    with one_line_errors():
        main()
