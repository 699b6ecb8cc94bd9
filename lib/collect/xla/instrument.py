"""Programs whose convolutions, dots and reshapes take their layouts from a configuration.

A JAX function is traced to a jaxpr, calls are inlined, dead code is dropped, and the flat jaxpr
is evaluated again with ``with_layout_constraint`` around each *site* (a ``conv_general_dilated``,
``dot_general`` or ``reshape``). XLA must then honour the layouts and inserts the copies that
they cost, as the TPU compiler does in TpuGraphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.experimental.layout import Layout, with_layout_constraint
from jax.extend import core

from lib.tpugraphs.drawing import MAX_RANK, SLOTS

SITE_OPCODES = {"conv_general_dilated": "convolution", "dot_general": "dot", "reshape": "reshape"}
INLINED = (
    "jit",
    "pjit",
    "closed_call",
    "core_call",
    "custom_jvp",
    "custom_vjp",
    "remat",
    "checkpoint",
)


@dataclass(frozen=True)
class Site:
    """One operation whose layouts can be set.

    Attributes:
        equation: its index among the flat jaxpr's equations.
        opcode: the HLO opcode it becomes: ``convolution``, ``dot`` or ``reshape``.
        shape: the output's shape.
        ranks: rank of output, input and kernel; 0 where the tensor is absent or has a single
            possible layout, so that nothing can be chosen.
    """

    equation: int
    opcode: str
    shape: tuple[int, ...]
    ranks: tuple[int, int, int]


@dataclass(frozen=True)
class TracedProgram:
    """A flat, call-free program, and the sites in it."""

    jaxpr: Any  # jax.extend.core.ClosedJaxpr
    sites: tuple[Site, ...]

    def configured(self, configuration: np.ndarray | None) -> Callable[..., list]:
        """The program under ``configuration``, a function of the flat arguments.

        Args:
            configuration: (sites, 3, 6) int8, minor-to-major, padded with -1; a tensor of only
                -1 is left to the compiler. ``None`` gives the plain program, whose sites carry
                the scope ``site<k>`` in their metadata and nothing else.

        Every output of a configured program is held to row-major: a constraint that reaches an
        output would otherwise become the entry layout.
        """

        def function(*arguments: Any) -> list:
            wrap = _Constrain(self.sites, configuration)
            outputs = _evaluate(self.jaxpr.jaxpr, self.jaxpr.consts, arguments, wrap)
            return outputs if configuration is None else [_row_major(x) for x in outputs]

        return function


def trace(function: Callable, arguments: Sequence[Any]) -> TracedProgram:
    """Trace ``function``, inline its calls, drop dead code and list its sites.

    Args:
        function: a pure JAX function.
        arguments: its arguments, pytrees of arrays; the traced program takes their leaves.
    """
    leaves, structure = jax.tree.flatten(tuple(arguments))

    def flat_function(*flat: Any) -> list:
        return jax.tree.leaves(function(*jax.tree.unflatten(structure, flat)))

    nested = jax.make_jaxpr(flat_function)(*leaves)
    inlined = jax.make_jaxpr(lambda *flat: _evaluate(nested.jaxpr, nested.consts, flat))(*leaves)
    live = _without_dead_code(inlined)
    sites = [s for k, e in enumerate(live.jaxpr.eqns) if (s := _site(k, e)) is not None]
    return TracedProgram(live, tuple(sites))


def _site(index: int, equation: Any) -> Site | None:
    opcode = SITE_OPCODES.get(equation.primitive.name)
    if opcode is None:
        return None
    tensors = [equation.outvars[0], *equation.invars[: SLOTS - 1]]
    ranks = [len(tensor.aval.shape) for tensor in tensors]
    if max(ranks) > MAX_RANK:
        return None
    choices = [rank if rank > 1 else 0 for rank in ranks] + [0] * (SLOTS - len(ranks))
    if not any(choices):
        return None
    return Site(index, opcode, tuple(equation.outvars[0].aval.shape), tuple(choices))


class _Constrain:
    """Evaluates one equation, with its site's layouts forced on output and inputs."""

    def __init__(self, sites: Sequence[Site], configuration: np.ndarray | None):
        self.site_of = {site.equation: k for k, site in enumerate(sites)}
        self.configuration = configuration

    def __call__(self, index: int, equation: Any, inputs: list) -> Any:
        site = self.site_of.get(index)
        if site is None:
            return _bind(equation, inputs)
        with jax.named_scope(f"site{site}"):
            if self.configuration is None:
                return _guarded(equation, inputs)
            output, *operands = self.configuration[site]
            inputs = [_force(x, row) for x, row in zip(inputs, operands, strict=False)]
            return _force(_bind(equation, inputs), output)


