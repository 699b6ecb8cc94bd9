"""Networks in ONNX files: read by TVM's frontend, run by ONNX's own reference."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto

from lib.collect.tvm.sources import Source, one_line_of
from lib.files.errors import DataError


def read(path: Path, batch: int | None) -> tuple[ModelProto, tuple[np.ndarray, ...]]:
    """The network of a file, and example inputs: normal numbers, and 1 for integers.

    Args:
        path: the file.
        batch: what a first dimension without a size stands for; 1 if ``None``.

    Raises:
        UserError: it is no ONNX file, or an input has no size, or the size of another batch.
    """
    with one_line_of(str(path), "onnx cannot read it"):
        model = onnx.load(path)
        onnx.checker.check_model(model)
    generator = np.random.default_rng(0)
    inputs = []
    for tensor in _inputs(model):
        shape = _shape(path, tensor, batch)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.type.tensor_type.elem_type)
        if dtype.kind == "f" and dtype != np.float32:
            raise DataError(path, tensor.name, dtype, "float32, all that can be predicted")
        drawn = generator.standard_normal(shape) if dtype.kind == "f" else np.ones(shape)
        inputs.append(drawn.astype(dtype))
    return model, tuple(inputs)


def _inputs(model: ModelProto) -> list[Any]:
    """The inputs that are no weights."""
    weights = {weight.name for weight in model.graph.initializer}
    return [tensor for tensor in model.graph.input if tensor.name not in weights]


def _shape(path: Path, tensor: Any, batch: int | None) -> list[int]:
    """The sizes of an input."""
    sizes = []
    for number, dimension in enumerate(tensor.type.tensor_type.shape.dim):
        size = dimension.dim_value or (batch or 1 if number == 0 else 0)
        if size < 1:
            name = dimension.dim_param or "no name"
            raise DataError(path, tensor.name, f"dimension {number} without a size ({name})", "one")
        if number == 0 and batch is not None and size != batch:
            raise DataError(path, tensor.name, f"a batch of {size}", f"{batch}, or BATCH={size}")
        sizes.append(size)
    return sizes


def from_onnx(name: str, model: ModelProto, inputs: tuple[np.ndarray, ...]) -> Source:
    """A network of ONNX.

    Raises:
        UserError: TVM cannot read it; says which operator, and why.
    """
    from onnx.reference import ReferenceEvaluator
    from tvm.relax.frontend.onnx import from_onnx as relax_of

    def steps() -> Source:
        """The same with the results of all its steps that are numbers with fractions."""
        longer = copy.deepcopy(model)
        every = [output for node in model.graph.node for output in node.output if output]
        longer.graph.ClearField("output")
        longer.graph.output.extend(onnx.ValueInfoProto(name=output) for output in every)
        results = dict(zip(every, ReferenceEvaluator(longer).run(None, feeds), strict=True))
        floats = [o for o in every if getattr(results[o], "dtype", None) == np.float32]
        longer.graph.ClearField("output")
        longer.graph.output.extend(onnx.ValueInfoProto(name=output) for output in floats)
        return from_onnx(name, longer, inputs)

    names = [tensor.name for tensor in _inputs(model)]
    feeds = dict(zip(names, inputs, strict=True))
    with one_line_of(name, "TVM cannot read it"):
        shapes = {key: list(array.shape) for key, array in feeds.items()}
        types = {key: str(array.dtype) for key, array in feeds.items()}
        module = relax_of(model, shapes, types, keep_params_in_input=True)
    with one_line_of(name, "ONNX's reference cannot run it"):
        expected = ReferenceEvaluator(model).run(None, feeds)
    makers = {output: node for node in model.graph.node for output in node.output}
    return Source(
        original="ONNX's reference",
        module=module,
        inputs=inputs,
        weights=tuple(module["main"].attrs.get("params", ())),
        expected=tuple(expected),
        names=tuple(_place(makers.get(output.name)) for output in model.graph.output),
        steps=steps,
    )


def _place(node: Any) -> str:
    """An operator and its name in the file."""
    return " ".join(filter(None, [node.op_type, node.name])) if node else "an input"
