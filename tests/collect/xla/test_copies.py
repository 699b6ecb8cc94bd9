"""Copies that are timed by themselves: which are drawn, and what is read of XLA's kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.collect.xla.copies import ELEMENTS, RANKS, Copy, copied_by, drawn
from lib.collect.xla.kernels import kernels_of

ROOT = Path(__file__).parents[3]
MODULE = """HloModule jit__lambda

%wrapped_copy_computation (param_0: f32[64,8,16]) -> f32[64,8,16] {
  %param_0 = f32[64,8,16]{2,1,0} parameter(0)
  ROOT %copy.1 = f32[64,8,16]{0,2,1} copy(%param_0)
}

%fused_computation (param_0.1: f32[8,4], param_1.1: f32[8,4]) -> f32[8,4] {
  %param_0.1 = f32[8,4]{1,0} parameter(0)
  %param_1.1 = f32[8,4]{0,1} parameter(1)
  %copy.2 = f32[8,4]{1,0} copy(%param_1.1)
  ROOT %add.1 = f32[8,4]{1,0} add(%param_0.1, %copy.2)
}

ENTRY %main (x: f32[64,8,16], y: f32[8,4], z: f32[8,4]) -> (f32[64,8,16], f32[8,4]) {
  %x = f32[64,8,16]{2,1,0} parameter(0)
  %y = f32[8,4]{1,0} parameter(1)
  %z = f32[8,4]{0,1} parameter(2)
  %wrapped_copy = f32[64,8,16]{0,2,1} fusion(%x), kind=kLoop, calls=%wrapped_copy_computation
  %add_fusion = f32[8,4]{1,0} fusion(%y, %z), kind=kLoop, calls=%fused_computation
  ROOT %tuple = (f32[64,8,16]{0,2,1}, f32[8,4]{1,0}) tuple(%wrapped_copy, %add_fusion)
}
"""


@given(st.integers(0, 2**32 - 1))
def test_drawn_copies_move_a_tensor_of_a_fair_size(seed):
    copy = drawn(np.random.default_rng(seed))
    assert len(copy.shape) in RANKS and copy.before != copy.after
    assert sorted(copy.before) == sorted(copy.after) == list(range(len(copy.shape)))
    assert ELEMENTS[0] / 2 < prod(copy.shape) < ELEMENTS[1]


def test_a_kernel_that_only_copies_is_known():
    kernels = kernels_of(MODULE)
    assert copied_by(kernels["wrapped_copy"]) == Copy((64, 8, 16), (2, 1, 0), (0, 2, 1))
    assert copied_by(kernels["add_fusion"]) is None
    other = kernels_of(MODULE.replace(" copy(%param_0)", " tanh(%param_0)"))["wrapped_copy"]
    assert copied_by(other) is None, "it computes"
    assert kernels["wrapped_copy"].kind == "copy" and kernels["add_fusion"].kind == "loop"


def test_copies_are_timed(tmp_path):
    pytest.importorskip("jax", reason="needs JAX, see lib/collect/xla/requirements.txt")
    file, core = tmp_path / "copies.npz", str(min(os.sched_getaffinity(0)))
    line = [sys.executable, "-m", "lib.collect.xla.copies", file, "--core", core, "--count", "49"]
    said = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    with np.load(file) as found:
        times = found["microseconds"]
        assert len(times) >= 49 and str(len(times)) in said.stdout
        assert ((times > 0.1) & (times < 1e5)).all()
        assert found["shape"].shape == found["after"].shape == (len(times), max(RANKS))
