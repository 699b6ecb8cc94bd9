"""What the stages will take on this machine, before anything is started.

    python -m lib.study.plan --collection layout-nlp-random [--data path] [--folds 5] [--jobs 2]

Planned is what `make all` would do with the raw files that it would read; ``--data official``
stands for the official archives, as far as they are known. The numbers come from running the
stages' own code on a few graphs, for about a minute.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import torch
from joblib import cpu_count
from tqdm import tqdm

from lib import settings
from lib.files.errors import UserError, one_line_errors
from lib.files.terminal import counted, duration, table
from lib.runs.memory import gigabytes
from lib.runs.plan import TRAINED
from lib.settings import Settings
from lib.study.plan.collection import check_folds, graphs_of, others_of
from lib.study.plan.costs import Forecast, forecast
from lib.study.plan.measure import calibrate
from lib.tpugraphs.dataset import TPUGRAPHS, Dataset
from lib.tpugraphs.roots import DataRoot
from lib.train.schedule import passes_of

OFFICIAL = Path("official")
TIGHT = 8e9  # bytes of memory that a process should not take more of


def main(arguments: list[str] | None = None) -> None:
    """Measure, reckon, and print the table."""
    parser = settings.parser(__doc__)
    parser.add_argument("--folds", type=int, help="how many are trained")
    cores = cpu_count()
    parser.add_argument("--jobs", type=int, default=cores, help="processes at a time")
    args = parser.parse_args(arguments)
    if args.jobs < 1:
        raise UserError(f"--jobs {args.jobs}: must be at least 1")
    chosen, root, dataset = resolved(args)
    if chosen.kind not in ("layout", "tile"):
        raise UserError(f"{chosen.collection}: takes minutes; only layouts and tiles are planned")
    folds = args.folds or min(TRAINED, chosen.folds_total)
    if root:
        check_folds(chosen, root)
    graphs = graphs_of(chosen, root)
    of = f"{len(graphs):,} graphs of {root.path}" if root else f"official {chosen.collection}"
    print(f"plan: {chosen.model} on {of}; trying stages out, for a minute or so", flush=True)
    bar = partial(tqdm, desc="plan", unit="sample", disable=None)
    units = calibrate(chosen, root, dataset, graphs, bar)
    stages = forecast(graphs, units, chosen, folds, args.jobs, others=others_of(chosen, root))
    print(stages_table(stages, folds))
    for name, one in stages.items():
        if one.memory > TIGHT:
            print(f"{name}: {gigabytes(one.memory)} a process; fewer --configurations take less")
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{cores} CPU cores"
    total = duration(sum(one.seconds for one in stages.values()))
    most = passes_of(chosen, 1)
    epochs = counted(most, "epoch") + (" at most" if chosen.epochs != most else "")
    print(
        f"plan: {chosen.model} on {of}: {total} on {device}, {counted(args.jobs, 'job')}, "
        f"{counted(folds, 'fold')} of {epochs}; measured on {counted(len(units), 'sample')}"
    )


def resolved(args: argparse.Namespace) -> tuple[Settings, DataRoot | None, Dataset]:
    """Settings, the raw data that the stages would read, and what they say of themselves.

    ``OFFICIAL`` for data, if there is no such folder, are those of the official archives.
    """
    if args.data != OFFICIAL or OFFICIAL.exists():
        found = settings.resolve(args)
        return found.settings, found.root(), found.dataset
    return settings.resolve(args, TPUGRAPHS).settings, None, TPUGRAPHS


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
