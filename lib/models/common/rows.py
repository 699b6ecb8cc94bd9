"""Rows: one graph under a batch of configurations, as a network reads it, and its embedding.

A configuration changes only the configurable nodes, and each of those only through one of the
few layout triples that occur at it. So the input of the network, and every layer that works on
single nodes, is computed once per *row*: one for each node that is not configurable and one for
each distinct (configurable node, layout triple) pair of the batch. The table of rows is then
expanded to (nodes, configurations). This is exact: the same numbers as computing every
(configuration, node) cell, at a fraction of the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from lib.models.common.batch import OnDevice

FLOAT = 4  # bytes
NUMERIC = 134  # node features before the layout: numbers and one-hots (paper, section 2.2.5)
LAYOUT_DIGITS = 6  # node features 134..139: the output's minor-to-major order
CONFIG_DIGITS = 18  # output, input and kernel layout of a configuration
DIGIT_VALUES = 7  # -1..5
LARGEST_DIGIT = DIGIT_VALUES - 2  # tensors of more than six dimensions have larger ones
OPCODES = 121  # 0 is unknown (FORMAT.md, section 3)


@dataclass(frozen=True, eq=False)
class Program(OnDevice):
    """What all batches of a graph share: its n nodes, the k configurable ones first.

    Attributes:
        features: (n, 134) float32, not yet standardized.
        opcode: (n,) int64.
        layout: (n, 6) int64, node layout digits + 1, in 0..6.
        digits: (d + 1, 18) int64, the dictionary's configuration digits + 1; the last one all 0,
            for nodes that are not configurable.
        sources: (e,) int64, neighbours of node 0, then of node 1, ...
        pointers: (n + 1,) int64, where each node's neighbours start in ``sources``.
    """

    features: Tensor
    opcode: Tensor
    layout: Tensor
    digits: Tensor
    sources: Tensor
    pointers: Tensor

    def to(self, device: torch.device | str) -> Program:
        """Return the same on another device, where a copy stays as long as this one."""
        if torch.device(device).type == self.features.device.type:
            return self
        copies = _COPIES.setdefault(self, {})
        if device not in copies:
            copies[device] = super().to(device)
        return copies[device]


_COPIES: WeakKeyDictionary[Program, dict[torch.device | str, Program]] = WeakKeyDictionary()


@dataclass(frozen=True)
class GraphBatch(OnDevice):
    """One graph under b configurations, of which r - (n - k) (node, layout triple) pairs occur.

    Attributes:
        program: its nodes.
        nodes: (r,) int64, the node of each row: first those that are not configurable.
        codes: (r,) int64, which of the graph's digits each row has.
        cells: (k, b) int64, the row of each configurable node under each configuration. The
            rows of the other n - k nodes are the first n - k of the table, in node order.
        physics: (r, p) float32, what a layout does to a configurable node's tensors, if the network
            reads it; all 0 in rows of other nodes.
    """

    program: Program
    nodes: Tensor
    codes: Tensor
    cells: Tensor
    physics: Tensor | None = None

    @property
    def node_count(self) -> int:
        """Number of nodes, n."""
        return len(self.program.opcode)

    def with_rows(self, count: int) -> GraphBatch:
        """Return a copy that ends with the last row so often that it has ``count`` rows."""
        rows = torch.arange(count, device=self.nodes.device).clamp(max=len(self.nodes) - 1)
        physics = None if self.physics is None else self.physics[rows]
        return GraphBatch(
            self.program, self.nodes[rows], self.codes[rows], self.cells.clone(), physics
        )


class Standardize(nn.Module):
    """Element-wise (x - mean) / deviation with statistics of the training fold (section 2.2.5).

    A feature that is constant over the training fold has taught the network nothing; it is
    passed on as zero, so that a graph where it differs is not thrown off by a huge quotient.
    """

    mean: Tensor
    factor: Tensor

    def __init__(self, width: int = NUMERIC):
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("factor", torch.ones(width))

    def fit(self, features: Tensor) -> None:
        """Set the statistics from (rows, width) features of any float type; without any rows
        nothing is known of any feature, and all are passed on as zeros."""
        self.fit_chunks(lambda: [features])

    def fit_chunks(self, chunks: Callable[[], Iterable[Tensor]]) -> None:
        """:meth:`fit` without holding the rows: chunks (r, width), which are gone through twice.

        Values are float32 and sums float64, so that the mean of a constant feature, and with it
        its deviation of zero, is exact.
        """
        count, total = 0, torch.zeros_like(self.mean, dtype=torch.float64)
        for chunk in chunks():
            count, total = count + len(chunk), total + chunk.double().sum(dim=0)
        mean, squares = total / max(1, count), torch.zeros_like(total)
        for chunk in chunks():
            squares += (chunk.double() - mean).square().sum(dim=0)
        deviation = (squares / max(1, count)).sqrt()
        self.mean.copy_(mean)
        self.factor.copy_(torch.where(deviation > 0, 1 / deviation, torch.zeros_like(deviation)))

    def forward(self, features: Tensor) -> Tensor:
        """(rows, width) float32 to the same shape."""
        return (features - self.mean) * self.factor


class RowVectors(nn.Module):
    """Rows of a batch as vectors: standardized numbers, opcode and layout embeddings.

    One embedding of digits serves the node's layout and the configuration's (section 2.2.4).
    ``physics`` is how many such columns there are.
    """

    def __init__(self, opcode_channels: int, layout_channels: int, physics: int = 0):
        super().__init__()
        self.standardize = Standardize()
        self.opcode = nn.Embedding(OPCODES, opcode_channels)
        self.digit = nn.Embedding(DIGIT_VALUES, layout_channels)
        digits = (LAYOUT_DIGITS + CONFIG_DIGITS) * layout_channels
        self.width = NUMERIC + opcode_channels + digits + physics

    def forward(self, batch: GraphBatch) -> Tensor:
        """(rows, width) float32; width is 246 with the paper's embeddings."""
        program, nodes = batch.program, batch.nodes
        digits = torch.cat([program.layout[nodes], program.digits[batch.codes]], dim=1)  # (r, 24)
        parts = [
            self.standardize(program.features)[nodes],  # (r, 134)
            _embedded(self.opcode, program.opcode[nodes]),  # (r, opcode channels)
            _embedded(self.digit, digits).flatten(1),  # (r, 24 * layout channels)
        ]
        if batch.physics is not None:
            parts.append(batch.physics)  # (r, p)
        return torch.cat(parts, dim=1)


def _embedded(embedding: nn.Embedding, index: Tensor) -> Tensor:
    """Return rows of an embedding; on a GPU by a product, whose gradient is one too, not a sort."""
    if not index.is_cuda:
        return embedding(index)
    one_hot = nn.functional.one_hot(index, embedding.num_embeddings)
    return one_hot.to(embedding.weight.dtype) @ embedding.weight


def expand_rows(table: Tensor, batch: GraphBatch) -> Tensor:
    """Rows to (nodes, configurations, channels): the configurable nodes first.

    Args:
        table: (r, c), one vector a row.
        batch: whose cells say which row is where.
    """
    count, configurations = batch.node_count, batch.cells.shape[1]
    fixed = table[: count - len(batch.cells), None].expand(-1, configurations, -1)
    return torch.cat([nn.functional.embedding(batch.cells, table), fixed])
