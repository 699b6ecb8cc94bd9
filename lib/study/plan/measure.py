"""What a few graphs take in each stage, each in a process of its own.

    python -m lib.study.plan.measure TASK

is such a process; ``TASK`` is JSON, and so is what it prints. :func:`calibrate` starts them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lib.cache.reader import Cache
from lib.files.errors import UserError
from lib.inputs.input import input_of, network_for
from lib.runs.stage import peak_memory, process_seconds
from lib.scoring.scores import stand_for_themselves
from lib.settings import Settings, described, settings_for
from lib.settings.models import NONE
from lib.study.plan.samples import copy_twice, sample_files
from lib.tpugraphs.dataset import Dataset
from lib.tpugraphs.roots import DataRoot
from lib.tpugraphs.sizes import GraphSize
from lib.train.dealing import Dealt
from lib.train.fold import load_fold
from lib.train.loop import FoldTraining, new_network

LEAST_SECONDS = 2.0  # that steps are timed for, ...
LEAST_STEPS = 2  # ... and how many at the least, after one that is not
KEPT_WEIGHTS = 2  # the last and the best
BATCHES = 2  # of configurations that scoring is timed on
MODULES = {  # that measure a stage; of the first one, which works without torch
    "preprocess": "lib.study.plan.files",
    "train": "lib.study.plan.measure",
    "infer": "lib.study.plan.measure",
}
SPLIT = {"folds_total": 2, "keep_together": "graph"}


@dataclass(frozen=True)
class Unit:
    """What a group of graphs took, the mean of a graph where it says so.

    Attributes:
        graphs: how many.
        configurable, configurations: of a graph.
        kept: nodes of a graph in the cache.
        files_start_seconds, start_seconds: before the first file, or step, in a process.
        preprocess_seconds, cache_bytes: of a graph.
        preprocess_memory: bytes of a worker.
        load_seconds: of getting a graph ready to be learned from, once.
        step_seconds: of a step of training.
        train_memory, infer_memory: bytes of a process.
        score_seconds: of a configuration (of a kernel: of all of them) in validation.
        order_seconds: the same in inference, reading included, under all permutations.
        device_memory: bytes on the GPU, 0 without one.
        weight_bytes: of what a fold leaves.
    """

    graphs: int
    configurable: float
    configurations: float
    kept: float
    files_start_seconds: float
    start_seconds: float
    preprocess_seconds: float
    cache_bytes: float
    preprocess_memory: int
    load_seconds: float
    step_seconds: float
    train_memory: int
    score_seconds: float
    order_seconds: float
    infer_memory: int
    device_memory: int
    weight_bytes: int


def calibrate(
    settings: Settings,
    root: DataRoot | None,
    dataset: Dataset,
    graphs: Sequence[GraphSize],
    progress: Callable[[Iterable], Iterable] = iter,
) -> list[Unit]:
    """Measure groups of graphs, few nodes first.

    Args:
        settings: of the collection.
        root: its raw data, or ``None`` if there are none here.
        dataset: what the data say of themselves.
        graphs: the sizes of the collection's.
        progress: wraps the iterator over groups.

    Raises:
        UserError: if a stage cannot run here, such as for want of memory.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        groups = sample_files(settings, root, graphs, folder / "made")
        found = []
        for number, files in enumerate(progress(groups)):
            own = folder / str(number)
            found.append(_measured(settings, dataset, copy_twice(files, own / "raw"), own))
    return sorted(found, key=lambda unit: unit.configurable)


def _measured(settings: Settings, dataset: Dataset, files: list[Path], folder: Path) -> Unit:
    task = {
        "settings": described(settings),
        "dataset": asdict(replace(dataset, root=None)),
        "files": [str(path) for path in files],
        "folder": str(folder),
    }
    values: dict[str, Any] = {}
    for stage, module in MODULES.items():
        line = [sys.executable, "-m", module, json.dumps({**task, "stage": stage})]
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ["no reason"])[-1]
            raise UserError(f"{stage} of {Path(files[0]).name}: {why}")
        values |= json.loads(done.stdout.splitlines()[-1])
    return Unit(**values)


