"""Configurations of any number become cells in bounded memory, exactly."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lib.cache.codec import build_dictionary, decode_layouts
from lib.cache.reader import Cache
from lib.files.errors import DataError
from lib.preprocess.collection import RawFile, write_cache
from lib.preprocess.graphs import open_raw
from lib.tpugraphs import archive, npz
from lib.tpugraphs.npz import write_layout
from tests.bench.rawfiles import write_raw
from tests.graphs import compress
from tests.stages import REPOSITORY, environment
from tests.synthetic import layout_graph
from tests.tpugraphs.builders import chain, layout_run, members, npy, rezip, tuning

# A measurement's peak memory and the interpreter's own, which it had before.
DRIVER = """
import json, re, sys
from pathlib import Path
import pandas  # imported late; it is no part of what streaming takes
from lib.preprocess.collection import RawFile, write_cache
peak = lambda: 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])
before = peak()
write_cache(Path(sys.argv[2]), [RawFile(Path(sys.argv[1]), "train")], {"hops": 1})
print(json.dumps([before, peak()]))
"""


def many_triples(rng: np.random.Generator, count: int) -> np.ndarray:
    """(count, 18) int8, all of them distinct."""
    numbers = np.arange(count) * 7_919 + rng.integers(0, 7_919)
    return (numbers[:, None] // 7 ** np.arange(18, dtype=np.int64) % 7 - 1).astype(np.int8)


def assert_exact(features: np.ndarray, dictionary: np.ndarray, cells: np.ndarray) -> None:
    rows = {row.tobytes() for row in features.astype(np.int8).reshape(-1, 18)}
    assert len(dictionary) == len(rows)
    assert dictionary.tolist() == sorted(dictionary.tolist())
    assert np.array_equal(decode_layouts(dictionary)[cells], features)


@given(
    features=hnp.arrays(
        np.int8,
        st.tuples(st.integers(1, 14), st.integers(1, 4), st.just(18)),
        elements=st.integers(-1, 5),
        fill=st.integers(-1, 5),
    ),
    cuts=st.lists(st.integers(0, 14), max_size=4),
    kind=st.sampled_from(["<f4", "<f8", "<f2", ">f4", "i1", "<i8"]),
)
def test_any_chunks_of_any_type(features, cuts, kind):
    chunks = np.split(features.astype(kind), sorted(cuts))
    assert_exact(features, *build_dictionary("f", chunks, *features.shape[:2]))


@pytest.mark.parametrize(("distinct", "cell"), [(256, "u1"), (257, "u2"), (70_000, "u4")])
def test_the_dictionary_grows_over_chunks(distinct, cell):
    rng = np.random.default_rng(0)
    choice = rng.integers(0, distinct, (distinct // 10, 30))
    choice.reshape(-1)[:distinct] = np.sort(choice.reshape(-1)[:distinct])  # few at first
    choice[-1 - distinct // 30 :].reshape(-1)[:distinct] = np.arange(distinct)
    features = many_triples(rng, distinct)[choice].astype(np.float32)
    dictionary, cells = build_dictionary("f", np.array_split(features, 7), *choice.shape)
    assert_exact(features, dictionary, cells)
    assert cells.dtype == cell


@pytest.mark.parametrize("chunk_bytes", [100, 5_000, 10**6])
def test_a_streamed_file_equals_a_dense_one(tmp_path, monkeypatch, chunk_bytes):
    monkeypatch.setattr(archive, "CHUNK_BYTES", chunk_bytes)
    raw = layout_graph("a.b", 3, configurations=60)
    write_layout(tmp_path / "a.b.npz", raw)
    with open_raw(tmp_path / "a.b.npz") as (graph, chunks):
        streamed = compress(graph, "train", 1, chunks)
    dense = compress(raw, "train", 1)
    for name, value in vars(dense).items():
        assert np.array_equal(getattr(streamed, name), value), name


def test_memory_is_bounded_by_the_cells(tmp_path):
    count, nodes = 10_000, 200
    source, cache = tmp_path / "g.npz", tmp_path / "cache"
    write_raw(source, count, nodes, 2_000, repeated=0.5, level=1)
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(source), str(cache)],
        cwd=REPOSITORY,
        env=environment(),
        check=True,
        stdout=subprocess.PIPE,
    )
    before, peak = json.loads(done.stdout)
    assert peak - before < 60e6  # the file has 144 MB of floats and 2 MB of cells
    graph = Cache(cache).graph("g")
    assert len(graph.original) == count
    assert len(graph.cells) < 0.6 * count
    assert graph.cells.nbytes <= 2 * count * nodes


def test_a_large_array_in_fortran_order_is_refused(tmp_path, monkeypatch):
    raw = layout_graph("a", 1, configurations=50)
    write_layout(tmp_path / "a.npz", raw)
    parts = members(tmp_path / "a.npz")
    parts["node_config_feat"] = npy(np.asfortranarray(raw.node_config_feat, np.float32))
    rezip(tmp_path / "a.npz", parts)
    assert np.array_equal(
        npz.read_layout(tmp_path / "a.npz").node_config_feat, raw.node_config_feat
    )
    monkeypatch.setattr(archive, "MAX_WHOLE_BYTES", 20_000)
    with pytest.raises(DataError, match=r"a\.npz: node_config_feat: found 21600 bytes"):
        npz.read_layout(tmp_path / "a.npz")


def test_protobufs_are_sources_too(tmp_path):
    """Two files of one module name: the file's name is the graph's."""
    run = layout_run(9, [[[0]], []], default=True), layout_run(8, [[], [[1]]])
    message = tuning(chain("same"), *run, run[0], nodes=(1, 2))
    for name in ("a.1", "b"):
        (tmp_path / f"{name}.pb").write_bytes(message.SerializeToString())
    files = [RawFile(tmp_path / f"{name}.pb", "train") for name in ("a.1", "b")]
    write_cache(tmp_path / "cache", files, {"hops": 1})
    cache = Cache(tmp_path / "cache")
    assert cache.names("train") == ["a.1", "b"]
    graph = cache.graph("b")
    digits = decode_layouts(graph.dictionary)[graph.cells][graph.original]
    assert digits[:, :, 0].tolist() == [[0, -1], [-1, 1], [0, -1]]
    assert graph.runtime.tolist() == [9, 8]
