"""HLO text to a protobuf, where JAX is installed."""

from __future__ import annotations

import pytest

pytest.importorskip("jax", reason="needs JAX, see lib/collect/xla/requirements.txt")

import jax
import jax.numpy as jnp

from lib.collect.xla.text import main
from lib.files.errors import DataError
from lib.tpugraphs.protobuf import read_hlo_pb


def test_text_is_the_module_that_it_was_printed_from(tmp_path):
    lowered = jax.jit(lambda x, y: jnp.tanh(x @ y).reshape(2, 8)).lower(*[jnp.ones((4, 4))] * 2)
    module = lowered.compiler_ir("hlo")
    (tmp_path / "a.pb").write_bytes(module.as_serialized_hlo_module_proto())
    (tmp_path / "a.txt").write_text(module.as_hlo_text())
    main([str(tmp_path / "a.txt"), str(tmp_path / "b.pb")])
    wanted, found = (read_hlo_pb(tmp_path / name) for name in ("a.pb", "b.pb"))
    assert (found.node_feat == wanted.node_feat).all()
    assert (found.node_opcode == wanted.node_opcode).all()
    assert set(map(tuple, found.edge_index)) == set(map(tuple, wanted.edge_index))


def test_what_is_no_hlo_is_one_line(tmp_path):
    (tmp_path / "a.txt").write_text("module @jit_f {}")
    with pytest.raises(DataError, match=r"a\.txt: HLO text: found "):
        main([str(tmp_path / "a.txt"), str(tmp_path / "b.pb")])
    assert not (tmp_path / "b.pb").exists()
