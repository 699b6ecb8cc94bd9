"""Tasks on disk: ``networks/NAME.json`` and ``tasks/HASH.json`` in the work folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tvm
from tvm.ir import IRModule

from lib.files.artifacts import read_json


def network_path(work: Path, name: str) -> Path:
    """Which tasks a network calls, and how often."""
    return work / "networks" / f"{name}.json"


def task_path(work: Path, task: str) -> Path:
    """The file of a task's description and its module."""
    return work / "tasks" / f"{task}.json"


def load(work: Path, task: str) -> tuple[dict[str, Any], IRModule]:
    """The description of a task, and its unscheduled module."""
    about = read_json(task_path(work, task))
    return about, tvm.ir.load_json(about["module"])
