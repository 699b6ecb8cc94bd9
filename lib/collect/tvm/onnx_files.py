"""Networks in ONNX files: made simple and run by ONNX Runtime, read by TVM's frontend."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import onnx.version_converter
from onnx import ModelProto, NodeProto, TensorProto

from lib.collect.tvm.reasons import one_line_of
from lib.collect.tvm.recurrent import KINDS, unrolled
from lib.collect.tvm.sources import Source
from lib.files.errors import DataError, UserError

OPSET, IR = 17, 8
MOST_SIZES = 16  # numbers, such as those to pad all axes with
# Operators that ONNX itself writes in others, and that TVM does not know.
IN_PARTS = {"Attention", "Celu", "CenterCropPad", "GroupNormalization", "RotaryEmbedding"}


def read(
    path: Path, batch: int | None, shape: str = ""
) -> tuple[ModelProto, tuple[np.ndarray, ...]]:
    """Return the network of a file, and example inputs: normal numbers, and 1 for integers.

    Args:
        path: the file.
        batch: what a first dimension without a size stands for; 1 if ``None``.
        shape: names and sizes of other dimensions, ``sequence_length=128,past+1=129``.

    Raises:
        UserError: it is no ONNX file, or an input has no size, or the size of another batch.
    """
    with one_line_of(str(path), "onnx cannot read it"):
        model = onnx.load(path)
        onnx.checker.check_model(model)
        model = prepared(model)
    sizes = _sizes(path, model, batch, shape)
    generator = np.random.default_rng(0)
    inputs = []
    for tensor in model.graph.input:
        if not tensor.type.HasField("tensor_type"):
            raise DataError(path, tensor.name, tensor.type.WhichOneof("value"), "a tensor")
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.type.tensor_type.elem_type)
        if dtype.kind == "f" and dtype != np.float32:
            raise DataError(path, tensor.name, dtype, "float32, all that can be predicted")
        size = sizes[tensor.name]
        drawn = generator.standard_normal(size) if dtype.kind == "f" else np.ones(size)
        inputs.append(drawn.astype(dtype))
    return model, tuple(inputs)


def by_steps(model: ModelProto, inputs: dict[str, np.ndarray]) -> ModelProto:
    """Return a network whose recurrent layers are taken into the steps that such inputs have."""
    if not KINDS.keys() & {node.op_type for node in model.graph.node}:
        return model
    layers = [node for node in model.graph.node if node.op_type in KINDS]
    read = {name for node in layers for name in (node.input[0], *node.input[4:5]) if name}
    names = sorted(read)  # of what layers read, and of the lengths of sequences
    values = dict(zip(names, results_of(_giving(model, names), inputs), strict=True))
    nodes: list[NodeProto] = []
    for node in model.graph.node:
        if node.op_type in KINDS:
            lengths = [values[name] for name in node.input[4:5] if name]
            nodes += unrolled(node, values[node.input[0]].shape, *lengths)
        else:
            nodes.append(node)
    longer = copy.deepcopy(model)
    _replace(longer.graph.node, nodes)
    return longer


def _giving(model: ModelProto, names: Iterable[str]) -> ModelProto:
    """Return a copy of a network, with other results."""
    other = copy.deepcopy(model)
    _replace(other.graph.output, (onnx.ValueInfoProto(name=name) for name in names))
    return other


def simple(model: ModelProto, inputs: dict[str, np.ndarray]) -> ModelProto:
    """Return a network for inputs of these shapes, in ONNX's operators, without those that depend
    on shapes or weights alone."""
    model = copy.deepcopy(model)
    for tensor in model.graph.input:
        sizes = tensor.type.tensor_type.shape.dim
        for size, number in zip(sizes, inputs[tensor.name].shape, strict=True):
            size.dim_value = number
    for tensor in model.graph.output:
        tensor.ClearField("type")
    model.graph.ClearField("value_info")
    if IN_PARTS & {node.op_type for node in model.graph.node}:
        model.graph.value_info.extend(
            onnx.helper.make_tensor_value_info(x.name, x.data_type, x.dims)
            for x in model.graph.initializer
        )
        model = onnx.shape_inference.infer_shapes(model)
        functions = [("", name) for name in sorted(IN_PARTS)]
        inline = onnx.inliner.inline_selected_functions
        model = inline(model, functions, inline_schema_functions=True)
    with TemporaryDirectory() as folder:
        path = Path(folder, "simple.onnx")
        session(model, simple_as=path)
        return _with_sizes(onnx.load(path))


def _with_sizes(model: ModelProto) -> ModelProto:
    """Return a network whose single numbers, sizes and scales are constants: TVM makes arguments of
    weights, and has to know sizes."""
    scales = {x for node in model.graph.node if node.op_type == "Resize" for x in node.input[1:3]}
    weights, constants = [], []
    for x in model.graph.initializer:
        count = math.prod(x.dims)
        sizes = x.data_type != TensorProto.FLOAT or x.name in scales
        if count < 2 or (sizes and count <= MOST_SIZES):
            constants.append(onnx.helper.make_node("Constant", [], [x.name], value=x))
        else:
            weights.append(x)
    _replace(model.graph.initializer, weights)
    _replace(model.graph.node, [*constants, *model.graph.node])
    return model


def prepared(model: ModelProto) -> ModelProto:
    """Return a network in a form that TVM and ONNX Runtime both read right.

    Weights that are inputs as well, as in every older file, are weights. Operators of older sets,
    such as normalizations and softmax, become those of :data:`OPSET`. Functions become their
    operators. Dropout does nothing.
    """
    weights = {weight.name for weight in model.graph.initializer}
    inputs = [tensor for tensor in model.graph.input if tensor.name not in weights]
    _replace(model.graph.input, inputs)
    model.ir_version = max(model.ir_version, IR)
    if any(one.domain in ("", "ai.onnx") and one.version < OPSET for one in model.opset_import):
        model = onnx.version_converter.convert_version(model, OPSET)
    model = onnx.inliner.inline_local_functions(model)
    used = {name for node in model.graph.node for name in node.input}
    used |= {tensor.name for tensor in model.graph.output}
    for node in model.graph.node:
        if node.op_type == "Dropout" and not used & {*node.output[1:]}:
            own = node.input[0], node.output[0]
            node.CopyFrom(onnx.helper.make_node("Identity", own[:1], own[1:]))
    return model


def _replace(repeated: Any, values: Iterable[Any]) -> None:
    """Put messages in the place of those of a field."""
    values = [*values]
    del repeated[:]
    repeated.extend(values)


def _sizes(path: Path, model: ModelProto, batch: int | None, shape: str) -> dict[str, list[int]]:
    """Return the sizes of each input; ``shape`` has those of free dimensions."""
    try:
        given = {name: int(size) for name, size in (x.split("=") for x in shape.split(",") if x)}
    except ValueError:
        raise UserError(f"SHAPE={shape}: must be names and sizes, such as n=128,m=1") from None
    sizes: dict[str, list[int]] = {tensor.name: [] for tensor in model.graph.input}
    free: dict[str, int] = {}  # free dimensions, and their sizes; 0 for those that have none
    for tensor in model.graph.input:
        for number, dimension in enumerate(tensor.type.tensor_type.shape.dim):
            size = dimension.dim_value
            if not size:
                name = dimension.dim_param.replace(" ", "") or f"{tensor.name}.{number}"
                size = free[name] = given.get(name, 0 if number else batch or 1)
            elif number == 0 and batch not in (None, size):
                expected = f"{batch}, or BATCH={size}"
                raise DataError(path, tensor.name, f"a batch of {size}", expected)
            sizes[tensor.name].append(size)
    if given.keys() - free.keys() or 0 in free.values():
        found = f"{shape or 'no size'} for {', '.join(free) or 'no free dimension'}"
        example = ",".join(f"{name}={size or 128}" for name, size in free.items())
        raise DataError(path, "SHAPE", found, f"SHAPE={example}" if free else "none")
    return sizes


def from_onnx(name: str, model: ModelProto, inputs: tuple[np.ndarray, ...]) -> Source:
    """Return a network of ONNX.

    Raises:
        UserError: TVM cannot read it; says which operator, and why.
    """
    relax_of = _frontend()

    def steps() -> Source:
        """Return the same with the results of all its steps that are numbers with fractions."""
        every = [output for node in model.graph.node for output in node.output if output]
        results = dict(zip(every, results_of(_giving(model, every), feeds), strict=True))
        floats = [o for o in every if getattr(results[o], "dtype", None) == np.float32]
        return from_onnx(name, _giving(model, floats), inputs)

    feeds = dict(zip((tensor.name for tensor in model.graph.input), inputs, strict=True))
    with one_line_of(name, "ONNX Runtime cannot run it"):
        expected = results_of(model, feeds)
        if any(not isinstance(result, np.ndarray) for result in expected):
            raise UserError(f"{name}: one of its results is no tensor")
    with one_line_of(name, "a recurrent layer has what is not read"):
        model = by_steps(model, feeds)
    with one_line_of(name, "ONNX Runtime cannot make it simple"):
        model = simple(model, feeds)
    makers = {output: node for node in model.graph.node for output in node.output}
    with one_line_of(name, "TVM cannot read it"):
        shapes = {key: list(array.shape) for key, array in feeds.items()}
        types = {key: str(array.dtype) for key, array in feeds.items()}
        module = relax_of(model, shapes, types, keep_params_in_input=True)
    return Source(
        original="ONNX Runtime",
        module=module,
        inputs=inputs,
        weights=tuple(module["main"].attrs.get("params", ())),
        expected=tuple(expected),
        names=tuple(_place(makers.get(output.name)) for output in model.graph.output),
        steps=steps,
    )


def results_of(model: ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Return what ONNX Runtime computes."""
    return session(model).run(None, inputs)


def session(model: ModelProto, threads: int = 1, simple_as: Path | None = None) -> Any:
    """Return ONNX Runtime's session of a network, which is written as ONNX if a path is given."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3  # errors alone, which are raised as well
    if simple_as:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(simple_as)
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def _frontend() -> Callable[..., Any]:
    """Return TVM's frontend, which takes sums, means, maxima and minima of two tensors at a time.

    By itself it stacks the tensors, and TVM's change of layouts fails at a stack.
    """
    from tvm.relax.frontend.onnx import from_onnx as relax_of
    from tvm.relax.frontend.onnx import onnx_frontend as frontend

    def in_turn(operator: Any, builder: Any, inputs: Iterable[Any], *_: Any) -> Any:
        return operator._impl_dynamic(builder, list(inputs))

    for operator in (frontend.Sum, frontend.Max, frontend.Min, frontend.Mean):
        operator._impl_v1 = classmethod(in_turn)
    return relax_of


def _place(node: Any) -> str:
    """Return an operator and its name in the file."""
    return " ".join(filter(None, [node.op_type, node.name])) if node else "an input"
