"""Training that keeps nothing beside the network and its optimizer."""

from __future__ import annotations

from pathlib import Path

from lib.runs.memory import Estimate


class Stateless:
    """The part of :class:`lib.train.kinds.Fold` for folds with nothing to save or to foretell."""

    def begin(self, state: Path, identity: str, epochs: int) -> bool:
        """Nothing is kept, so that every state can be resumed."""
        return True

    def saved(self, epochs: int) -> None:
        """Nothing to save."""

    def end(self) -> None:
        """Nothing to delete."""

    def estimate(self) -> Estimate | None:
        """Not known."""
        return None
