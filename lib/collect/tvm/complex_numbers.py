"""Complex numbers as pairs of real ones: rotary embeddings as Meta's Llama has them.

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

_aten = torch.ops.aten


def in_pairs(exported: ExportedProgram, table: dict[Any, Callable]) -> None:
    """Compute with real numbers alone inside a program whose inputs and results are real.

    Args:
        exported: the program, which is changed.
        table: operators in parts, as the program has been taken into.

    Raises:
        NotImplementedError: an operator has no parts, such as a Fourier transform.
    """
    graph = exported.graph
    parts: dict[Node, list[Node]] = {}
    for node in [*graph.nodes]:
        value = node.meta.get("val")
        is_complex = isinstance(value, torch.Tensor) and value.is_complex()
        if node.op == "placeholder" and is_complex:
            name = exported.graph_signature.inputs_to_buffers.get(node.name, node.name)
            for kept in (exported.constants, exported.state_dict):
                if name in kept:
                    kept[name] = torch.view_as_real(kept[name])
                    node.meta["val"] = torch.view_as_real(value)
                    parts[node] = [node]
        elif node.op == "call_function" and (is_complex or parts.keys() & {*node.all_input_nodes}):
            with graph.inserting_before(node):
                results = _in_pairs(node, parts, table)
            if is_complex:
                parts[node] = results
            else:
                node.replace_all_uses_with(*results)
    graph.eliminate_dead_code()
    exported.graph_module.recompile()


def _in_pairs(node: Node, parts: dict[Node, list[Node]], table: dict[Any, Callable]) -> list[Node]:
    """Return nodes before one that compute what it computes: its parts, if that is complex."""
    given = [x for x in tree_leaves((node.args, node.kwargs)) if isinstance(x, Node)]
    leaves = [leaf for x in given for leaf in parts.get(x, [x])]
    # PyTorch would make such a number a constant of a module that is not the program's.
    tags = getattr(node.target, "tags", ())
    takes_tensors = torch.Tag.pointwise in tags and str(node.target).endswith(".Tensor")

    def run(*values: torch.Tensor) -> list[torch.Tensor]:
        """Run the node on its real leaves."""
        left = iter(values)

        def value_of(x: Any) -> Any:
            if isinstance(x, complex):
                return ComplexTensor(torch.full((), x.real), torch.full((), x.imag))
            if isinstance(x, int | float) and takes_tensors:
                return torch.full((), float(x))
            if not isinstance(x, Node):
                return x
            tensors = [next(left) for _ in parts.get(x, [x])]
            if x not in parts:
                return tensors[0]
            return ComplexTensor(*(tensors if len(tensors) > 1 else tensors[0].unbind(-1)))

        args, kwargs = tree_map(value_of, (node.args, node.kwargs))
        if node.target is _aten.view_as_complex.default:
            result = ComplexTensor(*args[0].unbind(-1))
        elif node.target is _aten.view_as_real.default:
            result = torch.stack((args[0].re, args[0].im), -1)
        else:
            result = node.target(*args, **kwargs)
        if isinstance(result, ComplexTensor):
            return [result.re, result.im]
        if result.is_complex():
            raise NotImplementedError(f"{node.target}: complex numbers")
        return [result]

    traced = make_fx(run, table)(*(leaf.meta["val"] for leaf in leaves)).graph
    traced.eliminate_dead_code()
    copies = dict(zip(traced.find_nodes(op="placeholder"), leaves, strict=True))
    return node.graph.graph_copy(traced, copies)
