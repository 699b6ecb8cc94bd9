"""Small trainings of every kind of input, by as many processes as torchrun starts.

    torchrun --standalone --nproc-per-node 2 tests/train/together.py FOLDER

trains each of :func:`cases` twice, once undisturbed and once in two runs, and leaves what each
process has in the end in ``FOLDER/<case>-<whole or resumed>-<rank>.safetensors``.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from lib.cache.reader import Cache
from lib.experiments.settings import LayoutSegments
from lib.files import tensor_file
from lib.inputs.input import network_for
from lib.preprocess.collection import RawFile, write_cache
from lib.settings import LayoutSettings, PlusSettings, Settings
from lib.tpugraphs.npz import write_layout
from lib.train.fold import load_fold
from lib.train.loop import FoldTraining, new_network
from lib.train.processes import ALONE, Processes, processes_on
from tests import kernels
from tests.builders import COLLECTION
from tests.programs import builders as programs
from tests.synthetic import layout_graph

EPOCHS, CUT = 2, 1  # of a training, and after which the first of two runs is over
GRAPHS = 10  # of which a fold trains on five: in the last step of a pass one process has none
OWN = {
    **{"epochs": EPOCHS, "folds_total": 2, "configurations": 6, "channels": 8},
    **{"threads": 1, "save_seconds": 0.0, "learning_rate": 1e-3},
}
TAUGHT = {"hardware": "cpu", "dropout": 0.5, "lessons": 20}
TILES = ("kernels", "tiles")
LATENCIES = {"epochs": EPOCHS, "save_seconds": 0.0}


def write(folder: Path) -> None:
    """The caches of all cases."""
    for index in range(GRAPHS):
        graph = layout_graph(f"g{index}", index, configurations=12)
        write_layout(folder / "graphs" / f"{graph.name}.npz", graph)
    tiles = [kernels.tile_kernel(f"k{index}", index) for index in range(GRAPHS)]
    kernels.write_kernels(folder / "tiles", tiles)
    for name, raw, hops in (("whole", "graphs", "all"), ("pruned", "graphs", 1), (*TILES, 0)):
        files = [RawFile(path, "train") for path in sorted((folder / raw).iterdir())]
        kind = "tile" if raw == "tiles" else "layout"
        write_cache(folder / name, files, {"hops": hops}, kind=kind)
    programs.write_programs(folder / "programs", tasks=10, programs=8)


def cases() -> dict[str, tuple[str, Settings]]:
    """The cache and the settings of each."""
    segments = {"heads": 2, "segment_nodes": 6, "trained_segments": 1, "segment_dropout": 0.5}
    return {
        "tgraph": ("pruned", LayoutSettings(COLLECTION, **OWN, dropout=0.2)),
        "tgraph-plus": ("whole", PlusSettings(COLLECTION, **OWN, **TAUGHT)),
        "tgraph-plus of TPUs": ("pruned", PlusSettings(COLLECTION, **OWN)),
        "gst": ("whole", LayoutSegments(COLLECTION, **OWN, **segments)),
        "tile": ("kernels", kernels.tiny_settings(**OWN, kernels=1)),
        "cdmpp": ("programs/cache", programs.tiny_settings(**LATENCIES)),
        "cdmpp-plus": ("programs/cache", programs.tiny_plus(**LATENCIES)),
    }


def training(folder: Path, name: str, processes: Processes = ALONE) -> FoldTraining:
    """The training of a case, two samples a step."""
    cache, settings = cases()[name]
    settings = replace(settings, accumulate=2)
    data = load_fold(Cache(folder / cache), 0, settings)
    network = new_network(partial(network_for, settings), data, settings.seed, 0)
    return FoldTraining(network, data, 0, processes)


def keep(made: FoldTraining, path: Path) -> None:
    """Leave weights and losses."""
    about = {"losses": [row["loss"] for row in made.state.history]}
    tensor_file.save(
        path, made.network.state_dict(), {**about, "resumed_at": made.state.resumed_at}
    )


def main(folder: Path) -> None:
    """Train every case."""
    torch.set_num_threads(1)
    with processes_on(torch.device("cpu")) as processes:
        for name in cases():
            for how in ("whole", "resumed"):
                state = folder / f"{name}-{how}" / "state.safetensors"
                if how == "resumed":  # the state of an epoch is saved when the next is asked for
                    first = training(folder, name, processes).run(state, "a")
                    for _ in range(CUT + 1):
                        next(first)
                    first.close()
                    processes.broadcast(True)  # as killed together, and started together
                made = training(folder, name, processes)
                list(made.run(state, "a"))
                keep(made, folder / f"{name}-{how}-{processes.rank}.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
