"""Which tasks are chosen for measuring."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lib.files.artifacts import atomic_file
from lib.programs.adapt.case import pooled_rows
from lib.programs.adapt.sampling import choose_tasks
from lib.programs.inputs import Programs

LISTED = "tasks.txt"


def choose(programs: Programs, among: np.ndarray, choice: Mapping[str, Any]) -> np.ndarray:
    """Numbers of the chosen tasks.

    Args:
        programs: of all tasks.
        among: (tasks,) bool, which may be chosen.
        choice: ``method, count, seed`` of :func:`lib.programs.adapt.sampling.choose_tasks`.
    """
    numbers, allowed = np.flatnonzero(among), among[programs.task]
    first = np.concatenate([[0], np.cumsum(np.diff(programs.first)[among])])
    return numbers[choose_tasks(rows=pooled_rows(programs)[allowed], first=first, **choice)]


def write_tasks(path: Path, names: list[str]) -> None:
    """Write the names of the chosen tasks, a line each, in their order."""
    with atomic_file(path) as temporary:
        temporary.write_text("".join(f"{name}\n" for name in names))
