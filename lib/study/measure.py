"""What the stages take of a few graphs, by their own code, each in a process of its own.

Raw files are taken evenly by size. Where there are none, real kernels that come with the repository
stand in, or a real program: copies of it side by side, with layouts of its own drawn anew.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lib.cache.reader import Cache
from lib.files.errors import UserError
from lib.files.progress import Lines
from lib.models.common.build import network_for
from lib.models.common.settings import NONE, WHOLE
from lib.preprocess.collection import RawFile, write_cache
from lib.runs.stage import peak_memory, process_seconds
from lib.scoring.scores import scores_of
from lib.settings import Settings
from lib.settings.resolved import BUNDLED_TPU
from lib.tpugraphs.npz import read_layout, read_tile, write_layout, write_tile
from lib.tpugraphs.sizes import GraphSize
from lib.training.fold import load_fold
from lib.training.loop import FoldTraining

KERNELS = BUNDLED_TPU / "npz" / "tile" / "xla" / "train"
PROGRAM = BUNDLED_TPU / "npz" / "layout" / "xla" / "default" / "train" / "main__.10904.npz"
COPIES, CONFIGURATIONS = (3, 6, 12, 18), 2048  # of what is made
GRAPHS, MOST_KERNELS = 8, 64  # that are measured
LEAST_SECONDS = 2.0  # that repeated work is timed for
BATCHES = 2  # of configurations that stage 3 is timed on
KEPT_WEIGHTS = 2  # the last and the best
WITHOUT_TORCH = 12e7  # bytes that a process of stage 1 takes before its first file
Rates = dict[str, float]  # what was measured, over the size that it grows with


def width(size: GraphSize, settings: Settings) -> int:
    """The nodes that work on a configuration grows with: those that can be configured, if a graph
    is pruned to what is near them, else all."""
    pruned = getattr(settings, "hops", WHOLE) != WHOLE
    return size.configurable if pruned else size.nodes


def scored(size: GraphSize, settings: Settings, most: float = math.inf) -> float:
    """What scoring a graph grows with, or at most so many configurations of it, as in a step."""
    return min(size.configurations, most) * width(size, settings)


def measure(settings: Settings, raw_sizes: Mapping[Path, Sequence[GraphSize]]) -> dict[str, Rates]:
    """What stages 1 to 3 take, by name.

    Args:
        settings: of the collection.
        raw_sizes: the graphs of each raw file; none stand for the official ones.

    Raises:
        UserError, DataError: a stage cannot run here, such as for want of memory.
    """
    # Other collections to learn from have no sample here: a step on one of their graphs is like
    # a step on one of the collection's.
    settings = replace(settings, folds_total=2, keep_together="graph")
    settings = replace(settings, also=NONE) if hasattr(settings, "also") else settings
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = sample(settings, raw_sizes) if raw_sizes else write_all(settings, folder)
        rates = {}
        for stage in Lines("plan", len(STAGES), "stage").over(STAGES):
            with ProcessPoolExecutor(1, get_context("spawn")) as process:
                try:
                    work = process.submit(STAGES[stage], settings, files, folder / "cache")
                    rates[stage] = work.result()
                except BrokenProcessPool:
                    raise UserError(f"{stage}: killed, most likely for want of memory") from None
        return rates


def sample(settings: Settings, raw_sizes: Mapping[Path, Sequence[GraphSize]]) -> list[Path]:
    """Some of the raw files that have labels, evenly by what scoring their graphs takes."""
    works = {
        path: sum(scored(size, settings) for size in sizes)
        for path, sizes in raw_sizes.items()
        if any(size.split != "test" for size in sizes)
    }
    files = sorted(works, key=lambda path: works[path])
    count = min(MOST_KERNELS if settings.kind == "tile" else GRAPHS, len(files))
    return [files[int((n + 0.5) / count * len(files))] for n in range(count)]


def write_all(settings: Settings, folder: Path) -> list[Path]:
    """Write graphs as large as official ones; returns the files."""
    paths = []
    if settings.kind == "tile":
        for path in sorted(KERNELS.glob("*.npz")):
            kernel = read_tile(path)
            names = ("config_feat", "config_runtime", "config_runtime_normalizers")
            arrays = {name: getattr(kernel, name) for name in names}
            more = {k: np.resize(v, (CONFIGURATIONS, *v.shape[1:])) for k, v in arrays.items()}
            paths.append(folder / path.name)
            write_tile(paths[-1], replace(kernel, **more))
        return paths
    for copies in COPIES:
        paths.append(folder / f"copies_{copies}.npz")
        write_program(paths[-1], copies)
    return paths


def write_program(path: Path, copies: int) -> None:
    """Write several copies of a real program side by side; each node has one of its layouts, drawn
    anew for each copy and configuration, and runtimes are drawn as well."""
    source, rng = read_layout(PROGRAM), np.random.default_rng(copies)
    count, configurable, _ = source.node_config_feat.shape
    rows = rng.integers(0, count, (copies, CONFIGURATIONS, configurable))
    layouts = [source.node_config_feat[drawn, np.arange(configurable)] for drawn in rows]
    starts = len(source.node_opcode) * np.arange(copies)
    bounds = source.config_runtime.min(), source.config_runtime.max()
    program = replace(
        source,
        node_feat=np.tile(source.node_feat, (copies, 1)),
        node_opcode=np.tile(source.node_opcode, copies),
        edge_index=np.concatenate([source.edge_index + start for start in starts]),
        node_config_ids=np.concatenate([source.node_config_ids + start for start in starts]),
        node_splits=np.append(0, np.cumsum(np.tile(np.diff(source.node_splits), copies))),
        node_config_feat=np.concatenate(layouts, axis=1),
        config_runtime=rng.integers(*bounds, CONFIGURATIONS),
    )
    write_layout(path, program)


def measure_files(settings: Settings, files: list[Path], folder: Path) -> Rates:
    """Stage 1: cache the files."""
    raw = [RawFile(path, "train") for path in files]
    about = {name: getattr(settings, name) for name in settings.cache_depends_on}
    before = peak_memory()

    def write(where: Path) -> None:
        write_cache(where, raw, about, kind=settings.kind)

    first = folder.with_name("first")  # which is slower
    seconds = min(seconds_of(lambda: write(first)), seconds_of(lambda: write(folder)))
    cells = [size.cells for size in cached_sizes(Cache(folder)).values()]
    return {
        "seconds": seconds / sum(cells),
        "disk": sum(path.stat().st_size for path in folder.iterdir()) / sum(cells),
        "memory": WITHOUT_TORCH + peak_memory() - before,  # a file is read in pieces
    }


def measure_train(settings: Settings, files: list[Path], folder: Path) -> Rates:
    """Stage 2: get graphs ready, teach the network, pass over half of them, validate on others."""
    torch.set_num_threads(settings.threads)
    cache, start, before = Cache(folder), process_seconds(), peak_memory()
    ready = 0.0
    for _ in range(2):  # what comes first is slower, and is kept for other folds
        started = time.perf_counter()
        data = load_fold(cache, 0, settings)
        network = network_for(settings)
        data.standardize(network)
        ready = time.perf_counter() - started
    taught = seconds_of(lambda: data.teach(network))
    training, generator = FoldTraining(network, data, 0), np.random.default_rng(0)
    data.beside.begin(folder.with_name("state"), "plan", 0)

    def train() -> None:
        network.train()
        for batch in data.samples(generator):
            training.step([batch])[0].item()  # read back: a GPU has finished then

    a_pass, validation = least_seconds(train), least_seconds(lambda: data.validate(network.eval()))
    sizes = cached_sizes(cache)
    sides = [
        [sizes[getattr(graph, "name", graph)] for graph in side]
        for side in (data.train, data.valid)
    ]
    steps = [scored(size, settings, settings.configurations) for size in sides[0]]
    most = settings.validation_configurations
    on_gpu = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    return {
        "start": start + taught,
        "ready": ready / sum(width(size, settings) for side in sides for size in side),
        "step": a_pass / sum(steps),
        "validation": validation / sum(scored(size, settings, most) for size in sides[1]),
        "memory": before,
        "more_memory": (peak_memory() - before) / max(steps),
        "device": on_gpu / max(steps),
        "disk": KEPT_WEIGHTS * sum(weight.nbytes for weight in network.parameters()),
    }


def measure_infer(settings: Settings, files: list[Path], folder: Path) -> Rates:
    """Stage 3: score some configurations of half of the graphs; a kernel's all."""
    torch.set_num_threads(settings.threads)
    cache, network = Cache(folder), network_for(settings)
    load_fold(cache, 0, settings).standardize(network)
    network.eval()
    most = BATCHES * settings.inference_configurations

    def score(name: str, most: int = most) -> int:
        graph: Any = cache.graph(name)
        if hasattr(graph, "cells"):
            graph = replace(graph, cells=graph.cells[:most], runtime=graph.runtime[:most])
        return scores_of(network, graph, settings).shape[1]

    start, before, names = process_seconds(), peak_memory(), cache.names("train")[::2]
    score(names[0], 2)  # the first call is slower
    started = time.perf_counter()
    counts = {name: score(name) for name in names}
    seconds, sizes = time.perf_counter() - started, cached_sizes(cache)
    works = [width(sizes[name], settings) * count for name, count in counts.items()]
    return {
        "start": start,
        "seconds": seconds / sum(works),
        "memory": before,
        "more_memory": (peak_memory() - before) / max(works),
    }


def cached_sizes(cache: Cache) -> dict[str, GraphSize]:
    """The sizes of a cache's graphs, by name; nodes are those that pruning keeps."""
    return {
        name: GraphSize("train", row["nodes"], row.get("config_nodes", 0), cache.counts[name])
        for name, row in cache.rows.items()
    }


def least_seconds(work: Callable[[], Any]) -> float:
    """Of at least two calls, for the first may be slower."""
    seconds: list[float] = []
    while len(seconds) < 2 or sum(seconds) < LEAST_SECONDS:
        seconds.append(seconds_of(work))
    return min(seconds)


def seconds_of(work: Callable[[], Any]) -> float:
    """How long a call takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


STAGES = {"preprocess": measure_files, "train": measure_train, "infer": measure_infer}
