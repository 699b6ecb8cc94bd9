"""What the stages will take on this machine, before anything is started.

    python -m lib.study.plan --collection layout-nlp-random [--data path] [--folds 5] [--jobs 2]

Planned is what `make all` would do with the raw files that it would read; ``--data official``
stands for the official archives, as far as they are known. The stages' own code runs on a few
graphs, for about a minute (:mod:`lib.study.measure`), and what it takes grows in proportion:

    stage 1             with configurations x configurable nodes
    a step of training  with configurations of the step x nodes that the network reads
    scoring             with configurations x nodes that the network reads

Memory is that of the largest graph. A fold is the mean one: a share of all graphs with labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from joblib import cpu_count

from lib import settings
from lib.files.command_line import check_least
from lib.files.errors import DataError, UserError, one_line_errors
from lib.files.terminal import counted, duration, table
from lib.models.common.input import input_of
from lib.runs.make import TRAINED
from lib.runs.memory import gigabytes
from lib.settings import Settings
from lib.study.measure import BATCHES, Rates, measure, scored, width
from lib.tpugraphs import archive
from lib.tpugraphs.dataset import TPUGRAPHS
from lib.tpugraphs.protobuf import read_protobuf
from lib.tpugraphs.roots import SPLITS, DataRoot
from lib.tpugraphs.sizes import GraphSize, official_graphs
from lib.training.schedule import passes_of

OFFICIAL = Path("official")
# Of a score, measured on parquets of 2.6 and 5.3 million: bytes on disk, and in memory before it is
# written; and of stage 4, bytes, one fold at a time, and seconds.
DISK, HELD, BLENDED, BLENDING = 6.8, 52, 220, 7e-7
READ = 1 << 16  # bytes of a mapped file that Linux brings to memory where a row of it is read


class Forecast(NamedTuple):
    """What a stage takes: seconds of all, and of one fold; bytes of memory of a process, of disk,
    and of a GPU's memory."""

    seconds: float
    a_fold: float
    memory: float
    disk: float = 0.0
    device: float = 0.0


class Sides(NamedTuple):
    """Graphs with labels, of the test, and of other collections that are learned from as well."""

    labelled: list[GraphSize]
    test: list[GraphSize]
    beside: list[GraphSize]


def main(arguments: list[str] | None = None) -> None:
    """Measure, reckon, and print the table."""
    parser = settings.parser(__doc__)
    parser.add_argument("--folds", type=int, help="how many are trained")
    parser.add_argument("--jobs", type=int, default=cpu_count(), help="processes at a time")
    args = parser.parse_args(arguments)
    check_least(args, jobs=1)
    official = args.data == OFFICIAL and not OFFICIAL.exists()
    resolved = settings.resolve(args, TPUGRAPHS if official else None)
    chosen, root = resolved.settings, None if official else resolved.root()
    if chosen.kind not in ("layout", "tile"):
        raise UserError(f"{chosen.collection}: takes minutes; only layouts and tiles are planned")
    folds = args.folds or min(TRAINED, chosen.folds_total)
    files = graphs_in(root, chosen) if root else {}
    sides = sides_of(chosen, root, (size for sizes in files.values() for size in sizes))
    of = f"official {chosen.collection}"
    if root:
        of = f"{len(sides.labelled) + len(sides.test):,} graphs of {root.path}"
    print(f"plan: {chosen.model} on {of}; trying stages out, for a minute or so", flush=True)
    stages = forecast(sides, measure(chosen, files), chosen, folds, args.jobs)
    print(stages_table(stages, folds))
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU cores"
    total = duration(sum(stage.seconds for stage in stages.values()))
    most = passes_of(chosen, 1)
    epochs = counted(most, "epoch") + (" at most" if chosen.epochs != most else "")
    print(
        f"plan: {chosen.model} on {of}: {total} on {device}, {counted(args.jobs, 'job')}, "
        f"{counted(folds, 'fold')} of {epochs}"
    )


def graphs_in(root: DataRoot, chosen: Settings) -> dict[Path, list[GraphSize]]:
    """The sizes of the graphs in each raw file of a collection.

    Raises:
        DataError: a file cannot be believed.
    """
    files = ((path, split) for split in SPLITS for path in root.files(chosen.folder, split))
    return {path: sizes_in(path, split) for path, split in files}


def sizes_in(path: Path, split: str) -> list[GraphSize]:
    """Of an npz only headers are read; of a protobuf, which has none, all of it."""
    if path.suffix != ".npz":
        parsed = read_protobuf(path)
        graphs = parsed if isinstance(parsed, list) else [parsed]
        keys = ("node_feat", "node_config_ids", "config_runtime")
        return [
            GraphSize(split, *(len(getattr(graph, key, ())) for key in keys)) for graph in graphs
        ]
    with archive.open_members(path) as members:
        shapes = {key: archive.read_header(member).shape for key, member in members.items()}
    lengths = {key: shape[0] for key, shape in shapes.items() if shape}
    for key in ("node_feat", "config_runtime"):
        if key not in lengths:
            raise DataError(path, key, "nothing", "an array")
    configurable = lengths.get("node_config_ids", 0)
    return [GraphSize(split, lengths["node_feat"], configurable, lengths["config_runtime"])]


