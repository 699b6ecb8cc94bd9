"""Scores of tile kernels have the form of all scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from lib.cache.reader import Cache
from lib.cache.writer import CacheWriter
from lib.models.common.build import build_network
from lib.runs.stage import stage_script
from lib.scoring.scores import SCHEMA, score_graphs
from tests.kernels import cached_kernel, tiny_settings


def test_one_row_a_configuration(tmp_path):
    settings = tiny_settings(inference_configurations=7)
    torch.manual_seed(0)
    network = build_network(settings)
    test = cached_kernel("test", 1, split="test", configurations=1)
    kernels = [
        cached_kernel("labelled", 0, configurations=30),
        replace(test, runtime=np.zeros(1, np.int64), normalizer=np.zeros(1, np.int64)),
    ]
    with CacheWriter(tmp_path, "tile") as writer:
        for kernel in kernels:
            writer.add(kernel, {})
        writer.finish({"fingerprint": "0", "settings": {}})
    wanted = [("valid", "labelled"), ("test", "test")]
    frames = list(
        score_graphs(
            network, Cache(tmp_path), wanted, settings, stage_script("infer").permuted_scores
        )
    )
    assert [dict(frame.schema) for frame in frames] == [SCHEMA, SCHEMA]
    assert [len(frame) for frame in frames] == [30, 1]
    assert frames[0]["config"].to_list() == list(range(30))
    assert set(frames[0]["permutation"]) == {0}  # another one would repeat its scores
    assert frames[0]["runtime"].to_list() == kernels[0].runtime.tolist()
    assert frames[1]["runtime"].null_count() == 1
    assert len(frames[0]["score"].unique()) > 20
