"""A network as TVM's frontends read it, and what the original computes from its example inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind, OutputSpec, TensorArgument

from lib.collect.tvm.archives import load
from lib.collect.tvm.complex_numbers import in_pairs
from lib.collect.tvm.operators import decompositions, fold, promote, shorten
from lib.collect.tvm.reasons import one_line_of, place_of
from lib.collect.tvm.rewriting import rewrite
from lib.files.errors import DataError, UserError

if TYPE_CHECKING:
    from tvm import relax
    from tvm.ir import IRModule

# Operators that TVM is given whole, because the programs of data/programs-cpu were found that way:
# in parts, the tasks would differ. Other operators become PyTorch's smaller operators first: TVM's
# reading of whole operators is wrong for some (batch_norm) and absent for more.
_aten = torch.ops.aten
WHOLE = {
    _aten.avg_pool1d.default,
    _aten.conv1d.default,
    _aten.conv2d.default,
    _aten.conv3d.default,
    _aten.conv_transpose2d.input,
    _aten.conv_transpose3d.input,
    _aten.hardswish.default,
    _aten.layer_norm.default,
    _aten.linear.default,
    _aten.max_pool2d.default,
    _aten.max_pool3d.default,
    _aten.selu.default,
    _aten.silu.default,
    _aten.softmax.int,
    _aten.transpose.int,
    _aten.unbind.int,
    _aten.zeros_like.default,
}


@dataclass(frozen=True)
class Source:
    """A network in relax, with example inputs and expected results.

    Attributes:
        original: what ran it to get ``expected``.
        module: the network in relax.
        inputs: the example inputs.
        weights: in the order of the module's arguments after the inputs.
        expected: what the original computes.
        names: of the results, the operators and layers that they come from.
        steps: the same network, with the results of all its steps.
    """

    original: str
    module: IRModule
    inputs: tuple[np.ndarray, ...]
    weights: tuple[Any, ...]
    expected: tuple[np.ndarray, ...]
    names: tuple[str, ...]
    steps: Callable[[], Source]


def read_exported(path: Path, batch: int | None) -> tuple[ExportedProgram, tuple]:
    """Return the network of a file that ``torch.export.save`` has written, and example inputs.

    Raises:
        UserError: it is no such file, or of another batch.
    """
    exported = load(path)
    inputs, keywords = exported.example_inputs
    if exported.range_constraints and not keywords:
        inputs = _resized(exported, inputs, batch)
        with one_line_of(str(path), "torch.export cannot give it the sizes of its example"):
            exported = torch.export.export(exported.module(), inputs)
    size = inputs[0].shape[0] if inputs and inputs[0].ndim else batch
    if keywords or size != (batch or size):
        expected = f"{batch}, or BATCH={size}; arguments without names"
        raise DataError(path, "example inputs", f"a batch of {size}, names {[*keywords]}", expected)
    return exported, inputs


def _resized(exported: ExportedProgram, inputs: tuple, batch: int | None) -> tuple:
    """Return example inputs with as many rows as a batch has, where their number is free."""
    nodes = [node for node in exported.graph.nodes if node.op == "placeholder"]
    shapes = {node.name: getattr(node.meta["val"], "shape", ()) for node in nodes}
    free = [
        tensor.ndim > 0 and isinstance(shapes[name][0], torch.SymInt)
        for name, tensor in zip(exported.graph_signature.user_inputs, inputs, strict=True)
    ]
    return tuple(
        tensor[torch.arange(batch) % len(tensor)] if resized and batch else tensor
        for tensor, resized in zip(inputs, free, strict=True)
    )


def from_torch(name: str, module: torch.nn.Module | ExportedProgram, inputs: tuple) -> Source:
    """Return a network of PyTorch, as :mod:`lib.collect.tvm.rewriting` has it.

    Raises:
        UserError: ``torch.export`` or TVM cannot read it; says which operator, and why.
    """
    for tensor in [*module.parameters(), *module.buffers(), *_tensors(inputs)]:
        if tensor.is_floating_point() and tensor.dtype != torch.float32:
            kind = str(tensor.dtype).removeprefix("torch.")
            raise UserError(f"{name}: {kind}: programs are of float32 alone; add .float()")
    with one_line_of(name, "torch.export cannot read it"):
        original = module.module() if isinstance(module, ExportedProgram) else module.eval()
        expected = _computed(original, inputs)  # first: some keep what they make of a shape
        if isinstance(module, ExportedProgram):
            exported = module
        else:
            with patch.object(torch.nn.modules.transformer, "_detect_is_causal_mask", _is_causal):
                exported = torch.export.export(module, inputs)
        table = torch.export.default_decompositions()
        for operator in WHOLE & table.keys():
            table.pop(operator)
        table.update(decompositions())
        rewrite(exported)
        exported = exported.run_decompositions(table)
        shorten(exported)
        fold(exported)  # polar numbers, of which no pairs are made
        in_pairs(exported, table)
        fold(exported)  # waves of Fourier transforms
        promote(exported)
        for node in exported.graph.nodes:
            if node.target == _aten.select.int:  # x[-1]: TVM would read memory before the tensor
                tensor, axis, index = node.args
                node.args = tensor, axis, index % tensor.meta["val"].shape[axis]
            elif node.target == _aten.cat.default:  # a cache begins with a tensor of one axis
                full = [x for x in node.args[0] if x.meta["val"].shape != (0,)]
                node.args = full or node.args[0], *node.args[1:]
    return _exported(name, exported, expected, inputs)


def _is_causal(_mask: torch.Tensor, said: bool | None = None, _size: int | None = None) -> bool:
    """Return whether a mask of ``nn.Transformer`` is said to be causal. PyTorch looks at its
    values, of which ``torch.export`` knows nothing; a mask that is added computes the same."""
    return bool(said)


def _layer_norm(node: torch.fx.Node, importer: Any) -> relax.Var:
    """Return a layer normalization, which TVM by itself cannot read without a weight or bias."""
    defaults = (None, None, 1e-5)[len(node.args) - 2 :]
    x, shape, weight, bias, epsilon, *_ = (*importer.retrieve_args(node), *defaults)
    return importer._layer_norm_impl(x, weight, bias, epsilon, shape)


def _reduced(operator: str, node: torch.fx.Node, importer: Any) -> relax.Var:
    """Return the largest, least or product along some axes, or all."""
    from tvm import relax

    given = importer.retrieve_args(node)
    x, axes, keeps = *given, *((), False)[len(given) - 1 :]
    return importer.block_builder.emit(getattr(relax.op, operator)(x, axes or None, keeps))


def _zeros(node: torch.fx.Node, importer: Any) -> relax.Var:
    """Return zeros of the type that is asked for, where TVM's are of the tensor's."""
    from tvm import relax

    (x,), kind = importer.retrieve_args(node), str(node.meta["val"].dtype)
    return importer.block_builder.emit(relax.op.zeros_like(x, kind.removeprefix("torch.")))


def _attention(node: torch.fx.Node, importer: Any) -> relax.Var:
    """Return attention as one program."""
    from lib.collect.tvm.attention import attention

    return importer.block_builder.emit_te(attention, *importer.retrieve_args(node))


def _scattered(node: torch.fx.Node, importer: Any) -> relax.Var:
    """Return rows at their places as one program."""
    from tvm import relax

    from lib.collect.tvm.scattering import scattered

    *tensors, way = importer.retrieve_args(node)
    shapes = [[int(n) for n in tensor.ty.shape] for tensor in tensors]
    program = scattered(shapes[0], shapes[1], str(tensors[0].ty.dtype), way)
    name = importer.block_builder.add_func(program, "scattered")
    return importer.block_builder.emit(relax.call_tir(name, tensors, tensors[0].ty))


def _transposed_volume(node: torch.fx.Node, importer: Any) -> relax.Var:
    """Return a transposed convolution of volumes."""
    from tvm import relax

    given = importer.retrieve_args(node)
    x, weight, bias, *how = *given, *(None, 1, 0, 0, 1, 1)[len(given) - 2 :]
    named = zip(("strides", "padding", "output_padding", "groups", "dilation"), how, strict=True)
    y = importer.block_builder.emit(relax.op.nn.conv3d_transpose(x, weight, **dict(named)))
    if bias is None:
        return y
    return importer.block_builder.emit(y + relax.op.reshape(bias, [1, -1, 1, 1, 1]))


CONVERTED = {
    "attention.default": _attention,
    "conv_transpose3d.input": _transposed_volume,
    "layer_norm.default": _layer_norm,
    "scattered.default": _scattered,
    "zeros_like.default": _zeros,
    "amax.default": partial(_reduced, "max"),
    "amin.default": partial(_reduced, "min"),
    "prod.dim_int": partial(_reduced, "prod"),
}


def _exported(name: str, exported: ExportedProgram, expected: tuple, inputs: tuple) -> Source:
    """Return a program of ``torch.export``."""
    from tvm.relax.frontend.torch import from_exported_program

    def steps() -> Source:
        """Return the same with all results."""
        longer = _with_all_results(exported)
        return _exported(name, longer, _computed(longer.module(), inputs), inputs)

    if changed := ", ".join(exported.graph_signature.buffers_to_mutate.values()):
        advice = "a library remembers nothing: take them as inputs and return them"
        raise UserError(f"{name}: changes its buffers {changed}: {advice}")
    if None in exported.graph.output_node().args[0]:
        raise UserError(f"{name}: one of its results is None: return tensors alone")
    with one_line_of(name, "TVM cannot read it"):
        program = from_exported_program(
            exported,
            keep_params_as_input=True,
            custom_convert_map=CONVERTED,
            run_ep_decomposition=False,
        )
    return Source(
        original="torch",
        module=program,
        inputs=tuple(tensor.numpy(force=True) for tensor in _tensors(inputs)),
        weights=tuple(program["main"].attrs.get("params", ())),
        expected=expected,
        names=tuple(map(place_of, exported.graph.output_node().args[0])),
        steps=steps,
    )


def _computed(module: Callable, inputs: tuple) -> tuple[np.ndarray, ...]:
    """Return results of a network; without PyTorch's fast path of ``nn.TransformerEncoder``, which
    makes zeros of what a mask says is padding, where ``torch.export`` has numbers of no use."""
    with patch.object(torch.backends.mha, "_is_fastpath_enabled", False):
        given = torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, inputs)
        return tuple(tensor.numpy(force=True) for tensor in _tensors(module(*given)))


def _tensors(nested: Any) -> list[torch.Tensor]:
    """Return the tensors of nested tuples, in their order."""
    leaves = torch.utils._pytree.tree_leaves(nested)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _with_all_results(exported: ExportedProgram) -> ExportedProgram:
    """Return the program, changed so that its results are those of all its steps."""
    longer = exported  # a copy would rename its arguments
    steps = [
        node
        for node in longer.graph.nodes
        if node.op == "call_function" and isinstance(node.meta.get("val"), torch.Tensor)
    ]
    longer.graph.output_node().args = (tuple(steps),)
    longer.graph_signature.output_specs[:] = [
        OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in steps
    ]
    tree = torch.utils._pytree.tree_flatten(tuple(range(len(steps))))[1]
    call = longer.module_call_graph[0].signature
    call.out_spec, call.outputs = tree, [TensorArgument(node.name) for node in steps]
    longer.graph_module.recompile()
    return longer
