"""The tables of the papers: ours over seeds, by the stages that a user runs, next to the papers'.

Runs    make all COLLECTION=... MODEL=... EXPERIMENT=paper-... SEED=... for each row, collection
        and seed of a table; make knows what is made already. Make's variables come from the
        environment, where make puts those that it was given. Flags in ARGS beat the paper's
        recipe, and what makes a row beats them
Reads   papers.toml in this folder, and <outputs>/<experiment>/metrics.json
Exit    0, or 1 if a run failed (the others are run all the same)

    FOLDS=2 EPOCHS=4 python -m lib.report.reproduce tgraph3 --seeds 2 --make 'make JOBS=2'
"""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from lib import settings
from lib.files.command_line import Parser, check_least
from lib.files.errors import UserError, one_line_errors
from lib.files.results import read_metrics
from lib.files.terminal import table
from lib.ranking.measures import measures_of
from lib.settings.tables import settings_for
from lib.tpugraphs.dataset import TPUGRAPHS

OF_THIS_MAKE = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")  # and not of one below
PAPERS = Path(__file__).with_name("papers.toml")
HEAD = ("", "collection", "ours", "seeds", "folds", "paper")


@dataclass(frozen=True)
class Cell:
    """A number of a paper's.

    Attributes:
        table, row: of ``papers.toml``, which says what they have.
        collection: whose number it is.
        paper: the number, as printed.
        data: the data root of ours, if the user named one.
        failed: seeds whose run has just failed: what an earlier one has left is not theirs.
    """

    table: Mapping[str, Any]
    row: Mapping[str, Any]
    collection: str
    paper: str
    data: Path | None
    failed: set[int] = field(default_factory=set)

    def names(self, seed: int) -> dict[str, Any]:
        """Return what names the results: cells of two tables that are one run share a folder."""
        of_row = re.sub("[^a-z0-9]+", "-", self.row.get("flags", ""))
        named = {"model": self.row["model"], "experiment": f"paper{of_row}-s{seed}", "seed": seed}
        return {"collection": self.collection, **named}

    def flags(self, given: str = "") -> str:
        """The paper's recipe, what was given, and what makes the row: the later flag counts."""
        official = vars(settings_for(self.collection, TPUGRAPHS, {"model": self.row["model"]}))
        recipe = [name for name in self.table.get("recipe", ()) if name in official]
        words = [f"--{name.replace('_', '-')}={official[name]}" for name in recipe]
        words += [self.table.get("flags", ""), given, self.row.get("flags", "")]
        return " ".join(word for word in words if word)

    @cached_property
    def resolved(self) -> settings.Resolved:
        """The settings of the first seed and the data, if nothing is given."""
        named = {**self.names(0), **({"data": self.data} if self.data else {})}
        words = [f"--{name}={value}" for name, value in named.items()]
        return settings.resolve(settings.parser("").parse_args([*words, *self.flags().split()]))

    def run(self, seed: int, make: Sequence[str]) -> bool:
        """Run the stages; whether that went well."""
        words = [f"{name.upper()}={value}" for name, value in self.names(seed).items()]
        words.append(f"ARGS={self.flags(os.environ.get('ARGS', ''))}")
        if "folds" in self.table and not os.environ.get("FOLDS"):
            words.append(f"FOLDS={self.table['folds']}")
        kept = {name: value for name, value in os.environ.items() if name not in OF_THIS_MAKE}
        failed = subprocess.run([*make, "all", *words], env=kept).returncode
        if failed:
            self.failed.add(seed)
            print(f"reproduce: make all {shlex.join(words)} failed, and says why above", flush=True)
        return not failed

    def metrics(self, seeds: int, outputs: Path) -> dict[int, dict[str, Any]]:
        """Return the numbers that stage 4 has left of each seed that was run."""
        found = {}
        for seed in {*range(seeds)} - self.failed:
            own = dataclasses.replace(self.resolved.settings, **self.names(seed))
            path = outputs / own.results / "metrics.json"
            if path.exists():
                found[seed] = read_metrics(path)
        return found

    def number(self, metrics: Mapping[str, Any]) -> float | None:
        """Return the number to compare with the paper's; of programs over all pairs, not tasks."""
        section = metrics.get(self.table["section"], {})
        numbers = section.get("groups", {}).get("all", {}).get("all") or section.get("mean", {})
        return numbers.get(self.table.get("metric", self.resolved.settings.metric))

    def otherwise(self, metrics: Mapping[str, Any]) -> set[str]:
        """The settings that a run had other than the paper's recipe on these data."""
        ran, recipe = metrics["settings"], settings.described(self.resolved.settings)
        names = [name for name in recipe if ran.get(name) != recipe[name] and name != "seed"]
        return {f"{name.replace('_', '-')} {ran.get(name)}, not {recipe[name]}" for name in names}