def _force(value: Any, minor_to_major: np.ndarray) -> Any:
    """Constrain ``value``'s layout; a row of -1 leaves it alone."""
    order = [int(d) for d in minor_to_major if d >= 0]
    if not order:
        return value
    return with_layout_constraint(value, Layout(major_to_minor=tuple(reversed(order))))


def _row_major(value: Any) -> Any:
    return with_layout_constraint(value, Layout(major_to_minor=tuple(range(value.ndim))))


def _bind(equation: Any, inputs: list) -> Any:
    parameters = equation.primitive.get_bind_params(equation.params)
    return equation.primitive.bind(*inputs, **parameters)


def _guarded(equation: Any, inputs: list) -> Any:
    """A plain bind; a reshape between barriers, or XLA would fold it into a neighbouring one.

    :func:`lib.collect.xla.hlo.read_module` takes the barriers out of the graph again.
    """
    if equation.primitive.name != "reshape":
        return _bind(equation, inputs)
    inputs = [jax.lax.optimization_barrier(x) for x in inputs]
    return jax.lax.optimization_barrier(_bind(equation, inputs))


def _evaluate(jaxpr: Any, constants: Sequence[Any], arguments: Sequence[Any], wrap: Any = None):
    """Evaluate ``jaxpr``; ``wrap(index, equation, inputs)`` stands in for a plain bind.

    Calls are inlined, so that evaluating under ``make_jaxpr`` flattens a program.
    """
    values: dict[Any, Any] = {}

    def read(variable: Any) -> Any:
        return variable.val if isinstance(variable, core.Literal) else values[variable]

    values.update(zip(jaxpr.constvars, constants, strict=True))
    values.update(zip(jaxpr.invars, arguments, strict=True))
    for index, equation in enumerate(jaxpr.eqns):
        inputs = [read(v) for v in equation.invars]
        if wrap is None and (inner := _called(equation)) is not None:
            outputs = _evaluate(inner.jaxpr, inner.consts, inputs)
        else:
            outputs = (wrap or (lambda _, e, x: _bind(e, x)))(index, equation, inputs)
        if not equation.primitive.multiple_results:
            outputs = [outputs]
        values.update(zip(equation.outvars, outputs, strict=True))
    return [read(v) for v in jaxpr.outvars]


def _called(equation: Any) -> Any:
    """The closed jaxpr that a call equation runs, or ``None`` for any other equation."""
    if not equation.primitive.name.startswith(INLINED):
        return None
    for key in ("jaxpr", "call_jaxpr"):
        inner = equation.params.get(key)
        if isinstance(inner, core.ClosedJaxpr):
            return inner
        if inner is not None:
            return core.ClosedJaxpr(inner, ())
    return None


def _without_dead_code(closed: Any) -> Any:
    """Drop equations whose results nobody reads: one pass from the outputs backwards."""
    jaxpr = closed.jaxpr
    needed = {v for v in jaxpr.outvars if not isinstance(v, core.Literal)}
    live = []
    for equation in reversed(jaxpr.eqns):
        if equation.effects or needed.intersection(equation.outvars):
            needed.update(v for v in equation.invars if not isinstance(v, core.Literal))
            live.append(equation)
    return core.ClosedJaxpr(jaxpr.replace(eqns=live[::-1]), closed.consts)
