"""Raw files as rows of tables: which programs count, and what their labels are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lib.collect.tvm import raw
from lib.collect.tvm.agreement import same
from lib.collect.tvm.plan import finished
from lib.programs.tensorir.tree import COLUMNS, positions


@dataclass
class Gathered:
    """Rows of the tables, as they come from raw files."""

    tasks: dict[str, int]
    devices: dict[str, dict[str, Any]] = field(default_factory=dict)
    programs: list[tuple] = field(default_factory=list)
    latencies: list[tuple] = field(default_factory=list)
    nodes: list[np.ndarray] = field(default_factory=list)
    leaves: list[np.ndarray] = field(default_factory=list)
    accesses: list[np.ndarray] = field(default_factory=list)
    position: list[np.ndarray] = field(default_factory=list)
    dropped: Counter = field(default_factory=Counter)
    dates: list[str] = field(default_factory=list)

    def device(self, metadata: dict[str, Any], instructions: str, mcpu: str) -> int:
        """Return the number of a device, which measures networks as they are deployed."""
        words = metadata["processor"].replace("(", " ").replace(")", " ").replace(",", " ").lower()
        short = "-".join(w for w in words.split() if w not in ("family", "model", "processor"))
        name = f"{short}.{mcpu}.{metadata['threads']}t"
        self.devices.setdefault(
            name,
            {
                "name": name,
                "processor": metadata["processor"],
                "instructions": instructions,
                "mcpu": mcpu,
                "deployed": True,
                "threads": metadata["threads"],
                "opt_level": metadata["opt_level"],
            },
        )
        return list(self.devices).index(name)


def gather(work: Path, tasks: dict[str, int]) -> Gathered:
    """Return all rows, of the programs that were joined with their features and compute the same.

    Args:
        work: the work folder.
        tasks: numbers of the tasks that its networks call; others were measured before one of the
            networks became another.
    """
    gathered = Gathered(tasks)
    for measured in finished(work):
        if measured.metadata["task"] in tasks:
            _add(gathered, work, measured)
        else:
            gathered.dropped["of a task that no network calls"] += len(measured.hash)
    return gathered


def _add(gathered: Gathered, work: Path, measured: raw.Measured) -> None:
    """Add the rows of one raw file and of its repetition."""
    turn, task = measured.metadata["round"], measured.metadata["task"]
    joined = measured.arrays["joined"] & (measured.arrays["leaves"] > 0)  # of zeros there is none
    check = measured.arrays["check"]
    middle = np.median(check, (0, 1))  # what most programs of the file compute
    agree = np.all([same(one, middle) for one in check], axis=0)
    gathered.dropped["features and tree disagree"] += int((~joined).sum())
    gathered.dropped["another output"] += int((joined & ~agree).sum())
    usable = np.flatnonzero(joined & agree)
    forest, tables, patterns = measured.forest(), measured.tables(), measured.patterns()
    first = len(gathered.programs)
    for k in usable:
        tree = forest.tree(k)
        nodes = np.stack([getattr(tree, name) for name in COLUMNS], 1)
        gathered.nodes.append(nodes.astype(np.int32))
        gathered.leaves.append(tables[k].astype(np.float16))
        gathered.accesses.append(patterns[k])
        gathered.position.append(positions(tree))
        sizes = len(tables[k]), tree.nodes
        gathered.programs.append((gathered.tasks[task], str(measured.hash[k]), turn, *sizes))
    gathered.dates.append(measured.metadata["measured_at"])
    path, second = raw.path(work, "again", turn, task), {}
    if path.exists():
        again = raw.read(path)
        same_processor = again.metadata["processor"] == measured.metadata["processor"]
        if same_processor and np.array_equal(again.hash, measured.hash):
            names = [instructions for instructions, _ in again.metadata["devices"]]
            second = dict(zip(names, again.fastest, strict=True))
    devices = measured.metadata["devices"]
    for (instructions, mcpu), seconds in zip(devices, measured.fastest, strict=True):
        device = gathered.device(measured.metadata, instructions, mcpu)
        others = second.get(instructions)
        for row, k in enumerate(usable):
            other = None if others is None else float(others[k])
            gathered.latencies.append((first + row, device, float(seconds[k]), other))