def read_tables() -> dict[str, dict[str, Any]]:
    """The tables, by what TABLE calls them, such as ``tgraph2``."""
    papers = tomllib.loads(PAPERS.read_text("utf-8"))
    return {
        f"{paper}{number}": {**fields, **own, "title": f"{fields['source']}, {own['title']}"}
        for paper, fields in papers.items()
        for number, own in fields.pop("tables").items()
    }


def cells_of(paper_table: Mapping[str, Any], only: str | None, data: Path | None) -> list[Cell]:
    """The cells of a table, of all collections or only one.

    Raises:
        UserError: the table has not that collection.
    """
    if only and only not in paper_table["columns"]:
        raise UserError(f"COLLECTION={only}: this table has {' '.join(paper_table['columns'])}")
    return [
        Cell(paper_table, row, collection, paper, data)
        for row in paper_table["rows"]
        for collection, paper in zip(paper_table["columns"], row["paper"], strict=True)
        if paper and collection in (only or paper_table["columns"])
    ]


def shown(cells: Sequence[Cell], seeds: int, outputs: Path) -> str:
    """The table: mean and standard deviation over seeds, the paper's number, and what to know."""
    rows, notes = [], []
    for cell in cells:
        found = [*cell.metrics(seeds, outputs).values()]
        numbers = [number for run in found if (number := cell.number(run)) is not None]
        folds = {len(scores) for run in found for scores in run["folds"].values()}
        cells_of_row = [ours(cell, numbers), str(len(numbers)), str(max(folds, default="-"))]
        rows.append([cell.row["name"], cell.collection, *cells_of_row, cell.paper])
        notes += [*sorted(set().union(*map(cell.otherwise, found))), data_of(cell)]
    notes.append(cells[0].table["note"])
    lines = [cells[0].table["title"], table(rows, HEAD)]
    return "\n".join([*lines, *(f"* {note}" for note in dict.fromkeys(notes))])


def ours(cell: Cell, numbers: Sequence[float]) -> str:
    """Mean and standard deviation, as far as there are any."""
    kind = measures_of(cell.collection)
    key = cell.table.get("metric", kind.main.key)
    text = next(metric.plain for metric in kind.metrics if metric.key == key)
    spread = f" ± {text(stdev(numbers))}" if len(numbers) > 1 else ""
    return text(fmean(numbers) if numbers else None) + spread


def data_of(cell: Cell) -> str:
    """Return the data that ours are of, in words."""
    dataset, place = cell.resolved.dataset, cell.resolved.place
    if place is None:
        return f"no data of {cell.collection}"
    other = "" if dataset == TPUGRAPHS else ", not the paper's data: compare rows with each other"
    return f"{place[0]}: {dataset.name}{other}"


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing of a table, and print it; without a table, list them."""
    parser = Parser(prog="python -m lib.report.reproduce", description=__doc__.partition("\n")[0])
    parser.add_argument("table", nargs="?", help="such as tgraph2; without, all are listed")
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0 on")
    parser.add_argument("--collection", help="only this one of the table's")
    parser.add_argument("--make", default="make", help="the command, in shell words")
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), help="where results go")
    parser.add_argument("--data", type=Path, help="data root (downloaded, else bundled)")
    args, tables = parser.parse_args(arguments), read_tables()
    check_least(args, seeds=1)
    if args.table is None:
        print("\n".join(f"{name:<10}{table['title']}" for name, table in tables.items()))
        return
    if args.table not in tables:
        raise UserError(f"TABLE={args.table}: must be one of {' '.join(tables)}")
    cells, make = cells_of(tables[args.table], args.collection, args.data), shlex.split(args.make)
    able = [cell for cell in cells if cell.resolved.place]
    runs = product(range(args.seeds), able)  # first every cell once
    well = [cell.run(seed, make) for seed, cell in runs]
    print(shown(cells, args.seeds, args.outputs))
    sys.exit(not all(well))


if __name__ == "__main__":
    with one_line_errors():
        main()
