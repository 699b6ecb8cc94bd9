"""From cached tasks to what a predictor of latencies reads, and all its predictions.

Programs of many tasks are kept side by side, so that batches of one number of leaves are large.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lib.cache.reader import Cache
from lib.files.errors import DataError, UserError
from lib.files.processor import INSTRUCTIONS, instruction_sets
from lib.files.schema import expect
from lib.models.common.chunks import device_of
from lib.models.common.input import Input
from lib.programs.folds import Pairs
from lib.programs.messages import NATIVE
from lib.programs.models.cdmpp import DEVICE_FEATURES, ProgramBatch
from lib.programs.settings import ProgramCollection, ProgramPlusSettings
from lib.programs.task import ARRAYS, CachedTask
from lib.programs.tensorir.accesses import around
from lib.programs.tensorir.described import forest_of
from lib.programs.tensorir.features import COUNTED, FEATURES
from lib.programs.tensorir.records import CACHES, DEVICE, is_general
from lib.programs.tensorir.tree import positions

LANES = dict(zip(INSTRUCTIONS, (4, 8, 16), strict=True))  # of single-precision numbers in a vector
FUSED = ("avx2", "avx512")  # sets that multiply and add at once, ...
MASKED = ("avx512",)  # ... that have masks and twice as many registers
PEAK = 7  # the column of :func:`device_features` that says how fast programs are there
USUAL_PEAK = 64.0  # of billions of operations a second; of a device of which it is not known
LEAVES = ("features", "position", "loops")  # arrays of a task with a row a leaf
USUAL_CACHES = dict(zip(CACHES, (32, 1024, 32768), strict=True))  # of a machine not described


@dataclass(frozen=True, eq=False)
class Programs:
    """Distinct programs of some tasks, n in all, with their latencies on d devices.

    Attributes:
        features: (leaves, 164) float16, of one program after the other.
        position: (leaves,) int64.
        loops: (leaves, 118) float16.
        starts: (n + 1,) int64, where each program's leaves begin.
        seconds: (n, d) float64, the geometric mean over equal programs; NaN if not measured.
        tasks: names, in the order of the programs.
        first: (tasks + 1,) int64, where each task's programs begin.
    """

    features: np.ndarray
    position: np.ndarray
    loops: np.ndarray
    starts: np.ndarray
    seconds: np.ndarray
    tasks: tuple[str, ...]
    first: np.ndarray

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def counts(self) -> np.ndarray:
        """(n,) leaves of each program."""
        return np.diff(self.starts)

    @property
    def task(self) -> np.ndarray:
        """(n,) the number of each program's task."""
        return np.repeat(np.arange(len(self.tasks)), np.diff(self.first))

    def some(self, mask: np.ndarray) -> Programs:
        """Return the programs that are true in (n,) bool, and the tasks that have any of them."""
        leaves = np.repeat(mask, self.counts)
        sizes = np.diff(np.concatenate([[0], np.cumsum(mask)])[self.first])
        return Programs(
            features=self.features[leaves],
            position=self.position[leaves],
            loops=self.loops[leaves],
            starts=np.concatenate([[0], np.cumsum(self.counts[mask])]),
            seconds=self.seconds[mask],
            tasks=tuple(name for name, size in zip(self.tasks, sizes, strict=True) if size),
            first=np.concatenate([[0], np.cumsum(sizes[sizes > 0])]),
        )

    def first_of_tasks(self, count: int) -> Programs:
        """Return the first so many programs of each task."""
        return self.some(np.arange(len(self)) - self.first[self.task] < count)

    def batch(self, numbers: np.ndarray, devices: Tensor) -> ProgramBatch:
        """Return a batch of programs of equally many leaves, by (b,) numbers of them."""
        leaves = int(self.starts[numbers[0] + 1] - self.starts[numbers[0]])
        rows = self.starts[numbers][:, None] + np.arange(leaves)
        arrays = (self.features[rows], self.position[rows], self.loops[rows])
        return ProgramBatch(*map(torch.from_numpy, arrays), devices)


def load_programs(cache: Cache, pairs: Pairs) -> Programs:
    """Return the distinct programs of some tasks of a cache.

    Args:
        cache: of a collection of programs.
        pairs: which count, by task; none is no programs.
    """
    devices = len(cache.manifest["devices"])
    features, position, loops = ([np.empty((0, *ARRAYS[k][1]), ARRAYS[k][0])] for k in LEAVES)
    counts, labels, first = [np.zeros(1, np.int64)], [np.empty((0, devices))], [0]
    for name, mask in pairs.items():
        task = cache.graph(name).restricted(mask)
        distinct = task.used
        rows = np.repeat(np.isin(np.arange(len(task.counts)), distinct), task.counts)
        for parts, kind in zip((features, position, loops), LEAVES, strict=True):
            parts.append(getattr(task, kind)[rows])
        counts.append(task.counts[distinct])
        place = np.searchsorted(distinct, task.original[task.owner])
        sums, equal = np.zeros((2, len(distinct), devices))
        np.add.at(sums, (place, task.device), np.log(task.seconds.astype(np.float64)))
        np.add.at(equal, (place, task.device), 1)
        with np.errstate(invalid="ignore"):
            labels.append(np.exp(sums / equal))
        first.append(first[-1] + len(distinct))
    return Programs(
        features=np.concatenate(features),
        position=np.concatenate(position).astype(np.int64),
        loops=np.concatenate(loops),
        starts=np.cumsum(np.concatenate(counts)),
        seconds=np.concatenate(labels),
        tasks=tuple(pairs),
        first=np.array(first),
    )


