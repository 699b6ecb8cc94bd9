"""Stage 1 from raw files to a cache."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from lib.cache.codec import decode_layouts
from lib.cache.prune import kept_nodes
from lib.cache.reader import Cache
from lib.preprocess.collection import raw_files, write_cache
from lib.preprocess.summary import summary_table
from lib.settings import root_of
from lib.tpugraphs.npz import LayoutGraph, write_layout
from lib.tpugraphs.padding import pad_with_minus_one
from tests.builders import COLLECTION
from tests.graphs import compress
from tests.synthetic import layout_graph, write_collection

FOLDER = Path("layout/xla/default")


@pytest.fixture(scope="module")
def raw() -> LayoutGraph:
    return layout_graph("a.b", 1, configurations=40)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("root")
    write_collection(folder, COLLECTION, train=3, valid=1, test=1)
    return folder


def open_root(path):
    return root_of(COLLECTION, path)


def cache_at(path, root, hops=1, jobs=1):
    files = raw_files(open_root(root), FOLDER)
    table, _ = write_cache(path, files, {"collection": COLLECTION, "hops": hops}, jobs)
    return table


def test_every_configuration_and_its_smallest_runtime(raw):
    graph = compress(raw, "train", hops=1)
    digits = decode_layouts(graph.dictionary[graph.cells])
    assert np.array_equal(digits[graph.original], raw.node_config_feat)
    assert len({config.tobytes() for config in digits}) == len(digits) < 40
    for place in range(len(graph.cells)):
        assert graph.runtime[place] == raw.config_runtime[graph.original == place].min()


def test_configurable_nodes_keep_their_features(raw):
    graph = compress(raw, "train", hops=1)
    padded = pad_with_minus_one(raw.node_feat, raw.node_opcode)
    assert np.array_equal(graph.node_feat[graph.config_nodes], padded[raw.node_config_ids])
    assert np.array_equal(
        graph.node_opcode[graph.config_nodes], raw.node_opcode[raw.node_config_ids]
    )
    assert len(graph.node_opcode) < len(raw.node_opcode)


@pytest.mark.parametrize("hops", [1, "all"])
def test_splits_stay_between_the_same_nodes(raw, hops):
    splits = np.array([0, 7, 7, 19, len(raw.node_opcode)])
    graph = compress(LayoutGraph(**{**vars(raw), "node_splits": splits}), "train", hops=hops)
    kept = kept_nodes(len(raw.node_opcode), raw.edge_index, raw.node_config_ids, hops)
    expected = [int((kept < split).sum()) for split in splits]
    assert graph.node_splits.tolist() == sorted(set(expected))
    assert graph.node_splits[-1] == len(graph.node_opcode) == len(kept)


def test_zero_padding_becomes_minus_one(raw):
    features = raw.node_feat.copy()
    features[features == -1] = 0
    zeros = LayoutGraph(**{**vars(raw), "node_feat": features})
    found = compress(zeros, "train", 1).node_feat[:, 134:]
    assert np.array_equal(found, compress(raw, "train", 1).node_feat[:, 134:])
    assert (found[:, 2:] == -1).all()


def test_the_fingerprint_follows_sources_and_settings(root, tmp_path):
    def fingerprint(name, folder=root, hops=1):
        cache_at(tmp_path / name, folder, hops)
        return Cache(tmp_path / name).fingerprint

    first = fingerprint("a")
    assert fingerprint("b") == first
    assert fingerprint("c", hops=2) != first
    touched = shutil.copytree(root, tmp_path / "touched", copy_function=shutil.copyfile)
    assert fingerprint("touch", touched) == first  # of other times
    path = touched / "npz" / FOLDER / "train" / "train_1.v1.0.npz"
    times = path.stat().st_mtime_ns
    write_layout(path, layout_graph("train_1.v1.0", 99))
    os.utime(path, ns=(times, times))
    assert fingerprint("edited", touched) != first
    changed = shutil.copytree(root, tmp_path / "changed")
    train, valid = (changed / "npz" / FOLDER / split for split in ("train", "valid"))
    (train / "train_1.v1.0.npz").rename(valid / "train_1.v1.0.npz")
    assert fingerprint("d", changed) != first
    (valid / "train_1.v1.0.npz").unlink()
    assert fingerprint("e", changed) != first


def test_the_summary_adds_up(root, tmp_path):
    table = cache_at(tmp_path / "cache", root)
    text = summary_table(table, tmp_path / "cache")
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines()[1:]}
    assert rows["graphs"][:2] == ["5", "5"]
    assert rows["nodes"][:2] == ["150", f"{table['nodes'].sum()}"]
    assert rows["configurations"][:2] == ["100", f"{table['configurations'].sum()}"]
    assert rows["bytes"][1] in ("kB", "MB")