def sides_of(chosen: Settings, root: DataRoot | None, sizes: Iterable[GraphSize]) -> Sides:
    """The graphs of a collection, and of those that are learned from beside it.

    Args:
        chosen: settings of the collection.
        root: the raw data; ``None`` for official ones.
        sizes: of the collection's own graphs in it.
    """
    graphs = list(sizes) if root else official_graphs(chosen.collection)
    beside: list[GraphSize] = []
    for name in chosen.others:
        files = graphs_in(root, replace(chosen, collection=name)) if root else {}
        beside += [size for part in files.values() for size in part] or official_graphs(name)
    labelled, beside = ([s for s in part if s.split != "test"] for part in (graphs, beside))
    return Sides(labelled, [size for size in graphs if size.split == "test"], beside)


def forecast(
    sides: Sides, rates: Mapping[str, Rates], settings: Settings, folds: int, jobs: int
) -> dict[str, Forecast]:
    """What each stage will take, by name.

    Args:
        sides: the graphs.
        rates: what was measured, see :func:`lib.study.measure.measure`.
        settings: of the collection.
        folds: that are trained, ``jobs`` at a time.
        jobs: processes at a time; that they slow each other down is not reckoned with.
    """
    files, rounds = [graph for side in sides for graph in side], math.ceil(folds / jobs)
    rate, cells = rates["preprocess"], sum(graph.cells for graph in files)
    alone, disk = rate["seconds"] * cells, rate["disk"] * cells
    return {
        "preprocess": Forecast(alone / min(jobs, len(files)), alone, rate["memory"], disk),
        "train": training(sides, rates["train"], settings, folds, rounds, disk),
        **scoring(sides, rates["infer"], settings, folds, rounds),
    }


def training(
    sides: Sides, rate: Rates, settings: Settings, folds: int, rounds: int, cached: float
) -> Forecast:
    """Of stage 2; of the ``cached`` bytes, what is read stays in memory while there is room."""
    learned, held = [*sides.labelled, *sides.beside], 1 / settings.folds_total
    steps = [scored(graph, settings, settings.configurations) for graph in learned]
    sampled, whole = (
        held * rate["validation"] * sum(scored(graph, settings, most) for graph in sides.labelled)
        for most in (settings.validation_configurations, math.inf)
    )
    passes = passes_of(settings, math.ceil((1 - held) * len(learned) / settings.accumulate))
    seconds = rate["start"] + rate["ready"] * sum(width(graph, settings) for graph in learned)
    seconds += passes * ((1 - held) * rate["step"] * sum(steps) + sampled / settings.validate_every)
    seconds += whole if sampled < whole else 0.0
    rows = passes * sum(min(graph.configurations, settings.configurations) for graph in learned)
    memory = rate["memory"] + rate["more_memory"] * max(steps) + min(cached, rows * READ)
    device = rate["device"] * max(steps)
    return Forecast(rounds * seconds, seconds, memory, folds * rate["disk"], device)


def scoring(
    sides: Sides, rate: Rates, settings: Settings, folds: int, rounds: int
) -> dict[str, Forecast]:
    """Of stages 3 and 4: a fold scores test graphs, validation graphs, and if asked the rest."""
    share = 1 if settings.score_training else 1 / settings.folds_total
    parts = ((sides.test, 1.0), (sides.labelled, share))
    orders = settings.permutations if input_of(settings).groupings else 1
    rows = orders * sum(part * sum(graph.configurations for graph in side) for side, part in parts)
    work = sum(part * sum(scored(graph, settings) for graph in side) for side, part in parts)
    most = BATCHES * settings.inference_configurations
    largest = max(scored(graph, settings, most) for side, _ in parts for graph in side)
    memory = rate["memory"] + rate["more_memory"] * largest + HELD * rows
    seconds = rate["start"] + rate["seconds"] * work
    blended = folds * rows * BLENDING
    return {
        "infer": Forecast(rounds * seconds, seconds, memory, folds * DISK * rows),
        "ensemble": Forecast(blended, blended, BLENDED * rows),
    }


def stages_table(stages: Mapping[str, Forecast], folds: int) -> str:
    """A row a stage."""
    rows = []
    for number, (name, stage) in enumerate(stages.items(), start=1):
        a_fold = duration(stage.a_fold) if name in ("train", "infer") else ""
        memory = gigabytes(stage.memory)
        memory += f", {gigabytes(stage.device)} on the GPU" if stage.device else ""
        rows.append(
            [f"{number} {name}", duration(stage.seconds), a_fold, memory, gigabytes(stage.disk)]
        )
    return table(rows, ["stage", "time", f"a fold of {folds}", "memory a process", "disk"])


if __name__ == "__main__":
    with one_line_errors():
        main()
