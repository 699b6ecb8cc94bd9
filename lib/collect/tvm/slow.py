"""Jobs during which the machine was slow, as the reference program beside them tells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from lib.collect.tvm import raw

SLOWNESS = 0.15  # of the reference program at its best moment, above which a latency is flagged


def finished(work: Path, *phases: str) -> Iterator[raw.Measured]:
    """The raw files of some phases that have programs, in the order of tasks and rounds."""
    paths = (path for phase in phases for path in (work / "raw" / phase).glob("[0-9]*/*.npz"))
    for path in sorted(paths, key=lambda p: (p.stem, p.parts[-3:])):
        if not path.name.startswith(".") and len((measured := raw.read(path)).hash):
            yield measured


def usual_reference(work: Path) -> dict[str, float]:
    """Processor -> what the reference program takes at its best moment of a job, in the middle."""
    best: dict[str, list[float]] = {}
    for measured in finished(work, "main", "search"):
        best.setdefault(measured.about["processor"], []).append(measured.best_reference)
    return {name: float(np.median(values)) for name, values in best.items()}


def is_slow(measured: raw.Measured, usual: dict[str, float]) -> bool:
    """Whether the machine was slow at every moment of a job. Two threads have a clock alike.

    Of what a search has found nobody knows.
    """
    if measured.about["phase"] == raw.FOUND:
        return False
    typical = usual.get(measured.about["processor"], measured.best_reference)
    return measured.best_reference / typical - 1 > SLOWNESS


def slow_jobs(work: Path, phases: Sequence[str], processor: str) -> set[tuple[str, int, str]]:
    """(phase, round, task) of the jobs that were slow on a processor."""
    usual = usual_reference(work)
    return {
        (measured.about["phase"], measured.about["round"], measured.about["task"])
        for measured in finished(work, *phases)
        if measured.about["processor"] == processor and is_slow(measured, usual)
    }
