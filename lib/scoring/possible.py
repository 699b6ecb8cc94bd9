"""Configured layouts that a tensor can have: what is ranked is checked first.

A network has a score for anything; one of a layout that no tensor can have says nothing.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lib.compiler.graph import TensorGraph
from lib.compiler.operands import KERNEL, OPERAND_ROLES, OUTPUT, ROLES
from lib.files.errors import DataError
from lib.tpugraphs.opcodes import CONVOLUTION, DOT, opcode_name
from lib.tpugraphs.program import TENSOR_DIMS, Program, layouts, written

CELLS = 1 << 16  # sites of configurations that are looked at at a time
ANY = range(TENSOR_DIMS + 1)  # the ranks of a tensor without elements, whose features hide some


def check_layouts(path: Path, program: Program, hardware: str) -> None:
    """Raise a :class:`DataError` if a configuration has a layout that its tensor cannot have.

    Args:
        path: of the configurations, for the message.
        program: with them.
        hardware: of a ``tpu``, a layout may name the minor-most dimensions of a tensor alone.
    """
    graph, ranks = program.graph, _ranks(program)
    parts, cells = hardware == "tpu", (len(ranks), len(ROLES))
    limits = np.array([[_limits(tensor, parts) for tensor in site] for site in ranks], np.int64)
    limits = limits.reshape(*cells, len(ANY))
    rows = max(1, CELLS // max(1, len(ranks)))
    sites, roles = np.ogrid[: len(ranks), : len(ROLES)]
    for start in range(0, len(graph.node_config_feat), rows):
        chunk = graph.node_config_feat[start : start + rows]
        digits = chunk.reshape(len(chunk), *cells, TENSOR_DIMS).astype(np.int64)
        named = digits >= 0
        count, bits = named.sum(-1), (named << np.maximum(digits, 0)).sum(-1)
        leading = (named == (np.arange(TENSOR_DIMS) < count[..., None])).all(-1)
        distinct = np.bitwise_count(bits) == count  # a sum of n powers of 2 has n bits only so
        bad = np.argwhere(~(leading & distinct & (bits < limits[sites, roles, count])))
        if len(bad):
            config, site, role = bad[0].tolist()
            raise _error(path, program, start + config, site, role, ranks[site][role], hardware)


def tensors_of(program: Program) -> TensorGraph:
    """The tensors of a program of layouts."""
    graph = program.graph
    edges = graph.edge_index, graph.node_config_ids
    return TensorGraph.made_of(graph.node_feat, graph.node_opcode, *edges)


def _ranks(program: Program) -> list[list[list[int]]]:
    """The ranks that each site's tensors can have, by role; none where it has no such tensor.

    The features do not say for sure which operand is the kernel, so that either may be.
    """
    graph, tensors, ranks = program.graph, tensors_of(program), []
    for node in graph.node_config_ids.tolist():
        product = graph.node_opcode[node] in (CONVOLUTION, DOT)
        operands = tensors.operands[node][: len(OPERAND_ROLES) if product else 1]
        nodes = {OUTPUT: [node], **dict.fromkeys(OPERAND_ROLES, operands)}
        if not product:
            nodes[KERNEL] = []
        ranks.append(
            [
                sorted({r for tensor in nodes[role] for r in _ranks_of(tensors, tensor)})
                for role in range(len(ROLES))
            ]
        )
    return ranks


def _ranks_of(tensors: TensorGraph, node: int) -> range | list[int]:
    return [tensors.rank(node)] if tensors.bytes[node] else ANY


def _limits(ranks: list[int], parts: bool) -> list[int]:
    """By how many dimensions a layout names: above the sum of their powers of 2; 0 for none."""
    most = max(ranks, default=0)
    of_parts = [1 << most if count <= most else 0 for count in ANY]
    of_all = [1 << count if count in ranks else 0 for count in ANY]
    return [1, *(of_parts if parts else of_all)[1:]]


def _error(
    path: Path, program: Program, config: int, site: int, role: int, ranks: list[int], hardware: str
) -> DataError:
    graph = program.graph
    node = int(graph.node_config_ids[site])
    name = program.names[node] if program.names else f"node {node}"
    layout = layouts(graph.node_config_feat[config, site])[ROLES[role]]
    actual = written(layout or ())
    opcode = opcode_name(graph.node_opcode[node])
    some = "some of the" if hardware == "tpu" else "all of the"
    allowed = " or ".join(f"0..{rank - 1}" for rank in ranks if rank)
    expected = f"{some} dimensions {allowed}, each once (hardware: {hardware})"
    if not allowed:
        expected = f"no layout: a {opcode} has no {ROLES[role]} with dimensions"
    return DataError(path, f"configuration {config}, {name}, {ROLES[role]}", actual, expected)
