"""What the stages will take on this machine, before anything is started.

    python -m lib.forecast --collection layout-nlp-random [--data path] [--folds 5] [--jobs 2]

Sizes are those of the raw files, or those of official data where there are none. The numbers come
from running the stages' own code on a few graphs, for about a minute.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial

import torch
from tqdm import tqdm

from lib import settings
from lib.files.errors import UserError, one_line_errors
from lib.files.terminal import duration, table
from lib.forecast.collection import graphs_of, others_of
from lib.forecast.costs import Forecast, forecast
from lib.forecast.measure import calibrate
from lib.runs.memory import gigabytes
from lib.runs.plan import TRAINED
from lib.settings import Settings
from lib.tpugraphs.dataset import TPUGRAPHS, Dataset
from lib.tpugraphs.roots import DataRoot
from lib.train.schedule import passes_of

TIGHT = 8e9  # bytes of memory that a process should not take more of


def main(arguments: list[str] | None = None) -> None:
    """Measure, reckon, and print the table."""
    parser = settings.parser(__doc__)
    parser.add_argument("--folds", type=int, help="how many are trained")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--jobs", type=int, default=cores, help="processes at a time")
    args = parser.parse_args(arguments)
    chosen, root, dataset = resolved(args)
    if chosen.kind not in ("layout", "tile"):
        raise UserError(f"{chosen.collection}: takes minutes; only layouts and tiles are planned")
    folds = args.folds or min(TRAINED, chosen.folds_total)
    graphs = graphs_of(chosen, root)
    bar = partial(tqdm, desc="plan", unit="sample", disable=None)
    units = calibrate(chosen, root, dataset, graphs, bar)
    stages = forecast(graphs, units, chosen, folds, args.jobs, others=others_of(chosen, root))
    print(stages_table(stages, folds))
    for name, one in stages.items():
        if one.memory > TIGHT:
            print(f"{name}: {gigabytes(one.memory)} a process; fewer --configurations take less")
    of = f"{len(graphs):,} graphs of {root.path}" if root else f"official {chosen.collection}"
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{cores} CPU cores"
    total = duration(sum(one.seconds for one in stages.values()))
    most = passes_of(chosen, 1)
    epochs = f"{most:g} epochs" if chosen.epochs == most else f"{most:g} epochs at most"
    print(
        f"plan: {chosen.model} on {of}: {total} on {device}, {args.jobs} jobs, "
        f"{folds} folds of {epochs}; measured on {len(units)} samples"
    )


def resolved(args: argparse.Namespace) -> tuple[Settings, DataRoot | None, Dataset]:
    """Settings, the raw data if there are any, and what they say of themselves.

    Without ``--data`` and a download, what is planned is official data: bundled measurements take
    minutes.
    """
    try:
        data = args.data or settings.DOWNLOADED
        args.data = data
        chosen, root = settings.resolve(args)
        return chosen, root, root.dataset
    except UserError:
        if args.data != settings.DOWNLOADED:
            raise
    chosen = settings.chosen_by(args, TPUGRAPHS)
    if args.show:
        print(settings.settings_text(chosen, TPUGRAPHS, args))
        sys.exit()
    return chosen, None, TPUGRAPHS


def stages_table(stages: dict[str, Forecast], folds: int) -> str:
    """A row a stage."""
    rows = []
    for number, (name, one) in enumerate(stages.items(), start=1):
        each = duration(one.each) if name in ("train", "infer") else ""
        memory = gigabytes(one.memory)
        if one.device_memory:
            memory += f", {gigabytes(one.device_memory)} on the GPU"
        rows.append([f"{number} {name}", duration(one.seconds), each, memory, gigabytes(one.disk)])
    head = ["stage", "time", f"a fold of {folds}", "memory a process", "disk"]
    return table(rows, head)


if __name__ == "__main__":
    with one_line_errors():
        main()
