"""What stage 1 takes of a few files, in a process of its own, which needs no torch.

    python -m lib.study.plan.files TASK

``TASK`` is the JSON of :mod:`lib.study.plan.measure`, and what it prints is JSON as well.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from lib.preprocess.collection import RawFile, write_cache
from lib.runs.stage import peak_memory, process_seconds
from lib.settings import settings_for
from lib.tpugraphs.dataset import Dataset


def measure_files(task: dict[str, Any]) -> dict[str, Any]:
    """Cache the files of a task with one process."""
    chosen = dict(task["settings"])
    settings = settings_for(chosen.pop("collection"), Dataset(**task["dataset"]), chosen)
    about = {name: getattr(settings, name) for name in settings.cache_depends_on}
    files = [RawFile(Path(path), "train") for path in task["files"]]
    cache, began, started = Path(task["folder"]) / "cache", process_seconds(), time.perf_counter()
    table, _ = write_cache(cache, files, about, kind=settings.kind)
    seconds = time.perf_counter() - started

    def mean(*columns: str) -> float:
        known = [name for name in columns if name in table.columns]
        return float(table[known[0]].mean()) if known else 0.0

    return {
        "graphs": len(table),
        "kept": mean("nodes"),
        "configurable": mean("config_nodes"),
        "configurations": mean("original_configurations", "configurations"),
        "files_start_seconds": began,
        "preprocess_seconds": seconds / len(files),
        "cache_bytes": sum(path.stat().st_size for path in cache.iterdir()) / len(files),
        "preprocess_memory": peak_memory(),
    }


if __name__ == "__main__":
    print(json.dumps(measure_files(json.loads(sys.argv[1]))))