def described_programs(
    arrays: Mapping[str, np.ndarray], tasks: Sequence[str], owner: np.ndarray
) -> Programs:
    """Return programs as the environment with TVM describes them, without latencies.

    See :func:`lib.collect.tvm.raw.described`. Kept are those whose trees and features go together.

    Args:
        arrays: of n programs, by the names in :data:`lib.programs.tensorir.described.ARRAYS`;
            those that are ``joined`` are kept.
        tasks: names.
        owner: (n,) ascending, which task each is of.
    """
    forest, joined = forest_of(arrays), arrays["joined"].astype(bool)
    sizes = np.bincount(owner[joined], minlength=len(tasks))
    leaves = np.repeat(joined, arrays["leaves"])
    return Programs(
        features=arrays["features"].astype(np.float16)[leaves],
        position=positions(forest).astype(np.int64)[leaves],
        loops=around(forest, arrays["accesses"])[leaves],
        starts=np.concatenate([[0], np.cumsum(arrays["leaves"][joined])]).astype(np.int64),
        seconds=np.full((int(joined.sum()), 0), np.nan),
        tasks=tuple(tasks),
        first=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
    )


def batches_of(counts: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Yield positions of (n,) numbers of leaves in batches of one number each, ``size`` at most."""
    for count in np.unique(counts):
        places = np.flatnonzero(counts == count)
        yield from np.array_split(places, -(-len(places) // size))


@torch.inference_mode()
def predict(network: nn.Module, programs: Programs, devices: Tensor, size: int) -> np.ndarray:
    """Return logarithms of the seconds that a network predicts of every program on every device.

    Args:
        network: in evaluation mode.
        programs: n, whose features are read.
        devices: (d, 11) see :func:`device_features`.
        size: programs a batch.

    Returns:
        (n, d) float64.
    """
    where = device_of(network)
    predicted = np.empty((len(programs), len(devices)))
    for places in batches_of(programs.counts, size):
        batch = programs.batch(places, devices).to(where)
        predicted[places] = network.log_seconds(batch).cpu().numpy()
    return predicted


def device_features(devices: Sequence[Mapping[str, Any]]) -> Tensor:
    """Return (d, 11) float32 features of devices: paper, section 4.3, as far as CPUs have them.

    A constant; widths of vectors, registers and peak operations a cycle, as logarithms; whether
    multiplications and additions are fused, and parts of vectors masked; threads; how fast the
    fastest programs are (:func:`lib.programs.preprocess.peaks_of`); and how large the caches are,
    where the dataset describes the machine (:func:`lib.programs.calibrate.__main__.cache_sizes`).

    Raises:
        DataError: if a device is of an instruction set that is not known.
    """
    rows = []
    for device in devices:
        name = device["instructions"]
        if name not in LANES:
            raise DataError("dataset.json", "instructions", name, f"one of {', '.join(LANES)}")
        lanes, fused, masked = LANES[name], name in FUSED, name in MASKED
        widths = [np.log2(lanes / 4), 5.0 if masked else 4.0, np.log2(lanes * (1 + fused))]
        flags = [float(fused), float(masked), np.log2(device["threads"])]
        machine = device.get("machine") or {}
        peak = np.log2((device.get("peak_gops") or USUAL_PEAK) / USUAL_PEAK)
        caches = [np.log2((machine.get(k) or size) / size) for k, size in USUAL_CACHES.items()]
        rows.append([1.0, *widths, *flags, peak, *caches])
    return torch.tensor(rows, dtype=torch.float32).reshape(len(rows), DEVICE_FEATURES)


def widths(settings: ProgramCollection) -> dict[str, Any]:
    """Return arguments by which ``cdmpp-plus`` knows features; none for other models."""
    if not isinstance(settings, ProgramPlusSettings):
        return {}
    return {"operations": COUNTED, "loops": FEATURES.index("loops_product")}


def devices_of(cache: Cache) -> list[dict[str, Any]]:
    """Return the devices of a cache's programs, checked.

    Raises:
        DataError: if the manifest has none.
    """
    expect(cache.manifest, {"devices": [DEVICE]}, cache.folder / "manifest.json")
    return cache.manifest["devices"]


def device_named(name: str, devices: Sequence[Mapping[str, Any]], processor: str = "") -> int:
    """Return the number of a device, by its whole name or its instruction set.

    Of several with one instruction set, one of ``processor`` if there is any, then the one with the
    fewest threads, then the first. ``native`` is the widest set that both this machine and any
    device have, of devices that have measured networks as they are deployed if there are such.

    Raises:
        UserError: there is none.
    """
    native = name == NATIVE
    if native:
        known = {device["instructions"] for device in devices}
        name = next((s for s in reversed(["sse2", *instruction_sets()]) if s in known), NATIVE)
    fits = [
        k for k, device in enumerate(devices) if name in (device["name"], device["instructions"])
    ]
    if not fits:
        names = ", ".join(device["name"] for device in devices)
        sets = ", ".join(dict.fromkeys(device["instructions"] for device in devices))
        raise UserError(f"device {name!r}: neither an instruction set ({sets}) nor one of {names}")

    def order(k: int) -> tuple:
        """Return the key by which devices are sorted: the first is taken."""
        device = devices[k]
        other = device["processor"] != processor
        return other, native and is_general(device), device["threads"], k

    return min(fits, key=order)


def pair_predictions(task: CachedTask, distinct: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return (pairs,) of what was predicted for a task's distinct programs.

    Args:
        task: with the pairs to predict.
        distinct: (n,) ascending numbers of the distinct programs that were predicted.
        predicted: (n, d) of those programs.
    """
    return predicted[np.searchsorted(distinct, task.original[task.owner]), task.device]


INPUT = Input(prepare=lambda task, settings: task, scores=None, widths=widths)
