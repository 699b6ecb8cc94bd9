"""What one measured program is, and how a flax module becomes one."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Loss = str | tuple[str, ...]


@dataclass(frozen=True)
class ZooProgram:
    """One program to measure: its name, and how to build the function and its arguments.

    `build()` returns `(function, arguments)`: a pure JAX function and a tuple of positional
    arguments (pytrees of numpy arrays), the parameters first, so that they are not constants.
    Nothing is traced or allocated before `build` is called, and it always gives the same values.
    """

    name: str  # f"{family}.{variant}.{forward|train}", [a-z0-9_.] only, unique in the zoo
    family: str
    source: str  # "xla" or "nlp"
    build: Callable[[], tuple[Callable, tuple]]


@dataclass(frozen=True)
class Input:
    """One input: float32 normals, or int32 in [0, classes) where `classes` is given."""

    shape: tuple[int, ...]
    classes: int = 0

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """The input's concrete values."""
        if self.classes:
            return rng.integers(0, self.classes, self.shape, dtype=np.int32)
        return rng.standard_normal(self.shape, dtype=np.float32)


def flax_program(
    family: str,
    source: str,
    variant: str,
    module: Any,
    inputs: tuple[Input, ...],
    mode: str,
    loss: Loss = "cross_entropy",
) -> ZooProgram:
    """A flax.linen module as a program, its forward pass or one training step's gradients.

    `mode` "forward": function(variables, *inputs) -> outputs. `mode` "train":
    function(variables, *inputs, targets) -> (loss, gradients of variables["params"]).
    `loss` is "cross_entropy" (int32 labels over the output's last axis) or "mean_square"
    (a float32 target of the output's shape); a module with a tuple of outputs takes a tuple of
    losses, one an output. The targets are drawn here, so `inputs` must not hold them.
    """
    if mode not in ("forward", "train"):
        raise ValueError(f"mode must be 'forward' or 'train', not {mode!r}")
    name = f"{family}.{variant}.{mode}"

    def build() -> tuple[Callable, tuple]:
        """The function to compile and its arguments."""
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        values = tuple(spec.sample(rng) for spec in inputs)
        variables = _sample_variables(module, values, rng)
        if mode == "forward":
            return module.apply, (variables, *values)
        targets = _sample_targets(module, variables, values, loss, rng)
        return _training_step(module, loss), (variables, *values, targets)

    return ZooProgram(name, family, source, build)


def _sample_variables(module: Any, values: tuple, rng: np.random.Generator) -> dict:
    """Seeded numpy values for every variable; only shapes are traced, nothing is compiled."""
    import jax

    key = jax.ShapeDtypeStruct((2,), np.uint32)
    shapes = jax.eval_shape(module.init, key, *values)
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: _sample_leaf(path[-1].key, leaf.shape, rng), shapes
    )


def _sample_leaf(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """One variable: weights by 1/sqrt(fan in), norm scales and variances near 1, biases small."""
    normal = rng.standard_normal(shape, dtype=np.float32)
    if name == "scale":
        return 1 + np.float32(0.1) * normal
    if name == "var":
        return 1 + np.float32(0.1) * np.abs(normal)
    if name in ("bias", "mean") or len(shape) < 2:
        return np.float32(0.1) * normal
    fan_in = shape[-1] if name == "embedding" else int(np.prod(shape[:-1]))
    return normal / np.float32(np.sqrt(fan_in))


def _sample_targets(
    module: Any, variables: dict, values: tuple, loss: Loss, rng: np.random.Generator
) -> tuple:
    """One target an output: class labels, or values to regress on."""
    import jax

    outputs = _as_tuple(jax.eval_shape(module.apply, variables, *values))
    kinds = _as_tuple(loss)
    if len(outputs) != len(kinds):
        raise ValueError(f"{len(outputs)} outputs but {len(kinds)} losses")
    return tuple(
        Input(output.shape[:-1], output.shape[-1]).sample(rng)
        if kind == "cross_entropy"
        else Input(output.shape).sample(rng)
        for output, kind in zip(outputs, kinds, strict=True)
    )


def _training_step(module: Any, loss: Loss) -> Callable:
    """function(variables, *inputs, targets) -> (loss, gradients of the parameters)."""
    import jax

    def total(params: dict, rest: dict, inputs: tuple, targets: tuple) -> Any:
        outputs = _as_tuple(module.apply({"params": params, **rest}, *inputs))
        terms = zip(_as_tuple(loss), outputs, targets, strict=True)
        return sum(_LOSSES[kind](output, target) for kind, output, target in terms)

    def step(variables: dict, *inputs: Any) -> tuple:
        rest = {name: value for name, value in variables.items() if name != "params"}
        return jax.value_and_grad(total)(variables["params"], rest, inputs[:-1], inputs[-1])

    return step


def _cross_entropy(logits: Any, labels: Any) -> Any:
    """Mean cross-entropy, by a one-hot product as most training code writes it."""
    import jax

    hot = jax.nn.one_hot(labels, logits.shape[-1])
    return -(hot * jax.nn.log_softmax(logits)).sum(-1).mean()


def _mean_square(output: Any, target: Any) -> Any:
    """Mean squared error."""
    return ((output - target) ** 2).mean()


_LOSSES = {"cross_entropy": _cross_entropy, "mean_square": _mean_square}


def _as_tuple(value: Any) -> tuple:
    """A tuple as it is, anything else as a tuple of one."""
    return value if isinstance(value, tuple) else (value,)
