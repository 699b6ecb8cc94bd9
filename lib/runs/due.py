"""What Make asks before it starts anything: which results the stages would make anew.

The same flags as the stages have, those of all of them::

    python3 -SEB -m lib.runs.due --collection layout-xla-default --folds 5

prints, after ``due:``, the files that Make is to see as out of date, or a line about what is no
good. Raw files of which the times alone differ count as changed here, for reading them may take
minutes: stage 1 looks at them, and has nothing to do if they hold the same.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator
from pathlib import Path

from lib import settings
from lib.files.errors import one_line_errors
from lib.runs import sources
from lib.runs.claims import claim
from lib.runs.identity import Making
from lib.runs.ingredients import SCRIPTS, STAGES
from lib.settings.resolved import place_of, root_of


def main() -> None:
    """Print what is due."""
    parser = all_flags(__doc__)
    help = "the process that will make it; without one nothing is written, not even for later"
    parser.add_argument("--maker", type=int, help=help)
    args = parser.parse_args()
    making = making_by(args)
    collection, manifest = making.settings.collection, making.files("preprocess")[0]
    if args.maker is not None and not manifest.exists() and not place_of(collection, args.data):
        root_of(collection, args.data)  # which says how to get them
    words = list(due(making))
    if args.maker is not None:
        claim(making, args.maker)
        sources.keep()
    print("due:", *words)


def all_flags(description: str) -> argparse.ArgumentParser:
    """A command line with what Make gives any stage."""
    parser = settings.parser(description)
    parser.prog = SCRIPTS["train"]  # a message names it, which has these settings
    parser.add_argument("--folds", type=int, help="how many are trained")
    parser.add_argument("--keep-going", action="store_true", help="stage 1 leaves bad files out")
    return parser


def making_by(args: argparse.Namespace) -> Making:
    """What stages would make results from, by a command line with :func:`all_flags`."""
    chosen = settings.resolve(args).settings
    return Making(
        args.outputs, chosen, args.data, args.folds or chosen.folds_total, args.keep_going
    )


def due(making: Making) -> Iterator[Path]:
    """The files that stages would make anew, other collections' caches among them."""
    for name in making.settings.others:
        other = dataclasses.replace(
            making, settings=dataclasses.replace(making.settings, collection=name)
        )
        if not other.as_it_was("preprocess", looks=False):
            yield from other.files("preprocess")
    for stage, fold in parts_of(making):
        if not making.as_it_was(stage, fold, looks=False):
            yield from making.files(stage, fold)


def parts_of(making: Making) -> list[tuple[str, int | None]]:
    """Each stage's runs in order, a fold each where there are any."""
    every = {stage: making.fold_numbers for stage in ("train", "infer")}
    return [(stage, fold) for stage in STAGES for fold in every.get(stage, [None])]


if __name__ == "__main__":
    with one_line_errors():
        main()
