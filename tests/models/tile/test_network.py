"""The tile network: what a score depends on, and that its shortcuts change nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lib.models.common.rows import Standardize
from lib.models.tile.inputs import kernel_scores, tile_batch
from lib.models.tile.network import LogStandardize, TileNetwork, signed_log
from tests.kernels import cached_kernel

SIZES = ((1, 1), (2, 3), (9, 40), (5, 2))  # nodes, configurations


@pytest.fixture(scope="module")
def kernels():
    return [cached_kernel(f"k{i}", i, nodes=n, configurations=c) for i, (n, c) in enumerate(SIZES)]


@pytest.fixture(scope="module")
def network() -> TileNetwork:
    torch.manual_seed(0)
    made = TileNetwork(channels=16, blocks=2).eval()
    made.kernel.standardize.fit_chunks(lambda: [torch.rand(50, 134) * 9])
    made.standardize.fit_chunks(lambda: [torch.rand(50, 24) * 99])
    return made


def everything(kernels) -> list[np.ndarray]:
    return [np.arange(len(kernel.runtime)) for kernel in kernels]


def test_a_kernels_scores_do_not_depend_on_its_batch(kernels, network):
    with torch.inference_mode():
        together = network(tile_batch(kernels, everything(kernels))).numpy()
    pairs = zip(kernels, everything(kernels), strict=True)
    alone = np.concatenate([kernel_scores(network, kernel, 7, rows) for kernel, rows in pairs])
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-5)
    assert len(np.unique(alone.round(4))) > 20  # and they are not all the same


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_streamed_statistics_are_those_of_all_rows(sizes, seed):
    generator = torch.Generator().manual_seed(seed)
    chunks = [torch.randn(size, 6, generator=generator) * 1e6 for size in sizes]
    for chunk in chunks:
        chunk[:, 2] = 0.1  # constant: of no use, and its deviation must be exactly zero
    streamed, whole = LogStandardize(6), Standardize(6)
    streamed.fit_chunks(lambda: iter(chunks))
    rows = signed_log(torch.cat(chunks))
    whole.fit(rows)
    assert streamed.factor[2] == 0
    torch.testing.assert_close(streamed.mean, whole.mean)
    if sum(sizes) > 1:
        torch.testing.assert_close(streamed.factor[:2], whole.factor[:2])
        torch.testing.assert_close(streamed(torch.cat(chunks))[:, :2], whole(rows)[:, :2])