def measure_train(task: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Steps of stage 2 on the cached files."""
    began, training = process_seconds(), _training(task, settings)
    started = time.perf_counter()
    _training(task, settings)  # once more: the first time is slower
    loaded = time.perf_counter() - started
    training.data.beside.begin(Path(task["folder"]) / "state", "plan", 0)
    samples = _samples(training)
    training.step(Dealt([next(samples)]))
    seconds = []
    while sum(seconds) < LEAST_SECONDS or len(seconds) < LEAST_STEPS:
        sample, started = next(samples), time.perf_counter()
        training.step(Dealt([sample]))[0].item()  # read back: a GPU has finished then
        seconds.append(time.perf_counter() - started)
    training.data.validate(training.network.eval())  # takes memory as well
    on_device = torch.cuda.max_memory_allocated() if training.device.type == "cuda" else 0
    return {
        "load_seconds": loaded / (len(training.data.train) + len(training.data.valid)),
        "step_seconds": float(np.median(seconds)),
        "train_memory": peak_memory(),
        "device_memory": on_device,
        "start_seconds": began,
        "weight_bytes": KEPT_WEIGHTS * sum(p.nbytes for p in training.network.parameters()),
    }


def _samples(training: FoldTraining) -> Iterator[Any]:
    generator = np.random.default_rng(0)
    training.network.train()
    while True:
        yield from training.data.samples(generator)


def measure_infer(task: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Scores of the cached files."""
    training = _training(task, settings)
    network, seen = training.network.eval(), input_of(settings)
    cache = Cache(Path(task["folder"]) / "cache")
    names = cache.names("train")[:: len(SPLIT)]
    size, per_kernel = settings.inference_configurations, settings.kind == "tile"
    plain, ordered = [], []
    for name in names:
        started = time.perf_counter()
        graph = cache.graph(name)
        prepared = seen.prepare(graph, settings)
        count = len(graph.runtime)
        ready = (time.perf_counter() - started) / (1 if per_kernel else count)
        rows = np.arange(count if per_kernel else min(count, BATCHES * size))
        seen.scores(network, prepared, size, rows[:size])  # the first call is slower
        started = time.perf_counter()
        seen.scores(network, prepared, size, rows)
        plain.append((time.perf_counter() - started) / (1 if per_kernel else len(rows)))
        if stand_for_themselves(network, settings) or len(rows) <= size:
            ordered.append(ready + plain[-1])
            continue
        orders = [np.random.default_rng(k).permutation(rows) for k in range(settings.permutations)]
        started = time.perf_counter()
        seen.groupings(network, prepared, np.stack(orders), size)
        ordered.append(ready + (time.perf_counter() - started) / len(rows))
    return {
        "score_seconds": float(np.mean(plain)),
        "order_seconds": float(np.mean(ordered)),
        "infer_memory": peak_memory(),
    }


def _training(task: dict[str, Any], settings: Settings) -> FoldTraining:
    torch.set_num_threads(settings.threads)
    data = load_fold(Cache(Path(task["folder"]) / "cache"), 0, settings)
    network = new_network(lambda: network_for(settings), data, settings.seed, 0)
    return FoldTraining(network, data, 0)


STAGES = {"train": measure_train, "infer": measure_infer}


def main(text: str) -> None:
    """Measure one stage of one task, and print what it took."""
    task = json.loads(text)
    # Other collections to learn from have no sample here; a step on one of their graphs is like
    # one on the collection's own.
    given = {k: v for k, v in task["settings"].items() if k not in ("collection", "also")}
    given |= {"also": NONE} if "also" in task["settings"] else {}
    dataset = Dataset(**task["dataset"])
    settings = settings_for(task["settings"]["collection"], dataset, {**given, **SPLIT})
    print(json.dumps(STAGES[task["stage"]](task, settings)))


if __name__ == "__main__":
    main(sys.argv[1])
