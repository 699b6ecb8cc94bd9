"""A network of ``torch.export``, rewritten to compute the same in fewer steps.

A batch normalization at inference is a scale and a shift of each channel, which depend on weights
alone; after a convolution they become part of its weights (Ioffe and Szegedy 2015, algorithm 2).
Attention without a mask needs no look for queries all of whose keys are masked. Attention of which
no cache holds all scores, or of one query, stays one operator. So it does where a network writes
its products and its softmax itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Graph, Node

from lib.files.processor import LANES

_aten = torch.ops.aten
CONVOLUTIONS = (_aten.conv1d.default, _aten.conv2d.default, _aten.conv3d.default)
RESHAPED = (_aten.reshape.default, _aten.view.default)
PRODUCTS, SOFTMAX = (_aten.matmul.default, _aten.bmm.default), _aten.softmax.int
MOST_SCORES, QUERIES = 1 << 20, 8  # of attention in parts, and heads of one query that share keys
FEW = 4  # vectors, of which a part of one is no matter
MASKED = -1e9  # a score, which softmax makes 0


@torch.library.custom_op("tgraph::attention", mutates_args=())
def _whole(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
    causal: bool,
    side_by_side: int,
) -> torch.Tensor:
    """Return what :func:`lib.collect.tvm.attention.attention` computes."""
    parts = (
        part.unflatten(0, (len(queries) // side_by_side, -1)) for part in (queries, keys, values)
    )
    how = {"attn_mask": mask, "scale": scale, "is_causal": causal, "enable_gqa": True}
    return torch.nn.functional.scaled_dot_product_attention(*parts, **how).flatten(0, 1)


@_whole.register_fake
def _shape(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, *_: object
) -> torch.Tensor:
    return queries.new_empty(*queries.shape[:-1], values.shape[-1])


def rewrite(exported: ExportedProgram) -> None:
    """Replace batch normalizations, and attention that stays one or is without a mask."""
    check = _aten._assert_tensor_metadata.default  # of what is cast
    for node in exported.graph.find_nodes(op="call_function", target=check):
        exported.graph.erase_node(node)
    for node in list(exported.graph.nodes):
        with exported.graph.inserting_before(node):
            if node.target == _aten.batch_norm.default and not node.args[5]:
                result = _folded(exported.graph, node)
            elif (found := _found(exported.graph, node)) and (_is_one(found) or _is_plain(found)):
                result = _attention(exported.graph, found)
            else:
                continue
        result.meta = dict(node.meta)
        node.replace_all_uses_with(result)
        exported.graph.erase_node(node)
        result._rename(node.name)  # by which a result of the network is known
    for node in exported.graph.find_nodes(op="get_attr"):
        value = getattr(exported.graph_module, node.target)
        if isinstance(value, torch.Tensor):  # or a part, such as one without autocast
            exported.constants[node.target] = value
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


def _found(graph: Graph, node: Node) -> Node | None:
    """Return the operator of attention that a node is, or whose result it computes in parts."""
    if node.target == _aten.scaled_dot_product_attention.default:
        return node
    if node.target not in PRODUCTS or (weights := _behind(node.args[0])).target != SOFTMAX:
        return None
    scores, mask, scale = _behind(weights.args[0]), None, 1.0
    if scores.target == _aten.masked_fill.Scalar and scores.args[2] == -math.inf:
        mask = _call(graph, _aten.logical_not.default, scores.args[1])
        mask.meta = dict(scores.args[1].meta)
        scores = scores.args[0]
    elif scores.target == _aten.add.Tensor and isinstance(scores.args[1], Node):
        scores, mask = scores.args
    if scores.target in (_aten.mul.Tensor, _aten.div.Tensor):
        operator, (scores, factor) = scores.target, scores.args
        if not isinstance(factor, int | float):
            return None
        scale = factor if operator == _aten.mul.Tensor else 1 / factor
    read = node.args[0], weights, scores
    if scores.target not in PRODUCTS or any(len(one.users) > 1 for one in read):
        return None
    shape = scores.meta["val"].shape
    last = weights.args[1] in (-1, len(shape) - 1)
    if len(shape) < 3 or shape != weights.meta["val"].shape or not last:
        return None
    queries, columns = scores.args
    if columns.target == _aten.transpose.int and {*columns.args[1:]} in ({-2, -1}, {2, 3}):
        keys = columns.args[0]
    else:
        keys = _call(graph, _aten.transpose.int, columns, -2, -1)
        keys.meta = {"val": columns.meta["val"].mT}
    how = {"attn_mask": mask, "scale": scale}
    parts, whole = (queries, keys, node.args[1]), _aten.scaled_dot_product_attention.default
    found = graph.call_function(whole, parts, how)
    found.meta = dict(node.meta)
    return found


def _behind(node: Node) -> Node:
    """Return the node whose values a node passes on at inference."""
    while node.target == _aten.dropout.default or (
        node.target == _aten.to.dtype and node.meta["val"].dtype == node.args[0].meta["val"].dtype
    ):
        node = node.args[0]
    return node


def _attention(graph: Graph, node: Node) -> Node:
    """Return attention (Vaswani et al. 2017, equation 1), a matrix for each head."""
    as_one = _is_one(node)
    heads = [_heads(graph, part) for part in (_once(node) if as_one else node.args[:3])]
    scale = node.kwargs.get("scale") or node.args[1].meta["val"].shape[-1] ** -0.5
    result = (_as_one if as_one else _in_parts)(graph, node, heads, scale)
    return _call(graph, _aten.reshape.default, result, [*node.meta["val"].shape])


def _in_parts(graph: Graph, node: Node, heads: Sequence[Node], scale: float) -> Node:
    """Return attention without a mask in its parts.

    Tiles of MetaSchedule divide their loops, and 1,500 keys or 197 divide into no whole vectors.
    So more are added, whose scores are far below all others, and whose values are 0.
    """
    call, (queries, keys, values) = partial(_call, graph), heads
    count = node.args[1].meta["val"].shape[-2]
    queries = call(_aten.mul.Scalar, queries, scale)
    keys = call(_aten.transpose.int, keys, -2, -1)
    more = -count % LANES if count > FEW * LANES else 0
    if more:
        keys = call(_aten.constant_pad_nd.default, keys, [0, more])
        values = call(_aten.constant_pad_nd.default, values, [0, 0, 0, more])
    scores = call(_aten.bmm.default, queries, keys)
    if more:
        mask = torch.zeros(count + more)
        mask[count:] = MASKED
        name = f"mask_of_{node.name}"
        graph.owning_module.register_buffer(name, mask)
        scores = call(_aten.add.Tensor, scores, graph.get_attr(name))
    shares = call(_aten.softmax.int, scores, -1)
    return call(_aten.bmm.default, shares, values)


def _as_one(graph: Graph, node: Node, heads: Sequence[Node], scale: float) -> Node:
    """Return attention as one operator, of 3 dimensions, and a mask of 4 that is added."""
    call, (mask, causal) = partial(_call, graph), _mask_of(node)
    if mask is not None:
        kind, shape = mask.meta["val"].dtype, mask.meta["val"].shape
        if kind == torch.bool:
            hidden = call(_aten.logical_not.default, mask)
            mask = call(_aten.zeros.default, shape)
            mask = call(_aten.masked_fill.Scalar, mask, hidden, -math.inf)
        mask = call(_aten.reshape.default, mask, [*[1] * (4 - len(shape)), *shape])
    queries = node.args[0].meta["val"].shape
    side_by_side = queries[-3] if len(queries) > 2 else 1
    return call(torch.ops.tgraph.attention.default, *heads, mask, scale, causal, side_by_side)


def _call(graph: Graph, operator: OpOverload, *arguments: object) -> Node:
    return graph.call_function(operator, arguments)


def _mask_of(node: Node) -> tuple[Node | None, bool]:
    """Return the mask of attention, and whether it is causal."""
    mask, _, causal = (*node.args[3:], *(None, 0, False)[len(node.args) - 3 :])
    return node.kwargs.get("attn_mask", mask), bool(node.kwargs.get("is_causal", causal))


def _once(node: Node) -> list[Node]:
    """Return queries, keys and values of attention, the latter before they are repeated for the
    heads that share them."""
    queries, *both = node.args[:3]
    found = [*map(_before_repeats, both)]
    alike = found[0].meta["val"].shape[:-1] == found[1].meta["val"].shape[:-1]
    return [queries, *(found if alike else both)]


def _before_repeats(node: Node) -> Node:
    """Return (b, heads, n, width) of which a node has each head some times; or the node."""
    found, shape = node, node.meta["val"].shape
    for targets in (RESHAPED, (_aten.expand.default,), (_aten.unsqueeze.default,)):
        if found.target not in targets:
            return node
        found, axis = found.args[:2]
    few = found.meta["val"].shape
    same = axis == 2 and len(few) == len(shape) == 4
    return found if same and (few[0], *few[2:]) == (shape[0], *shape[2:]) else node


def _is_one(node: Node) -> bool:
    return is_one(*(part.meta["val"].shape for part in _once(node)))


def is_one(queries: Sequence[int], keys: Sequence[int], values: Sequence[int]) -> bool:
    """Return whether attention of these shapes is one operator: it has whole vectors, and more
    scores than a cache holds, or one query for which keys would be transposed."""
    if not len(queries) == len(keys) < 5:
        return False
    scores = math.prod(queries[:-1]) * keys[-2]
    vectors = keys[-1] % LANES == values[-1] % LANES == 0
    alike = queries[:-3] == keys[:-3] and keys[:-2] == values[:-2]
    shared = len(queries) < 3 or queries[-3] % keys[-3] == 0
    better = scores > MOST_SCORES or of_one_query(queries, keys)
    return better and vectors and alike and shared


def of_one_query(queries: Sequence[int], keys: Sequence[int]) -> bool:
    """Return whether attention of these shapes is of one query for few heads that share keys."""
    return queries[-2] == 1 and math.prod(queries[:-2]) <= QUERIES * math.prod(keys[:-2])


def _heads(graph: Graph, part: Node) -> Node:
    """Return queries, keys or values as a batch of matrices, one a head."""
    shape = part.meta["val"].shape
    return graph.call_function(_aten.reshape.default, (part, [-1, *shape[-2:]]))


def _is_plain(node: Node) -> bool:
    """Return whether attention has no mask, and as many heads of keys as of queries."""
    heads = {tuple(part.meta["val"].shape[:-2]) for part in node.args[:3]}
    return len(heads) == 1 and _mask_of(node) == (None, False)
