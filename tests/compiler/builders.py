"""Small programs for tests of layouts, written node by node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
from hypothesis import strategies as st

from lib.cache.codec import build_dictionary
from lib.cache.graph import CachedGraph
from lib.compiler.cpu.resolved import ResolvedProgram, effects_of
from lib.compiler.cpu.returning import Returning
from lib.compiler.graph import TensorGraph
from lib.tpugraphs.encoding import FEATURE_NAMES
from lib.tpugraphs.opcodes import ID_OF_NAME

PLAIN, OTHER, THIRD = (3, 2, 1, 0), (2, 3, 1, 0), (0, 1, 2, 3)
SHAPE = (4, 8, 8, 16)
NHWC = {  # dimension numbers of the usual convolution, and the output's
    "input_batch_dim": 0,
    "input_feature_dim": 3,
    "input_spatial_dims_0": 1,
    "input_spatial_dims_1": 2,
    "kernel_spatial_dims_0": 0,
    "kernel_spatial_dims_1": 1,
    "kernel_input_feature_dim": 2,
    "kernel_output_feature_dim": 3,
    "output_batch_dim": 0,
    "output_feature_dim": 3,
}


@dataclass
class Builder:
    """Nodes in the order in which they are added; every tensor is of float32."""

    features: list[np.ndarray] = field(default_factory=list)
    opcodes: list[int] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)

    def add(self, opcode: str, shape: Sequence[int], *operands: int, **named: float) -> int:
        """A node's number; features are set by their names in the encoding."""
        vector = np.zeros(len(FEATURE_NAMES), np.float32)
        values = {f"shape_dimensions_{d}": size for d, size in enumerate(shape)}
        values |= {"shape_dimensions_product": prod(shape), "shape_element_type_is_f32": 1}
        order = range(len(shape) - 1, -1, -1)
        values |= {f"layout_minor_to_major_{place}": d for place, d in enumerate(order)}
        for name, value in (values | named).items():
            vector[FEATURE_NAMES.index(name)] = value
        self.features.append(vector)
        self.opcodes.append(ID_OF_NAME[opcode])
        self.edges += [(len(self.features) - 1, operand) for operand in operands]
        return len(self.features) - 1

    def convolution(self, shape: Sequence[int], *operands: int, **named: float) -> int:
        """A convolution with the usual dimension numbers."""
        named |= {f"convolution_dim_numbers_{name}": value for name, value in NHWC.items()}
        return self.add("convolution", shape, *operands, feature_group_count=1, **named)

    def transpose(self, shape: Sequence[int], operand: int, permutation: Sequence[int]) -> int:
        """A transpose; dimension d of the output is ``permutation[d]`` of the operand."""
        named = {f"dimensions_{d}": value for d, value in enumerate(permutation)}
        return self.add("transpose", shape, operand, **named)

    def graph(
        self,
        configurable: Sequence[int],
        configurations: Sequence[Sequence[Sequence[Sequence[int]]]],
    ) -> CachedGraph:
        """The program with configurations: for each, for each configurable node, three layouts."""
        digits = np.full((len(configurations), len(configurable), 3, 6), -1)
        for c, configuration in enumerate(configurations):
            for k, layouts in enumerate(configuration):
                for role, order in enumerate(layouts):
                    digits[c, k, role, : len(order)] = order
        count, nodes = digits.shape[:2]
        dictionary, cells = build_dictionary("", [digits.reshape(count, nodes, 18)], count, nodes)
        return CachedGraph(
            name="program",
            split="train",
            node_feat=np.stack(self.features),
            node_opcode=np.array(self.opcodes, np.uint8),
            edges=np.array(self.edges, np.int32).reshape(-1, 2),
            node_splits=np.array([0, len(self.features)], np.int32),
            config_nodes=np.array(configurable, np.int32),
            dictionary=dictionary,
            cells=cells,
            runtime=np.arange(1, count + 1),
            original=np.arange(count, dtype=np.int32),
        )


def network() -> tuple[Builder, dict[str, int]]:
    """Two convolutions with a tanh between them."""
    made = Builder()
    image, weights = made.add("parameter", SHAPE), made.add("parameter", (3, 3, 16, 16))
    first = made.convolution(SHAPE, image, weights)
    between = made.add("tanh", SHAPE, first)
    second = made.convolution(SHAPE, weights, between)  # the kernel's edge comes first
    return made, {"image": image, "first": first, "between": between, "second": second}


def told_effects(
    made: Builder,
    configurable: Sequence[int],
    configurations: Sequence,
) -> list[dict[str, set]]:
    """Copies and off-layout operations of each configuration, with orders written out."""
    graph = made.graph(configurable, configurations)
    resolved = ResolvedProgram(TensorGraph.of(graph))
    tables, layouts = resolved.tables, resolved.layouts(graph)[graph.cells]
    (copies, _, off_layout), orders = Returning(tables, layouts).effects(), tables.orders.items
    result = [{"copies": set(), "off_layout": set()} for _ in configurations]
    for configuration, number in copies.tolist():
        tensor, before, after, reason, *_ = tables.copies.items[number]
        result[configuration]["copies"].add((tensor, orders[before], orders[after], reason))
    for configuration, number in off_layout.tolist():
        node, order = tables.off_layout.items[number]
        result[configuration]["off_layout"].add((node, orders[order]))
    return result


def resolved(graph: CachedGraph) -> CachedGraph:
    """A graph with what its configurations make a compiler do, as stage 1 leaves it."""
    return replace(graph, **effects_of(graph))


@st.composite
def random_programs(draw):
    """A chain of operations on one shape, some of them convolutions, and configurations of it."""
    made = Builder()
    weights = made.add("parameter", (3, 3, 16, 16))
    nodes, configurable = [made.add("parameter", SHAPE)], []
    for letter in draw(st.lists(st.sampled_from("ctas"), min_size=1, max_size=8)):
        last = nodes[-1]
        if letter == "c":
            operands = draw(st.permutations([last, weights]))
            nodes.append(made.convolution(SHAPE, *operands))
            configurable.append(nodes[-1])
        elif letter == "a":
            nodes.append(made.add("add", SHAPE, last, draw(st.sampled_from(nodes))))
        elif letter == "s":
            nodes.append(made.add("reduce-window", SHAPE, last))
        else:
            nodes.append(made.add("tanh", SHAPE, last))
    if not configurable:
        configurable.append(made.convolution(SHAPE, nodes[-1], weights))
    order = st.one_of(st.just(()), st.permutations(range(4)).map(tuple))
    layouts = st.tuples(order, order, order)
    count = draw(st.integers(2, 6))
    configurations = [[draw(layouts) for _ in configurable] for _ in range(count)]
    return made, configurable, configurations
