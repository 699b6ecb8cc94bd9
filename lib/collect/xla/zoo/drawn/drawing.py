"""How networks are drawn from grammars of blocks, each from its seed, and sized to run shortly.

A *grammar* says how a network of one family is drawn, all but its size. The size is then chosen so
that an estimate of its runtime comes near a drawn runtime. Nothing is compiled for that.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from lib.collect.xla.zoo.program import Input, Loss, ZooProgram, flax_program

MILLISECONDS = (1.5, 5.0)  # of a run, drawn evenly between their logarithms
TRAINED = 0.15  # share of the networks of which a training step is measured: they compile slowly
# What one core with AVX-512 (Zen 5) was measured to do; with half of it a core takes twice as long.
OPERATIONS_SECOND = 2e11  # of a dense product or convolution
GROUPED_SECOND = 8e8  # of a convolution in groups, which XLA:CPU does not hand to a fast library
ELEMENTS_SECOND = 1e10  # of everything else
Option = TypeVar("Option")


class Drawing:
    """Random choices.

    Attributes:
        train: whether it is a training step, which is larger than a forward pass.
    """

    def __init__(self, seed: int):
        self.generator = np.random.default_rng(seed)
        self.train = self.chance(TRAINED)

    def pick(self, *options: Option) -> Option:
        """Any of them."""
        return options[int(self.generator.integers(len(options)))]

    def number(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``."""
        return int(self.generator.integers(low, high + 1))

    def chance(self, share: float) -> bool:
        """True in so many of all cases."""
        return bool(self.generator.random() < share)

    def between(self, low: float, high: float) -> float:
        """A number whose logarithm is drawn evenly."""
        return float(np.exp(self.generator.uniform(np.log(low), np.log(high))))


@dataclass(frozen=True)
class Network:
    """A network of one size.

    Attributes:
        module: flax's.
        inputs: of a call.
        loss: of a training step, see :func:`lib.collect.xla.zoo.program.flax_program`.
    """

    module: Any
    inputs: tuple[Input, ...]
    loss: Loss


# Draws all but the size, and gives the network of each of some sizes, small ones first.
Grammar = Callable[[Drawing], Sequence[Callable[[], Network]]]


def drawn_program(family: str, source: str, grammar: Grammar, number: int) -> ZooProgram:
    """The program of a family that its number stands for; drawn and sized when it is built."""
    seed = zlib.crc32(f"{family}.{number}".encode())
    mode = "train" if Drawing(seed).train else "forward"
    variant = f"n{number}"

    def build() -> tuple[Callable, tuple]:
        drawing = Drawing(seed)
        seconds = drawing.between(*MILLISECONDS) / 1e3
        network = largest_within(grammar(drawing), mode, seconds)
        about = (family, source, variant, network.module, network.inputs, mode, network.loss)
        return flax_program(*about).build()

    return ZooProgram(f"{family}.{variant}.{mode}", family, source, build)


def largest_within(sizes: Sequence[Callable[[], Network]], mode: str, seconds: float) -> Network:
    """The largest network that is estimated to take no more than ``seconds``, or the smallest.

    Args:
        sizes: small networks first.
        mode: ``forward`` or ``train``.
        seconds: seconds of a run.
    """
    low, high = 0, len(sizes)
    while high - low > 1:
        middle = (low + high) // 2
        fits = estimated_seconds(sizes[middle](), mode) <= seconds
        low, high = (middle, high) if fits else (low, middle)
    return sizes[low]()


def estimated_seconds(network: Network, mode: str) -> float:
    """About what a run takes, from the shapes of its operations."""
    import jax

    key = jax.ShapeDtypeStruct((2,), np.uint32)
    values = [
        jax.ShapeDtypeStruct(tensor.shape, np.int32 if tensor.classes else np.float32)
        for tensor in network.inputs
    ]
    variables = jax.eval_shape(network.module.init, key, *values)
    program = jax.make_jaxpr(network.module.apply)(variables, *values)
    forward = sum(map(_seconds, _equations(program.jaxpr)))
    return 3 * forward if mode == "train" else forward


def _equations(jaxpr: Any) -> list[Any]:
    """Of a program and all that it calls."""
    equations = []
    for equation in jaxpr.eqns:
        inner = [p for p in equation.params.values() if hasattr(p, "jaxpr") or hasattr(p, "eqns")]
        for called in inner:
            equations += _equations(getattr(called, "jaxpr", called))
        if not inner:
            equations.append(equation)
    return equations


def _seconds(equation: Any) -> float:
    """About what an operation takes."""
    elements = sum(math.prod(output.aval.shape) for output in equation.outvars)
    name, parameters = equation.primitive.name, equation.params
    if name == "dot_general":
        (contracted, _), _ = parameters["dimension_numbers"]
        shape = equation.invars[0].aval.shape
        return 2 * elements * math.prod(shape[k] for k in contracted) / OPERATIONS_SECOND
    if name == "conv_general_dilated":
        kernel, numbers = equation.invars[1].aval.shape, parameters["dimension_numbers"]
        reduced = math.prod(kernel) / kernel[numbers.rhs_spec[0]]
        grouped = parameters["feature_group_count"] > 1
        return 2 * elements * reduced / (GROUPED_SECOND if grouped else OPERATIONS_SECOND)
    return elements / ELEMENTS_SECOND
