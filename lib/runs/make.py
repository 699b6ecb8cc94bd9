"""Answers to Make's questions: where results go, and which of them a stage would make anew.

Only the standard library is needed, for there may be no environment yet::

    python3 -SEB -m lib.runs.make paths --collection layout-xla-default
    python3 -SEB -m lib.runs.make due --collection layout-xla-default --folds 5

Each prints words that Make can take apart, or a line about a wrong value: the folders of results
and cache below the outputs, the usual number of folds, ``table``, the file that stage 4 writes
besides metrics and report, ``scatter``, where torch-scatter adds up, and ``others``, the caches of
other collections.
"""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from lib import settings
from lib.files.errors import one_line_errors
from lib.runs import code
from lib.runs.code import SCRIPTS
from lib.runs.identity import Run
from lib.settings import root_of

TRAINED = 5  # of all folds: TGraph has 20 and trains the first 5 "to limit the compute" (2.4.2)


def paths(*arguments: str) -> None:
    """Print the words of a run."""
    print(*folders(settings.resolve(settings.parser("").parse_args(arguments)).settings))


def due(*arguments: str) -> None:
    """Print the words of a run, and the files that Make has to see as out of date."""
    parser = all_flags(__doc__)
    parser.add_argument("--keep", action="store_true", help="write down what was parsed, for later")
    args = parser.parse_args(arguments)
    run = run_of(args)
    if args.folds is None:
        run = dataclasses.replace(run, folds=min(TRAINED, run.settings.folds_total))
    if args.keep and run.root is None and not run.files("preprocess")[0].exists():
        root_of(run.settings.collection, args.data)  # it says how to get raw data
    words = [f"due={path}" for path in due_files(run)]
    if args.keep:
        code.keep()
    print(*folders(run.settings), *words)


def folders(found: settings.Settings) -> list[str]:
    """Return the words that every answer has."""
    words = {"results": found.results, "cache": found.cache}
    words |= {"folds": min(TRAINED, found.folds_total), "table": found.table}
    words |= {"scatter": found.scatter, "others": ":".join(map(str, found.others.values()))}
    return [f"{name}={value}" for name, value in words.items()]


def all_flags(description: str | None) -> argparse.ArgumentParser:
    """Return a command line with every flag that Make gives to some stage."""
    parser = settings.parser(description or "")
    parser.prog = SCRIPTS["train"]  # messages name it; it has these settings
    parser.add_argument("--folds", type=int, help="how many are trained")
    parser.add_argument("--keep-going", action="store_true", help="stage 1 leaves bad files out")
    return parser


def run_of(args: argparse.Namespace) -> Run:
    """Return the run that a command line of :func:`all_flags` asks for."""
    found = settings.resolve(args).settings
    return Run(args.outputs, found, args.data, args.folds or found.folds_total, args.keep_going)


def due_files(run: Run) -> Iterator[Path]:
    """Yield the files that stages would make anew, other collections' caches among them.

    Raw files whose times alone differ count as changed here, for reading them may take minutes:
    stage 1 looks at them, and has nothing to do if they hold the same.
    """
    for name in run.settings.others:
        other_settings = dataclasses.replace(run.settings, collection=name)
        other = dataclasses.replace(run, settings=other_settings)
        if not other.up_to_date("preprocess", reads=False):
            yield from other.files("preprocess")
    for stage, fold in run.parts():
        if not run.up_to_date(stage, fold, reads=False):
            yield from run.files(stage, fold)


if __name__ == "__main__":
    with one_line_errors():
        answers: dict[str, Callable[..., None]] = {"paths": paths, "due": due}
        answers[sys.argv[1]](*sys.argv[2:])
