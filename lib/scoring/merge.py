"""Merge the collections' submissions into the one file that Kaggle scores.

Reads   <outputs>/<collection>/submission.csv and cache/graphs.parquet, or the raw test split
Writes  <outputs>/submission[@<model>][+<experiment>].csv

Everything is checked before a byte is written: the IDs against the test split, no ID twice, every
layout entry a permutation of all configurations of its graph, every tile entry five distinct
configurations, fewer only if the kernel has fewer. For official data (in data/tpugraphs, or with
--official) the test split itself must be the official one.

    python -m lib.scoring.merge [--partial]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lib.files.command_line import Parser
from lib.files.errors import DataError, UserError, one_line_errors
from lib.scoring.expected import (
    OFFICIAL_TEST,
    OFFICIAL_TOTAL,
    Collection,
    find_collection,
    identifiers,
    submission_of,
)
from lib.scoring.submission import check_entry, read_entries, write_submission
from lib.settings.resolved import DOWNLOADED
from lib.settings.tables import model_names


@dataclass(frozen=True)
class Merged:
    """Checked entries in the order they are to be written, and what there is none of."""

    entries: dict[str, np.ndarray]
    missing: list[str]


def merge(collections: Iterable[Collection], official: bool = False) -> Merged:
    """Put the collections' entries together.

    Args:
        collections: all that a submission is made of.
        official: whether the test splits must have as many graphs as the official ones.

    Raises:
        DataError: if an entry, or an ID, is not as it should be.
        UserError: if some collections are official data and some are not.
    """
    collections = list(collections)
    there = [part for part in collections if part.root and part.file.exists()]
    sides = {part.root.dataset.size == "official": part for part in there}
    if len(sides) > 1:
        raise UserError(
            f"{sides[True].name} is of {sides[True].root.path}, {sides[False].name} of "
            f"{sides[False].root.path}: official data and others make no submission together; "
            f"name one with DATA=path"
        )
    counts = {name: n for part in collections for name, n in part.ids.items()}
    entries: dict[str, np.ndarray] = {}
    missing = []
    for part in collections:
        named = read_entries(part.file) if part.file.exists() else {}
        for name, order in named.items():
            if not _belongs(name, part) or name not in counts:
                raise DataError(part.file, "ID", name, f"a graph of the test split of {part.name}")
            check_entry(part.file, name, order, counts[name])
        entries |= named
        ids = list(part.ids)
        absent = [name for name in ids if name not in named]
        whole = OFFICIAL_TEST.get(part.name, len(ids)) if official else len(ids)
        if not part.file.exists():
            size = f"{whole} rows" if whole else "all of it: no data"
            missing.append(f"{part.name} ({size}; make all COLLECTION={part.name})")
        elif absent:
            more = f" and {len(absent) - 1} more" if absent[1:] else ""
            missing.append(f"{absent[0]}{more}")
        if part.file.exists() and len(ids) != whole:
            missing.append(f"{part.name}: {len(ids)} of {whole} official test graphs")
    return Merged(entries, missing)


def _belongs(name: str, part: Collection) -> bool:
    return name.rpartition(":")[0] == part.identifier


def main(arguments: list[str] | None = None) -> None:
    """Merge, or say in one line what is missing."""
    parser = Parser(description="Merge the collections' submissions into the one for Kaggle.")
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), help="where results are")
    parser.add_argument("--data", type=Path, help="data root (downloaded, else bundled)")
    parser.add_argument("--partial", action="store_true", help="write what there is")
    parser.add_argument("--official", action="store_true", help="check the official 894 rows")
    parser.add_argument("--model", choices=model_names(), help="whose, of kinds that have it")
    parser.add_argument("--experiment", default="", help="of which, if it has a name")
    args = parser.parse_args(arguments)
    collections = [
        find_collection(name, args.outputs, args.data, args.model, args.experiment)
        for name in identifiers()
    ]
    downloaded = DOWNLOADED.resolve()
    there = [part.root.path.resolve() for part in collections if part.root and part.file.exists()]
    official = args.official or downloaded in there
    merged = merge(collections, official)
    missing = "missing: " + "; ".join(merged.missing) if merged.missing else ""
    if missing and not args.partial:
        raise UserError(f"{missing}; --partial (PARTIAL=1) writes what there is")
    if not merged.entries:
        raise UserError(f"no collection has a submission yet; {missing}")

    path = submission_of(args.outputs, args.model, args.experiment)
    entries = merged.entries.items()
    write_submission(path, [(name, ";".join(map(str, order.tolist()))) for name, order in entries])
    if missing:
        print(missing)
    of = f" of {OFFICIAL_TOTAL} (the official test split)" if official else ""
    parts = sum(any(_belongs(name, part) for name in merged.entries) for part in collections)
    print(
        f"submission: {len(merged.entries)} rows{of}, "
        f"{parts} of {len(OFFICIAL_TEST)} collections; wrote {path}"
    )


if __name__ == "__main__":
    with one_line_errors():
        main()
