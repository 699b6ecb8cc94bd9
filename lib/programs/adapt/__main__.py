"""Predict latencies on a device that few tasks were measured on, or of networks never measured.

Reads   <outputs>/<collection>/cache/, and with --network what stage 2 left in fold_<k>/
Writes  <outputs>/<collection>[@<model>]/adapt/<name>/{tasks.txt, predictions.csv, metrics.json}

    python -m lib.programs.adapt --collection programs-cpu --target avx512 --tasks 30
    python -m lib.programs.adapt --collection programs-cpu --network 'bert.*'

Of the device the latencies of the chosen tasks are used and no others; it is judged by those of
other tasks. A processor that the data do not have is for ``make calibrate``.
"""

from __future__ import annotations

from lib.files.errors import one_line_errors

# isort: split
import argparse
from pathlib import Path
from typing import Any

import torch

from lib import settings
from lib.cache.reader import Cache
from lib.files.command_line import check_least
from lib.files.errors import UserError
from lib.programs.adapt.device import FineTuning
from lib.programs.adapt.sampling import METHODS
from lib.programs.adapt.work import Work, adapt_to_device, adapt_to_networks
from lib.programs.messages import file_name
from lib.programs.settings import ProgramCollection
from lib.runs.stage import Stage

TUNING = FineTuning()


def main(arguments: list[str] | None = None) -> None:
    """Do what the command line asks for."""
    args = parser().parse_args(arguments)
    chosen = settings.resolve(args).settings
    check(args, chosen)
    torch.set_num_threads(chosen.threads)
    cache = Cache(args.outputs / chosen.cache)
    name = file_name(args.network or args.target)
    folder = args.outputs / chosen.results / "adapt" / name
    with Stage() as stage:
        stage.alone(args.outputs, folder, folder / "metrics.json")
        print(adapt(args, chosen, cache, folder))


def adapt(args: argparse.Namespace, chosen: ProgramCollection, cache: Cache, folder: Path) -> str:
    """Adapt a predictor; returns the text to print."""
    work = Work(cache, chosen, folder, TUNING, args.fold, args.draw)
    if args.network:
        return adapt_to_networks(work, args.network)
    sources = args.sources.split(",") if args.sources else None
    return adapt_to_device(work, args.target, sources, choice(args))


def choice(args: argparse.Namespace) -> dict[str, Any]:
    """Of tasks: how many, how, and which draw."""
    return {"method": args.sampling, "count": args.tasks, "seed": args.draw}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    line = settings.parser(__doc__)
    line.add_argument("--target", help="the device: its name, or an instruction set")
    line.add_argument("--network", help="instead of a device: networks whose names fit a pattern")
    line.add_argument(
        "--sources",
        help="devices to learn from, with commas (else such as measured the same)",
    )
    line.add_argument("--tasks", type=int, default=30, help="to measure on the device")
    line.add_argument(
        "--sampling", default="kmeans", help=f"how tasks are chosen: {', '.join(METHODS)}"
    )
    line.add_argument("--draw", type=int, default=0, help="another number chooses other tasks")
    line.add_argument("--fold", type=int, default=0, help="whose training programs are the source")
    return line


def check(args: argparse.Namespace, chosen: settings.Settings) -> None:
    """Raise a :class:`UserError` for what cannot be done."""
    if not isinstance(chosen, ProgramCollection):
        raise UserError(f"adapt: of tensor programs, and {chosen.collection} is of {chosen.kind}")
    if bool(args.target) == bool(args.network):
        raise UserError("--target or --network: one of them is needed, and not both")
    if args.sampling not in METHODS:
        raise UserError(f"--sampling {args.sampling!r}: must be one of {', '.join(METHODS)}")
    check_least(args, tasks=1, draw=0)


if __name__ == "__main__":
    with one_line_errors():
        main()
