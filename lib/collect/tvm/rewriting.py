"""A network of ``torch.export``, rewritten to compute the same in fewer steps.

A batch normalization at inference is a scale and a shift of each channel, which depend on weights
alone; after a convolution they become part of its weights (Ioffe and Szegedy 2015, algorithm 2).
Attention without a mask needs no look for queries all of whose keys are masked.
"""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, Node

_aten = torch.ops.aten
CONVOLUTIONS = (_aten.conv1d.default, _aten.conv2d.default, _aten.conv3d.default)


def rewrite(exported: ExportedProgram) -> None:
    """Replace batch normalizations, and attention without a mask."""
    for node in list(exported.graph.nodes):
        if node.target == _aten.batch_norm.default and not node.args[5]:
            parts = _folded
        elif node.target == _aten.scaled_dot_product_attention.default and _is_plain(node):
            parts = _attention
        else:
            continue
        with exported.graph.inserting_before(node):
            result = parts(exported.graph, node)
        result.meta = dict(node.meta)
        node.replace_all_uses_with(result)
        exported.graph.erase_node(node)
        result._rename(node.name)  # by which a result of the network is known
    exported.graph.eliminate_dead_code()
    exported.graph_module.recompile()


def _folded(graph: Graph, node: Node) -> Node:
    """Return a node that takes the place of a batch normalization."""
    values, weight, bias, mean, variance, _, _, epsilon = node.args[:8]
    scale = graph.call_function(_aten.add.Scalar, (variance, epsilon))
    scale = graph.call_function(_aten.rsqrt.default, (scale,))
    if weight is not None:
        scale = graph.call_function(_aten.mul.Tensor, (scale, weight))
    if values.target in CONVOLUTIONS and len(values.users) == 1:
        _, kernel, before, *rest = (*values.args, None)[: max(3, len(values.args))]
        if before is not None:
            mean = graph.call_function(_aten.sub.Tensor, (mean, before))
        shape = [-1, *[1] * (kernel.meta["val"].ndim - 1)]
        kernel = _scaled(graph, kernel, scale, shape)
        shift = _shift(graph, scale, mean, bias)
        inputs = (values.args[0], kernel, shift, *rest)
        return graph.call_function(values.target, inputs, values.kwargs)
    shape = [1, -1, *[1] * (values.meta["val"].ndim - 2)]
    shift = graph.call_function(_aten.reshape.default, (_shift(graph, scale, mean, bias), shape))
    return graph.call_function(_aten.add.Tensor, (_scaled(graph, values, scale, shape), shift))


def _scaled(graph: Graph, values: Node, scale: Node, shape: list[int]) -> Node:
    scale = graph.call_function(_aten.reshape.default, (scale, shape))
    return graph.call_function(_aten.mul.Tensor, (values, scale))


def _shift(graph: Graph, scale: Node, mean: Node, bias: Node | None) -> Node:
    """Return the bias less the mean as scaled."""
    shift = graph.call_function(_aten.mul.Tensor, (mean, scale))
    if bias is None:
        return graph.call_function(_aten.neg.default, (shift,))
    return graph.call_function(_aten.sub.Tensor, (bias, shift))


def _attention(graph: Graph, node: Node) -> Node:
    """Return attention in its parts (Vaswani et al. 2017, equation 1)."""
    queries, keys, values = node.args[:3]
    scale = node.kwargs.get("scale") or queries.meta["val"].shape[-1] ** -0.5
    queries = graph.call_function(_aten.mul.Scalar, (queries, scale))
    keys = graph.call_function(_aten.transpose.int, (keys, -2, -1))
    scores = graph.call_function(_aten.matmul.default, (queries, keys))
    shares = graph.call_function(_aten.softmax.int, (scores, -1))
    return graph.call_function(_aten.matmul.default, (shares, values))


def _is_plain(node: Node) -> bool:
    """Return whether attention has no mask, and as many heads of keys as of queries."""
    masks = (*node.args[3:4], *node.args[5:6], node.kwargs.get("attn_mask"))
    flags = node.kwargs.get("is_causal"), node.kwargs.get("enable_gqa")
    return not any(value is not None and value is not False for value in (*masks, *flags))
