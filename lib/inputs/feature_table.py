"""Features of what was met so far in a program's configurations, as a table that grows."""

from __future__ import annotations

import numpy as np


class FeatureTable:
    """What is known of numbered layout copies, or off-layout operations: tables that grow.

    Attributes:
        features: (m, width) float32.
        nodes: (m, nodes) int64, where each happens.
        shares: (m,) float32, bytes over those of the program.
    """

    def __init__(self, width: int, nodes: int):
        self._count = 0
        self._room: tuple[np.ndarray, ...] = (
            np.empty((64, width), np.float32),
            np.empty((64, nodes), np.int64),
            np.empty(64, np.float32),
        )

    def __len__(self) -> int:
        return self._count

    @property
    def features(self) -> np.ndarray:
        """See above."""
        return self._room[0][: self._count]

    @property
    def nodes(self) -> np.ndarray:
        """See above."""
        return self._room[1][: self._count]

    @property
    def shares(self) -> np.ndarray:
        """See above."""
        return self._room[2][: self._count]

    def add(
        self,
        features: np.ndarray | list[list[float]],
        nodes: list[tuple[int, ...]],
        shares: np.ndarray,
    ) -> None:
        """Rows of the next numbers."""
        count = self._count + len(features)
        if not len(features):
            return
        if count > len(self._room[0]):
            self._room = tuple(
                np.resize(room, (max(count, 2 * len(room)), *room.shape[1:])) for room in self._room
            )
        for table, rows in zip(self._room, (features, nodes, shares), strict=True):
            table[self._count : count] = rows
        self._count = count
