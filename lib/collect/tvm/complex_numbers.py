"""Complex numbers as pairs of real ones: rotary embeddings as Meta's Llama has them, and spectra.

TVM has no complex numbers. PyTorch knows the parts of its operators, for a subclass of its tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.complex_tensor import ComplexTensor
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves, tree_map

from lib.collect.tvm.fourier import TRANSFORMS

_aten = torch.ops.aten
PARTS: dict[Any, Callable] = {
    **TRANSFORMS,
    _aten.complex.default: ComplexTensor,
    _aten.polar.default: lambda size, turn: ComplexTensor(size * turn.cos(), size * turn.sin()),
}


def in_pairs(exported: ExportedProgram, table: dict[Any, Callable]) -> None:
    """Compute with real numbers alone inside a program whose inputs and results are real.

    Args:
        exported: the program, which is changed.
        table: operators in parts, as the program has been taken into.

    Raises:
        TypeError: an operator has no parts, such as a long Fourier transform.
    """
    graph = exported.graph
    pairs: dict[Node, Node] = {}  # a complex tensor: a real one, with a last axis of two
    for node in [*graph.nodes]:
        value = node.meta.get("val")
        is_complex = isinstance(value, torch.Tensor) and value.is_complex()
        if node.op == "placeholder" and is_complex:
            name = exported.graph_signature.inputs_to_buffers.get(node.name, node.name)
            for kept in (exported.constants, exported.state_dict):
                if name in kept:
                    kept[name] = torch.view_as_real(kept[name])
                    node.meta["val"] = torch.view_as_real(value)
                    pairs[node] = node
        elif node.op == "call_function" and (is_complex or pairs.keys() & {*node.all_input_nodes}):
            if node.target in (_aten.view_as_complex.default, _aten.view_as_real.default):
                result = pairs.get(node.args[0], node.args[0])
            else:
                with graph.inserting_before(node):
                    result = _in_pairs(node, pairs, table)
            if is_complex:
                pairs[node] = result
            else:
                node.replace_all_uses_with(result)
    graph.eliminate_dead_code()
    exported.graph_module.recompile()


def _in_pairs(node: Node, pairs: dict[Node, Node], table: dict[Any, Callable]) -> Node:
    """Return a node before one that computes what it computes: a pair, if that is complex."""
    given = [x for x in tree_leaves((node.args, node.kwargs)) if isinstance(x, Node)]
    leaves = [pairs.get(x, x) for x in given]
    tags = getattr(node.target, "tags", ())
    takes_tensors = torch.Tag.pointwise in tags and str(node.target).endswith(".Tensor")

    def run(*values: torch.Tensor) -> torch.Tensor:
        """Run the node on real tensors."""
        left = iter(values)

        def value_of(x: Any) -> Any:
            """Return an argument. PyTorch would make a number where it takes tensors a constant of
            a module that is not the program's."""
            if isinstance(x, Node):
                value = next(left)
                return ComplexTensor(*value.unbind(-1)) if x in pairs else value
            if isinstance(x, complex):
                return ComplexTensor(torch.full((), x.real), torch.full((), x.imag))
            return torch.full((), float(x)) if isinstance(x, int | float) and takes_tensors else x

        args, kwargs = tree_map(value_of, (node.args, node.kwargs))
        if node.target == _aten._to_copy.default and given[0] not in pairs:
            result = ComplexTensor(args[0], torch.zeros_like(args[0]))
        else:
            result = PARTS.get(node.target, node.target)(*args, **kwargs)
        if isinstance(result, ComplexTensor):
            return torch.stack((result.re, result.im), -1)
        if result.is_complex():
            raise TypeError(f"{node.target}: complex numbers")
        return result

    traced = make_fx(run, table)(*(leaf.meta["val"] for leaf in leaves)).graph
    traced.eliminate_dead_code()
    copies = dict(zip(traced.find_nodes(op="placeholder"), leaves, strict=True))
    return node.graph.graph_copy(traced, copies)
