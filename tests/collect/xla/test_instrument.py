"""Tracing and configuring real JAX programs; skipped where JAX is not installed.

Both environments at once run it (same Python, same numpy):
``PYTHONPATH=$(echo .venv-collect/lib/python3*/site-packages) .venv/bin/python -m pytest``.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs JAX, see lib/collect/xla/requirements.txt")

import jax
import jax.numpy as jnp

from lib.collect.xla import instrument
from lib.collect.xla.hlo import read_module, site_positions
from lib.tpugraphs import drawing


def network(weights, x):
    """A convolution, a checkpointed and jitted dot, reshapes, and something nobody reads."""
    y = jax.lax.conv_general_dilated(
        x, weights["kernel"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    flat = jnp.tanh(y).reshape(y.shape[0], -1)
    _unused = flat @ weights["unused"]
    hidden = jax.checkpoint(jax.jit(lambda a, w: jnp.sin(a @ w)))(flat, weights["dense"])
    return hidden.reshape(2, 3, 5), hidden.sum()


def arguments():
    rng = np.random.default_rng(0)

    def normal(*shape):
        return rng.standard_normal(shape, dtype=np.float32)

    weights = {"kernel": normal(3, 3, 2, 4), "dense": normal(64, 15), "unused": normal(64, 8)}
    return weights, normal(2, 4, 4, 2)


@pytest.fixture(scope="module")
def traced():
    return instrument.trace(network, arguments())


@pytest.fixture(scope="module")
def leaves():
    return jax.tree.leaves(arguments())


def positions(program, values):
    lowered = jax.jit(program.configured(None)).lower(*values)
    module = read_module(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
    ranks = np.array([site.ranks for site in program.sites])
    found = site_positions(module, [site.opcode for site in program.sites], ranks)
    instructions = [inst for comp in module.computations for inst in comp.instructions]
    shapes = [tuple(instructions[p].shape.dimensions) for p in found]
    assert shapes == [site.shape for site in program.sites]
    return found


def test_the_sites_are_found_inside_calls_and_dead_code_is_not(traced):
    assert [site.opcode for site in traced.sites] == ["convolution", "reshape", "dot", "reshape"]
    assert [site.ranks for site in traced.sites] == [(4, 4, 4), (2, 4, 0), (2, 2, 2), (3, 2, 0)]
    names = [equation.primitive.name for equation in traced.jaxpr.jaxpr.eqns]
    assert "sin" in names
    assert names.count("dot_general") == 1
    assert not {"jit", "pjit", "remat2", "checkpoint"} & set(names)


def test_the_plain_program_computes_what_the_function_does(traced, leaves):
    outputs = jax.jit(traced.configured(None))(*leaves)
    for got, want in zip(outputs, jax.jit(network)(*arguments()), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_a_configured_program_computes_the_same(traced, leaves, seed):
    ranks = [site.ranks for site in traced.sites]
    rng = np.random.default_rng(seed)
    configuration = drawing.mutated(drawing.unconstrained(ranks), ranks, 1.0, 0.8, rng)
    got = jax.jit(traced.configured(configuration))(*leaves)
    for one, want in zip(got, jax.jit(traced.configured(None))(*leaves), strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(want), rtol=1e-4, atol=1e-4)


def test_every_site_is_one_instruction(traced, leaves):
    assert len(set(positions(traced, leaves).tolist())) == len(traced.sites)


def test_a_reshape_of_a_reshape_is_two_sites_with_two_instructions():
    def chain(x):
        return jnp.sin(x).reshape(4, 2, 3).reshape(2, 2, 2, 3) * 2.0

    values = [np.ones((4, 6), np.float32)]
    program = instrument.trace(chain, values)
    assert len(program.sites) == 2
    assert len(set(positions(program, values).tolist())) == 2


def test_a_forced_layout_is_in_the_compiled_program(traced, leaves):
    ranks = [site.ranks for site in traced.sites]
    configuration = drawing.unconstrained(ranks)

    def layouts(configuration):
        text = jax.jit(traced.configured(configuration)).lower(*leaves).compile().as_text()
        return set(re.findall(r"f32\[2,4,4,4\](\{[\d,]+\})", text))

    assert "{1,2,0,3}" not in layouts(configuration)
    configuration[0, 0, :4] = (1, 2, 0, 3)
    assert "{1,2,0,3}" in layouts(configuration)


def test_outputs_are_held_to_row_major(traced, leaves):
    configuration = drawing.unconstrained([site.ranks for site in traced.sites])
    configuration[3, 0, :3] = (0, 1, 2)
    compiled = jax.jit(traced.configured(configuration)).lower(*leaves).compile()
    entry = re.search(r"entry_computation_layout=\{.*->\((.*?)\)\}", compiled.as_text())
    assert "f32[2,3,5]{2,1,0}" in entry.group(1)
