"""PyTorch's operators as TVM reads them right: in parts, computed once, and of one type.

TVM's frontend lacks some operators, takes several tensors of indices for something else, and does
not promote types: ``torch.arange(8) / 8`` would be of integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import torch
from torch import Tensor
from torch._decomp import get_decompositions
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.fx import Node
from torch.fx.node import map_arg

from lib.collect.tvm import placing

_aten = torch.ops.aten
MOST_FOLDED = 1 << 22  # bytes of a constant; a larger one is computed where it is read
VIEWS = (
    *(_aten.expand.default, _aten.permute.default, _aten.select.int),
    *(_aten.unsqueeze.default, _aten.view.default),
)
JOINS = (_aten.cat.default, _aten.stack.default)
BY_DECOMPOSITION = (_aten.grid_sampler_2d.default, _aten.upsample_nearest2d.vec)  # PyTorch's own
SMOOTH = (_aten._upsample_bicubic2d_aa.default, _aten._upsample_bilinear2d_aa.default)
MOST_LARGEST = 8  # numbers of an axis that are looked for one after the other
SUM, MEAN = 0, 1  # of a bag of embeddings; its largest else


def decompositions() -> dict[Any, Callable]:
    """Return operators in parts, for ``ExportedProgram.run_decompositions``."""
    own = get_decompositions(BY_DECOMPOSITION)
    nearest = own.pop(_aten.upsample_nearest2d.vec)

    def resized(x: Tensor, size: Sequence[int] | None, scales: Sequence[float] | None) -> Any:
        """Return an image by its nearest pixels; TVM knows those of whole multiples."""
        wanted = size or [int(n * scale) for n, scale in zip(x.shape[2:], scales, strict=True)]
        whole = all(n % k == 0 for n, k in zip(wanted, x.shape[2:], strict=True))
        return NotImplemented if whole else nearest(x, size, scales)

    return own | {
        _aten._cdist_forward.default: _distances,
        _aten._adaptive_avg_pool2d.default: _adaptive_average,
        _aten._embedding_bag.default: _bags,
        _aten._embedding_bag_forward_only.default: _bags,
        _aten._trilinear.default: _trilinear,
        **{operator: partial(_resized_smoothly, operator) for operator in SMOOTH},
        _aten._unsafe_index.Tensor: placing.index,
        _aten.adaptive_max_pool2d.default: _adaptive_max_pool,
        _aten.cumprod.default: partial(_cumulated, torch.prod, 1),
        _aten.cumsum.default: partial(_cumulated, torch.sum, 0),
        _aten.bucketize.Tensor: _bucketed,
        _aten.div.Tensor_mode: _rounded,
        _aten.exp2.default: lambda x: torch.exp(x * math.log(2)),
        _aten.hypot.default: lambda x, y: (x * x + y * y).sqrt(),
        _aten.index.Tensor: placing.index,
        _aten.index_add.default: placing.added,
        _aten.index_copy.default: partial(placing.scattered, placing.SET),
        _aten.index_put.default: placing.put,
        _aten.scatter_reduce.two: placing.reduced,
        _aten.one_hot.default: lambda x, n: (x[..., None] == torch.arange(n)).to(x.dtype),
        _aten.native_group_norm.default: _group_norm,
        _aten.max.dim: lambda x, *axis: (torch.amax(x, *axis), torch.argmax(x, *axis)),
        _aten.min.dim: lambda x, *axis: (torch.amin(x, *axis), torch.argmin(x, *axis)),
        _aten.scatter.src: partial(placing.scattered, placing.SET),
        _aten.scatter.value: partial(placing.scattered, placing.SET),
        _aten.scatter_add.default: partial(placing.scattered, "sum"),
        _aten.topk.default: _largest,
        _aten.unfold.default: _windows,
        _aten.upsample_nearest2d.vec: resized,
        _aten.var_mean.correction: _variance_and_mean,
    }


def _cumulated(
    operator: Callable, neutral: int, x: Tensor, axis: int, *, dtype: torch.dtype | None = None
) -> Tensor:
    """Return cumulative sums or products, as those of all that is not behind: TVM has no program
    for them."""
    dtype = dtype or (x.dtype if x.is_floating_point() else torch.int64)
    x = x.movedim(axis, -1).to(dtype)  # (..., n)
    number = torch.arange(x.shape[-1])
    before = number[:, None] >= number  # (n, n)
    return operator(torch.where(before, x[..., None, :], neutral), -1).movedim(-1, axis)


def _largest(
    x: Tensor, count: int, axis: int = -1, largest: bool = True, _in_order: bool = True
) -> Any:
    """Return the few largest numbers of an axis and where they are, one after the other."""
    if count > MOST_LARGEST:
        return NotImplemented
    sign = 1 if largest else -1
    left, found = x * sign, []
    number = torch.arange(x.shape[axis]).reshape([-1, *[1] * (x.ndim - 1 - axis % x.ndim)])
    for _ in range(count):
        place = left.argmax(axis, keepdim=True)
        found.append((left.amax(axis, keepdim=True) * sign, place))
        left = torch.where(number == place, -math.inf, left)
    values, places = (torch.cat(part, axis) for part in zip(*found, strict=True))
    return values, places


def _bucketed(x: Tensor, bounds: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """Return how many bounds lie below each number, or, to the right, are not above it."""
    below = bounds <= x[..., None] if right else bounds < x[..., None]
    return below.sum(-1, dtype=torch.int32 if out_int32 else torch.int64)


def _windows(x: Tensor, axis: int, size: int, step: int) -> Tensor:
    """Return the windows of an axis, with their numbers on a new one at the end."""
    axis %= x.ndim
    starts = torch.arange(0, x.shape[axis] - size + 1, step)
    places = starts[:, None] + torch.arange(size)
    found = x.index_select(axis, places.flatten())
    return found.unflatten(axis, places.shape).movedim(axis + 1, -1)


def _bags(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    _by_count: bool = False,
    mode: int = SUM,
    _sparse: bool = False,
    scales: Tensor | None = None,
    ends: bool = False,
    padding: int = -1,
) -> tuple[Tensor, ...]:
    """Return sums, means or largest of bags of embeddings, which begin at offsets."""
    number, bags = torch.arange(len(indices)), len(offsets) - ends
    bag = (number[:, None] >= offsets[1:]).sum(1)  # how many have ended; beyond all, if of none
    if padding >= 0:
        bag = torch.where(indices == padding, bags, bag)
    rows = torch.nn.functional.embedding(indices, weight)
    if scales is not None:
        rows = rows * scales[:, None]
    way = "sum" if mode == SUM else "mean" if mode == MEAN else "amax"
    empty = torch.zeros(bags + 1, rows.shape[1])
    result = placing.reduced(empty, 0, bag, rows, way, include_self=mode == SUM)[:bags]
    return result, offsets, offsets, offsets


def _resized_smoothly(
    operator: Any, x: Tensor, size: Sequence[int], corners: bool, *by: Any
) -> Any:
    """Return an image of another size, whose pixels are means of many: a product for either side.

    A product's numbers are what the same operator makes of an image with ones on its diagonal.
    """
    if x.shape[:2] == (1, 1) and x.shape[2] == x.shape[3] == size[0]:
        return NotImplemented  # such an image: `fold` computes what becomes of it
    for axis, (old, new) in enumerate(zip(x.shape[2:], size, strict=True)):
        ones = torch.eye(old)[None, None]
        mixed = operator(ones, [old, new], corners, None, by[axis] if by else None)[0, 0]
        x = mixed.T @ x if axis == 0 else x @ mixed
    return x


def _trilinear(
    x: Tensor, y: Tensor, z: Tensor, *axes: Sequence[int], unroll_dim: int = 1
) -> Tensor:
    """Return sums of products of three tensors, which get axes of length 1 where others have
    more."""
    *expanded, summed = axes
    wide = [
        reduce(Tensor.unsqueeze, new, part) for part, new in zip((x, y, z), expanded, strict=True)
    ]
    return (wide[0] * wide[1] * wide[2]).sum(summed)


def _distances(x: Tensor, y: Tensor, p: float, _mode: int | None) -> Tensor:
    """Return (..., n, m) distances of points (..., n, k) and (..., m, k)."""
    return torch.linalg.vector_norm(x[..., :, None, :] - y[..., None, :, :], p, -1)


def _adaptive_average(x: Tensor, sizes: Sequence[int]) -> Any:
    """Return means of windows that cover an image, by products with shares; TVM knows those that
    are all of one size."""
    if all(n % count == 0 for n, count in zip(x.shape[-2:], sizes, strict=True)):
        return NotImplemented
    for axis, count in zip((-2, -1), sizes, strict=True):
        n, place = x.shape[axis], torch.arange(x.shape[axis])
        window = torch.arange(count)[:, None]
        inside = (place >= window * n // count) & (place * count < (window + 1) * n)
        shares = inside / inside.sum(1, keepdim=True)
        x = (x.movedim(axis, -1) @ shares.T).movedim(-1, axis)
    return x


def _adaptive_max_pool(x: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return the largest of windows that cover an image; not where they are."""
    for axis, count in zip((-2, -1), sizes, strict=True):
        n = x.shape[axis]
        ends = [(k * n // count, -(-(k + 1) * n // count)) for k in range(count)]
        parts = [x.narrow(axis, a, b - a).amax(axis, keepdim=True) for a, b in ends]
        x = torch.cat(parts, axis)
    return x, torch.zeros_like(x, dtype=torch.int64)


def _rounded(x: Tensor, y: Any, *, rounding_mode: str | None) -> Any:
    """Return a rounded quotient; of integers, TVM reads it if both are tensors."""
    if x.is_floating_point():
        floor = rounding_mode == "floor"
        return torch.round((x - x.remainder(y)) / y) if floor else torch.trunc(x / y)
    if isinstance(y, Tensor):
        return NotImplemented
    return torch.div(x, torch.full((), y, dtype=x.dtype), rounding_mode=rounding_mode)


def _group_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    _batch: int,
    channels: int,
    _size: int,
    groups: int,
    epsilon: float,
) -> Any:
    """Return a group normalization (Wu and He 2018, equations 1 and 2) as a scale and a shift of
    each channel, from the means of channels, which vectors can go along."""
    space = [*range(2, x.ndim)]
    if not space:
        return NotImplemented
    mean, square = (
        part.mean(space).unflatten(1, (groups, -1)).mean(2, keepdim=True) for part in (x, x * x)
    )
    rate = torch.rsqrt((square - mean * mean).clamp(min=0) + epsilon)
    scale, shift = (
        part.expand(-1, -1, channels // groups).flatten(1) for part in (rate, -mean * rate)
    )
    if weight is not None:
        scale, shift = scale * weight, shift * weight
    if bias is not None:
        shift = shift + bias
    scale, shift = (part.reshape(*part.shape, *[1] * len(space)) for part in (scale, shift))
    return x * scale + shift, mean[..., 0], rate[..., 0]


def _variance_and_mean(x: Tensor, axes: Any = None, *, keepdim: bool = False, **how: Any) -> Any:
    variance = torch.var(x, axes, keepdim=keepdim, **how)
    return variance, torch.mean(x, axes, keepdim=keepdim)


def fold(exported: ExportedProgram) -> None:
    """Compute once what depends on no input and no weight: masks, places, frequencies."""
    graph, signature = exported.graph, exported.graph_signature
    places = signature.inputs_to_buffers | signature.inputs_to_lifted_tensor_constants
    values = {name: x for name, x in exported.named_buffers() if not x.is_floating_point()}
    values |= {name: exported.constants[name] for name in signature.lifted_tensor_constants}
    known: dict[Node, Any] = {}
    for node in graph.nodes:
        if node.op == "placeholder" and places.get(node.name) in values:
            known[node] = values[places[node.name]]
        elif node.op == "call_function" and known.keys() >= {*node.all_input_nodes}:
            value = node.meta.get("val")
            if isinstance(value, Tensor) and value.nbytes > MOST_FOLDED:
                continue
            arguments = map_arg((node.args, node.kwargs), known.__getitem__)
            known[node] = node.target(*arguments[0], **arguments[1])
    first = next(iter(graph.nodes))
    for node, value in known.items():
        users = {user for user in node.users if user not in known and user.op != "output"}
        if node.op == "placeholder" or not users or not isinstance(value, Tensor):
            continue
        with graph.inserting_before(first):
            first = graph.placeholder(f"constant_of_{node.name}")
        first.meta = {"val": node.meta["val"]}
        node.replace_all_uses_with(first, users.__contains__)
        exported.constants[first.name] = value.contiguous()
        place = TensorArgument(first.name)
        spec = InputSpec(InputKind.CONSTANT_TENSOR, place, first.name)
        signature.input_specs.insert(0, spec)
    graph.eliminate_dead_code()


def shorten(exported: ExportedProgram) -> None:
    """Give what places whole rows the indices that were expanded, and not what became of them."""
    for node in exported.graph.nodes:
        if node.target == torch.ops.tgraph.scattered.default:
            index = source = node.args[1]
            shape = index.meta["val"].shape
            while len(shape) == 1 and source.target in VIEWS:
                source = source.args[0]
                if source.meta["val"].shape == shape:
                    index = source
            node.update_arg(1, index)
    exported.graph.eliminate_dead_code()


def promote(exported: ExportedProgram) -> None:
    """Give operators that go element by element tensors of one type, as PyTorch promotes them."""
    for node in [*exported.graph.nodes]:
        if node.target in JOINS:
            node.args = _alike(node, node.args[0]), *node.args[1:]
        elif node.target == _aten.where.self:
            node.args = node.args[0], *_alike(node, node.args[1:])
        elif torch.Tag.pointwise in getattr(node.target, "tags", ()):
            node.args = tuple(_alike(node, node.args))


def _alike(node: Node, arguments: Sequence[Any]) -> list[Any]:
    """Return arguments of a node, its tensors of the type that it computes with."""
    kind = node.meta["val"].dtype
    nodes = [x for x in arguments if isinstance(x, Node)]
    tensors = [x for x in nodes if isinstance(x.meta["val"], Tensor)]  # others are numbers
    if kind == torch.bool and "logical" not in node.name:  # of a comparison
        types = [x.meta["val"].dtype for x in tensors]
        types += [torch.float32 for x in arguments if isinstance(x, float)]
        kind = reduce(torch.promote_types, types)

    def converted(x: Any) -> Any:
        """Return an argument, of that type if it is a tensor."""
        if x not in tensors or x.meta["val"].dtype == kind:
            return x
        with node.graph.inserting_before(node):
            result = node.graph.call_function(_aten._to_copy.default, (x,), {"dtype": kind})
        result.meta = {"val": x.meta["val"].to(kind)}
        return result

    return [converted(x) for x in arguments]
