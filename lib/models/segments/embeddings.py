"""The historical embedding table: what each segment's embedding was when it was last computed.

It has an entry for each (graph, configuration, segment) of the training graphs, in memory. Its
size is known and bounded before it is made, and a checkpoint has it as well, so that a run that is
killed ends with the same bits as one that was not.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from lib.files.errors import UserError
from lib.runs.memory import free_memory, gigabytes

FREE_SHARE = 0.5  # of the memory that is free


class EmbeddingTable:
    """Embeddings of segments, by graph, configuration and segment.

    Args:
        sizes: (configurations, segments) of each graph.
        width: of an embedding.

    Attributes:
        step: number of the step that is under way.

    Raises:
        UserError: if it would have more than half of the memory that is free.
    """

    def __init__(self, sizes: dict[str, tuple[int, int]], width: int):
        self.sizes, self.starts, count = sizes, {}, 0
        for name, (configurations, segments) in sizes.items():
            self.starts[name] = count
            count += configurations * segments
        self.count, self.step, needed = count, 0, count * (8 + 4 * width)
        if needed > FREE_SHARE * (free_memory() or 2 * needed):
            raise UserError(
                f"historical embeddings of {count:,} segments take {gigabytes(needed)}, more than "
                f"half of what is free; use --no-history, or lower --channels"
            )
        self.steps = np.zeros(count, np.int64)  # when each was written; 0 for never
        self.embeddings = np.zeros((count, width), np.float32)

    def read(self, name: str, configurations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the entries of some configurations of a graph.

        Returns:
            ``(steps, embeddings)``: (b, s) int64, when each was written, 0 for never; and
            (b, s, width) float32.
        """
        segments = np.arange(self.sizes[name][1])
        places = self._places(name, configurations[:, None], segments)
        return self.steps[places], self.embeddings[places]

    def write(
        self, name: str, configurations: np.ndarray, segment: int, embeddings: np.ndarray
    ) -> None:
        """Set the embeddings, (p, width), of one segment under some configurations."""
        places = self._places(name, configurations, segment)
        self.steps[places], self.embeddings[places] = self.step, embeddings

    def state(self) -> dict[str, Tensor]:
        """Return the table for a checkpoint."""
        step = torch.tensor(self.step)
        return {
            "step": step,
            "steps": torch.from_numpy(self.steps),
            "embeddings": torch.from_numpy(self.embeddings),
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take back a :meth:`state` of this table."""
        self.step = int(state["step"])
        self.steps[:], self.embeddings[:] = state["steps"], state["embeddings"]

    def _places(self, name: str, configurations: np.ndarray, segment: np.ndarray | int):
        return self.starts[name] + configurations * self.sizes[name][1] + segment
