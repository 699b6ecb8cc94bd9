"""Fused kernels as sums of segments: the GST thesis' models, early fusion of tiles.

A tile configuration is of the whole kernel. The thesis adds its embedding, M2, to those of the
opcode and of the node, at every node and before any message passes: early fusion, as one of
TpuGraphs' own baselines for tiles has it (``EarlyJoinSAGE`` of its ``baselines/tiles``). So each
node's first vector is M1(opcode) + M3(node), the same under all configurations, plus
M2(configuration), the same at all nodes.

Bounds, dimensions and their products act by factors: numbers are standardized as signed logarithms,
as in :mod:`lib.models.tile.network`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from lib.experiments.models.segments import Segment
from lib.experiments.models.whole import AttentionModel, GraphSum, WholeInputs
from lib.experiments.settings import PoolingSettings
from lib.models.common.batch import OnDevice
from lib.models.common.rows import FLOAT, NUMERIC
from lib.models.tile.network import TILE_FEATURES, LogStandardize


@dataclass(frozen=True)
class TiledBatch(OnDevice):
    """A kernel, or a segment of one, n nodes under d tile configurations.

    Attributes:
        features: (n, 134) float32, not yet standardized.
        opcode: (n,) int64.
        layout: (n, 6) int64, layout digits + 1, in 0..6.
        configurations: (d, 24) float32, not yet standardized.
        sources: (e,) int64, neighbours of node 0, then of node 1, ...
        pointers: (n + 1,) int64, where each node's neighbours start in ``sources``.
    """

    features: Tensor
    opcode: Tensor
    layout: Tensor
    configurations: Tensor
    sources: Tensor
    pointers: Tensor

    @property
    def node_count(self) -> int:
        """Number of nodes, n."""
        return len(self.pointers) - 1


class TiledInputs(WholeInputs):
    """Nodes and tile configurations as numbers: standardized and one-hot."""

    config_width = TILE_FEATURES

    def __init__(self):
        super().__init__()
        self.standardize = LogStandardize(NUMERIC)
        self.tiles = LogStandardize(TILE_FEATURES)

    def configs(self, graph: TiledBatch, rows: Tensor | slice = slice(None)) -> Tensor:
        """(d, 24), standardized."""
        return self.tiles(graph.configurations[rows])


class TiledAttentionModel(AttentionModel):
    """Graph attention on each segment, an MLP on the sum: GST, GAT and Partitioning of kernels."""

    @staticmethod
    def make_inputs() -> TiledInputs:
        return TiledInputs()

    def table(self, graph: TiledBatch, rows: Tensor | slice = slice(None)) -> Tensor:
        """M1(opcodes) + M3(nodes) of some nodes, (r, channels)."""
        return self.opcodes(graph.opcode[rows]) + self.nodes(self.inputs.nodes(graph, rows))

    def distinct(self, graph: TiledBatch) -> tuple[Tensor, ...]:
        """Vectors that differ: (n, channels) of nodes, (d, channels) of tiles."""
        return self.table(graph), self.configs(self.inputs.configs(graph))

    def expand(self, distinct: Sequence[Tensor], graph: TiledBatch) -> Tensor:
        nodes, tiles = distinct
        return nodes[:, None] + tiles  # (n, d, channels)

    def first_of(self, graph: TiledBatch, nodes: Tensor) -> Tensor:
        tiles = self.configs(self.inputs.configs(graph))
        return self.expand((self.table(graph, nodes), tiles), graph)


class TiledPoolingModel(GraphSum):
    """A linear layer over mean-pooled node features and the tile configuration (section 4).

    Nodes' part is the same for all configurations of a kernel, so that one linear function of
    24 numbers orders the tiles of every kernel.
    """

    width = 1

    def __init__(self):
        super().__init__()
        self.inputs = TiledInputs()
        self.linear = nn.Linear(self.inputs.node_width + self.inputs.config_width, 1)

    @classmethod
    def from_settings(cls, settings: PoolingSettings) -> TiledPoolingModel:
        """The network; it has no widths to set."""
        return cls()

    def embed(self, segment: Segment) -> Tensor:
        """Vectors of nodes, each of which has its kernel's configuration."""
        graph = segment.graph
        of_nodes, of_tiles = self.linear.weight.split(
            [self.inputs.node_width, self.inputs.config_width], dim=1
        )
        nodes = nn.functional.linear(self.inputs.nodes(graph), of_nodes).sum(dim=0)  # (1,)
        tiles = nn.functional.linear(self.inputs.configs(graph), of_tiles)  # (d, 1)
        return nodes + graph.node_count * tiles

    def forward_bytes(self, nodes: int, edges: int) -> int:
        return FLOAT * 4 * self.inputs.config_width

    def score(self, total: Tensor, nodes: int) -> Tensor:
        return (total / nodes + self.linear.bias).squeeze(-1)
