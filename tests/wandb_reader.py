"""Reading an offline W&B run back: W&B's own protobuf records, out of its log of blocks.

W&B keeps a run as a LevelDB log (32 KiB blocks; a record is a CRC, a length, a type and data, and
may continue in the next block). Its reader of that log is part of a compiled program by now, so
the blocks are taken apart here, and what they hold is parsed by the classes that W&B ships.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wandb.proto import wandb_internal_pb2

BLOCK, FILE_HEADER, HEADER = 32768, 7, 7
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


@dataclass
class OfflineRun:
    """What a run told W&B: its identity, config, points logged, summary, axes, the curves whose
    highest or lowest value is kept, and which are not drawn, artifacts by name (their types, and
    the sizes of their files)."""

    about: Any = None
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    axes: dict[str, str] = field(default_factory=dict)
    bests: dict[str, str] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    artifacts: dict[str, str] = field(default_factory=dict)
    files: dict[str, dict[str, int]] = field(default_factory=dict)
    exit_code: int | None = None

    def column(self, key: str) -> list[Any]:
        """A key's values, in the order of logging."""
        return [row[key] for row in self.history if key in row]


def read_run(path: Path) -> OfflineRun:
    """Read a ``.wandb`` file."""
    run = OfflineRun()
    for data in records(path.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        kind = record.WhichOneof("record_type")
        if kind == "run":
            run.about = record.run
            run.config |= _items(record.run.config.update)
        elif kind == "history":
            run.history.append(_items(record.history.item))
        elif kind == "summary":
            run.summary |= _items(record.summary.update)
        elif kind == "metric":
            _read_metric(run, record.metric)
        elif kind == "artifact":
            run.artifacts[record.artifact.name] = record.artifact.type
            contents = record.artifact.manifest.contents
            run.files[record.artifact.name] = {one.path: one.size for one in contents}
        elif kind == "exit":
            run.exit_code = record.exit.exit_code
    return run


def _read_metric(run: OfflineRun, metric: Any) -> None:
    name = metric.name or metric.glob_name
    if metric.step_metric:
        run.axes[name] = metric.step_metric
    if metric.options.hidden:
        run.hidden.add(name)
    if best := [way for way in ("max", "min") if getattr(metric.summary, way)]:
        (run.bests[name],) = best


def records(data: bytes) -> Iterator[bytes]:
    """The records of a log, whole."""
    assert data[:4] == b":W&B"
    position, parts = FILE_HEADER, b""
    while position + HEADER <= len(data):
        left = BLOCK - position % BLOCK
        if left < HEADER:
            position += left
            continue
        size = int.from_bytes(data[position + 4 : position + 6], "little")
        kind = data[position + 6]
        assert kind in (FULL, FIRST, MIDDLE, LAST)
        parts += data[position + HEADER : position + HEADER + size]
        position += HEADER + size
        if kind in (FULL, LAST):
            yield parts
            parts = b""


def _items(items: Any) -> dict[str, Any]:
    return {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in items}
