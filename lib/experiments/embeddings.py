"""The historical embedding table: what each segment's embedding was when it was last computed.

An entry for each (graph, configuration, segment) of the training graphs, in one file that is
mapped into memory. The file is as large as the graphs say, so its size is known and bounded before
it is made, and its room on the disk is taken at once: a disk that fills up later would kill who
writes to mapped memory, without a word. Without a bound of its own it may have ``FREE_SHARE`` of
what is free on the disk; one that would have more is not made, and a run that resumes knows it.

A run that is killed must end with the same bits as one that was not. The network goes back to
the state that was saved last, and so must the table: before an entry is overwritten for the first
time since then, what it held is appended to a journal beside it, and a run that resumes puts that
back. Kernels keep what a killed process wrote; of a machine that went down they may not, in either
file, so a table of before the machine was started is not resumed, and training begins anew.

Processes that train together map the same file and have a journal each. In a pass a graph is one
process's; all count the same steps, so that who overwrites an entry sees by its step whether it is
in another process's journal already.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from lib.files.artifacts import atomic_file, check_place, told_of
from lib.files.errors import DataError, UserError
from lib.files.schema import expect
from lib.runs.memory import gigabytes
from lib.train.processes import ALONE

JOURNAL = {"identity": str, "epochs": int, "step": int, "boot": str, "made": bool}  # first line
FREE_SHARE = 0.8  # of the disk; the rest is for the journal, and for what others write
BOOT = Path("/proc/sys/kernel/random/boot_id")


class EmbeddingTable:
    """Embeddings of segments, by graph, configuration and segment.

    Args:
        sizes: (configurations, segments) of each graph.
        width: of an embedding.
        limit: most bytes that the file may have; 0 for what fits the disk.

    Attributes:
        made: whether there is a table. Without, only what a resumed run must know is kept.

    Raises:
        UserError: if it would have more.
    """

    def __init__(self, sizes: dict[str, tuple[int, int]], width: int, limit: int):
        self.entry = np.dtype([("step", "<i8"), ("embedding", "<f4", (width,))])
        self.sizes, self.starts, count = sizes, {}, 0
        for name, (configurations, segments) in sizes.items():
            self.starts[name] = count
            count += configurations * segments
        self.count, self.step, self.saved_step = count, 0, 0
        self.values: Any = None
        self.limit, self.made, self.processes = limit, True, ALONE
        if limit and self.bytes > limit:
            raise UserError(
                f"historical embeddings of {count:,} segments take {gigabytes(self.bytes)}, more "
                f"than --history-gigabytes {limit / 1e9:g}; allow more, or use --no-history"
            )

    @property
    def bytes(self) -> int:
        """Size of the file."""
        return self.count * self.entry.itemsize

    def begin(self, state: Path, identity: str, epochs: int) -> bool:
        """Open the table as it was after ``epochs``, or for 0 make an empty one, if it fits.

        Args:
            state: the training state; the table and its journal lie beside it.
            identity: of the run.
            epochs: that the state has seen.

        Returns:
            False if what is there does not go with that state.

        Raises:
            UserError: if it may be as large as ``limit``, and the disk has not so much left.
        """
        rank = self.processes.rank
        self.path = state.with_name("history.bin")
        self.journal = state.with_name(f"history.{rank}.log" if rank else "history.log")
        self.identity = identity
        for place in (self.path, self.journal):
            check_place(place)
        if epochs:
            return self._resume(epochs)
        if self.processes.first:
            self._make()
        self.made = bool(self.processes.broadcast(self.made))
        if self.made:
            self._map()
        self.step = 0
        self.saved(0)
        return True

    def _make(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.unlink(missing_ok=True)
        free = shutil.disk_usage(self.path.parent).free
        if self.limit and self.bytes > free:
            raise UserError(
                f"{self.path}: would have {gigabytes(self.bytes)}, and the disk has "
                f"{gigabytes(free)} left; use --no-history"
            )
        self.made = bool(self.limit) or self.bytes <= FREE_SHARE * free
        if self.made:
            with told_of(self.path), open(self.path, "wb") as file:
                os.posix_fallocate(file.fileno(), 0, self.bytes)

    def read(self, name: str, configurations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The entries of some configurations of a graph.

        Returns:
            ``(steps, embeddings)``: (b, s) int64, when each was written, 0 for never; and
            (b, s, width) float32.
        """
        entries = self._of(name)[configurations]
        return entries["step"], entries["embedding"]

    def write(
        self, name: str, configurations: np.ndarray, segment: int, embeddings: np.ndarray
    ) -> None:
        """Set the embeddings, (p, width), of one segment under some configurations, once each."""
        entries = self._of(name)
        before = entries[configurations, segment]  # a copy
        first = before["step"] <= self.saved_step
        places = self.starts[name] + configurations * self.sizes[name][1] + segment
        self._remember(places[first], before[first])
        after = np.empty(len(configurations), self.entry)
        after["step"], after["embedding"] = self.step, embeddings
        entries[configurations, segment] = after

    def next_step(self) -> None:
        """What is written from now on is newer than what was written before."""
        self.step += 1

    def saved(self, epochs: int) -> None:
        """The network's state was saved: that is what the journal leads back to from now on."""
        self.saved_step = self.step
        about = {"identity": self.identity, "epochs": epochs, "step": self.step}
        about |= {"boot": _boot(), "made": self.made}
        with atomic_file(self.journal) as temporary:
            temporary.write_text(json.dumps(about) + "\n")
        self._close()
        self._log = open(self.journal, "ab")

    def end(self) -> None:
        """Delete table and journals."""
        self._close()
        self.values = None
        for path in (self.path, *self.path.parent.glob("history*.log")):
            path.unlink(missing_ok=True)

    def _resume(self, epochs: int) -> bool:
        """Open the table as it was; whether all processes could."""
        if not self.processes.least(self._open(epochs)):
            return False
        self.step = int(self.processes.most(self.step))
        self.saved(epochs)
        return True

    def _open(self, epochs: int) -> bool:
        """Take back what was written since the state was saved; whether that can be."""
        try:
            with open(self.journal, "rb") as file:
                about = json.loads(file.readline())
                changes = file.read()
            expect(about, JOURNAL, self.journal)
            self.made = about["made"]
            matches = about["identity"] == self.identity and about["epochs"] <= epochs
            # (the state is saved before the journal)
            if matches and not self.made:
                return True
            if not matches or about["boot"] != _boot() or self.path.stat().st_size != self.bytes:
                return False
        except (OSError, ValueError, RecursionError, DataError):
            return False
        self._map()
        if about["epochs"] == epochs:
            self.step = about["step"]
            return self._undo(changes)
        # killed after the state was saved and before the journal was begun anew
        self.step = int(self.values["step"].max(initial=0))
        return True

    def _undo(self, changes: bytes) -> bool:
        record = self._record()
        whole = len(changes) // record.itemsize  # of a half-written one the entry still stands
        changed = np.frombuffer(changes, record, whole)
        if ((changed["place"] < 0) | (changed["place"] >= self.count)).any():
            return False  # damaged
        self.values[changed["place"]] = changed["before"]
        return True

    def _remember(self, places: np.ndarray, before: np.ndarray) -> None:
        if len(places):
            records = np.empty(len(places), self._record())
            records["place"], records["before"] = places, before
            with told_of(self.journal):
                self._log.write(records.tobytes())
                self._log.flush()  # all of it, or an error: before any of these entries changes

    def _record(self) -> np.dtype:
        return np.dtype([("place", "<i8"), ("before", self.entry)])

    def _of(self, name: str) -> np.ndarray:
        shape, start = self.sizes[name], self.starts[name]
        return self.values[start : start + shape[0] * shape[1]].reshape(shape)

    def _map(self) -> None:
        self.values = np.memmap(self.path, self.entry, "r+", shape=(self.count,))

    def _close(self) -> None:
        if getattr(self, "_log", None) is not None:
            self._log.close()
            self._log = None


def _boot() -> str:
    try:
        return BOOT.read_text().strip()
    except OSError:
        return ""
