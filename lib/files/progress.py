"""Progress of long runs, in whole lines: folds run side by side, and logs are read later."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import TextIO, TypeVar

from lib.files.terminal import counted, duration

Item = TypeVar("Item")
WATCHED, LOGGED = 10.0, 30.0  # seconds between lines: somebody looks on, or reads them later


class Lines:
    """Says how far a run has come: nothing of a short one, of a long one a line now and then.

    Args:
        what: is run, such as ``train: layout-xla-default fold 0``.
        total: how many parts it has.
        unit: what a part is called, such as ``step``.
        file: where it is said, if not on standard output.
    """

    def __init__(self, what: str, total: int, unit: str, file: TextIO | None = None):
        self.what, self.total, self.unit, self.text, self.file = what, total, unit, "", file
        self.pause = WATCHED if (file or sys.stdout).isatty() else LOGGED
        self._first: tuple[float, int] | None = None  # time of the first call, and what was done
        self._shown_at = time.monotonic()

    def note(self, text: str) -> None:
        """Add something to the next lines, such as a loss."""
        self.text = text

    def at(self, done: int) -> None:
        """Say that so many parts are done, if it is time.

        The time that is left goes by the parts that this run itself has done.
        """
        now = time.monotonic()
        if self._first is None:
            self._first = self._shown_at, max(0, done - 1)
        if done >= self.total or now - self._shown_at < self.pause:
            return
        began, before = self._first
        text = f"{done:,} of {counted(self.total, self.unit)}"
        if done > before:
            left = (now - began) / (done - before) * (self.total - done)
            text += f", {duration(left)} left"
        print(f"{self.what}: {text}{self.text and ', '}{self.text}", file=self.file, flush=True)
        self._shown_at = now

    def over(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the same items; each is a part, done when the next one is taken."""
        done, ended = 0, threading.Event()

        def repeat() -> None:
            """Say it again and again, for a part may take minutes."""
            while not ended.wait(self.pause):
                self.at(done)

        threading.Thread(target=repeat, daemon=True).start()
        try:
            for item in items:
                yield item
                done += 1
                self.at(done)
        finally:
            ended.set()
