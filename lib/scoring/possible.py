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

ANY = range(TENSOR_DIMS + 1)  # the ranks of a tensor without elements, whose features hide some


def check_layouts(path: Path, program: Program, hardware: str) -> None:
    """Raise a :class:`DataError` if a configuration has a layout that its tensor cannot have.

    Args:
        path: of the configurations, for the message.
        program: with them.
        hardware: of a ``tpu``, a layout may name the minor-most dimensions of a tensor alone.
    """
    features = program.graph.node_config_feat
    ranks = _ranks(program)
    digits = features.reshape(len(features), len(ranks), len(ROLES), TENSOR_DIMS)
    for site, of_roles in enumerate(ranks):
        for role, own in enumerate(of_roles):
            possible = _possible(digits[:, site, role], own, hardware == "tpu")
            if not possible.all():
                config = int(np.argmin(possible))
                raise _error(path, program, config, site, role, own, hardware)


def _possible(layouts: np.ndarray, ranks: list[int], parts: bool) -> np.ndarray:
    """Return which of some layouts, (c, 6) dimensions, a tensor of such ranks can have, (c,)."""
    named = layouts >= 0
    count, largest = named.sum(1), layouts.max(1)
    leading = (named == (np.arange(TENSOR_DIMS) < count[:, None])).all(1)
    ordered = np.sort(layouts, axis=1)
    distinct = ((np.diff(ordered, axis=1) > 0) | (ordered[:, 1:] < 0)).all(1)
    fits = largest < max(ranks, default=0) if parts else np.isin(count, ranks) & (largest < count)
    return leading & distinct & (fits | (count == 0))


def tensors_of(program: Program) -> TensorGraph:
    """The tensors of a program of layouts."""
    graph = program.graph
    edges = graph.edge_index, graph.node_config_ids
    return TensorGraph(graph.node_feat, graph.node_opcode, *edges)


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
