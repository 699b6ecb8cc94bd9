"""What a stage is asked for: its command line, and whether that is there already.

Only the standard library is needed, so that a stage knows before it imports what takes seconds.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys

from lib import settings
from lib.files.artifacts import write_json
from lib.files.errors import one_line_errors
from lib.runs.identity import Making
from lib.runs.ingredients import record_path
from lib.settings import Resolved, Settings

Asked = tuple[argparse.Namespace, Resolved]  # the command line, and what it means


def parser_of(stage: str, description: str = "") -> argparse.ArgumentParser:
    """The command line of a stage.

    Args:
        stage: ``preprocess``, ``train``, ``infer`` or ``ensemble``.
        description: for its help.
    """
    parser = settings.parser(description)
    match stage:
        case "preprocess":
            cores = len(os.sched_getaffinity(0))
            parser.add_argument(
                "--jobs", type=int, default=cores, help="worker processes (one a core)"
            )
            parser.add_argument(
                "--keep-going", action="store_true", help="name bad files, skip them"
            )
        case "train":
            help = "which fold to leave out, from 0"
            parser.add_argument("--fold", type=int, required=True, help=help)
            help = "how many are trained in all, one after another"
            parser.add_argument("--folds", type=int, help=help)
        case "infer":
            help = "which fold's network to use"
            parser.add_argument("--fold", type=int, required=True, help=help)
        case "ensemble":
            help = "use folds 0 to this minus 1 (default: all)"
            parser.add_argument("--folds", type=int, help=help)
    return parser


def making_of(args: argparse.Namespace, chosen: Settings) -> Making:
    """What a parsed command line would make results from.

    Args:
        args: the stage's.
        chosen: the settings that it means. Of several processes of torchrun a step takes a sample
            each, at least.
    """
    together = "TORCHELASTIC_RUN_ID" in os.environ  # others set the number of processes, too
    least = max(chosen.accumulate, int(os.environ["WORLD_SIZE"]) if together else 1)
    fitting = dataclasses.replace(chosen, accumulate=least)
    keep_going, folds = getattr(args, "keep_going", False), getattr(args, "folds", None)
    return Making(args.outputs, fitting, args.data, folds, keep_going)


@one_line_errors()
def parse_or_end(stage: str, description: str | None) -> Asked:
    """Parse the command line; the process ends with a line if the results it asks for are there.

    It ends with a line, too, if they are not, and there are no raw data to make them from.
    """
    args = parser_of(stage, description or "").parse_args()
    resolved = settings.resolve(args)
    making = making_of(args, resolved.settings)
    fold = getattr(args, "fold", None)
    if making.as_it_was(stage, fold):
        tell_as_it_was(making, stage, fold)
        sys.exit()
    if resolved.place is None:  # else there is no need of the libraries that read it
        resolved.root()
    return args, resolved


def tell_as_it_was(making: Making, stage: str, fold: int | None = None) -> None:
    """Say that a stage has nothing to do, and let Make see that by the time of its results."""
    files = making.files(stage, fold)
    if stage == "preprocess":  # folds go by the time of the manifest
        path = record_path(making.outputs, stage, making.settings)
        write_json(path, {**making.record(stage), "raw": making.raw_files})
    else:
        for file in files:
            os.utime(file)
    what = making.settings.collection if stage == "preprocess" else making.settings.results
    of_fold = "" if fold is None else f" fold {fold}"
    where = f"{files[0].parent}/" if len(files) > 1 or stage == "preprocess" else files[0]
    print(f"{stage}: {what}{of_fold}: as it was, {where}")
