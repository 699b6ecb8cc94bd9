"""Schedules that were measured before, of any network, for all searches on one device.

    <folder>/<device>/<task>/<fingerprint>.jsonl

is what one search has measured of a task, a record a line, as TVM's tuning database has them. Files
are added whole and never changed, so that no writer waits for another, and people can share a
folder. A device is a processor, what LLVM compiles for, a number of threads, and a version of TVM.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tvm

from lib.collect.tvm.compiler import mcpu_of
from lib.files.artifacts import atomic_file, fingerprint_value
from lib.files.processor import processor
from lib.programs.messages import file_name


class Cache:
    """The records of one device.

    Args:
        folder: of all devices.
        device: instruction set that programs are compiled for.
        threads: that run a program.
    """

    def __init__(self, folder: Path, device: str, threads: int):
        name = f"{processor()}.{mcpu_of(device)}.{threads}t.tvm{tvm.__version__}"
        self.folder = folder / file_name(name)

    def records(self, task: str) -> list[str]:
        """Return the lines of a task, each once."""
        paths = sorted((self.folder / task).glob("*.jsonl"))
        texts = [path.read_text(errors="replace") for path in paths]
        return list(dict.fromkeys(line for text in texts for line in text.splitlines()))

    def add(self, task: str, records: Sequence[str]) -> None:
        """Add lines of a task."""
        if records:
            name = f"{fingerprint_value(list(records))[:16]}.jsonl"
            path = self.folder / task / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(path) as temporary:
                temporary.write_text("".join(f"{record}\n" for record in records))
