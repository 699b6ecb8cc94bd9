"""What layouts do on a TPU: padding of tiles, work of products, and the baseline made of both."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from lib.compiler.graph import TensorGraph
from lib.compiler.tpu import ConfiguredNodes
from lib.ranking.baseline import padded_work
from lib.ranking.measures import measures_of
from lib.ranking.metrics import kendall_tau
from lib.tpugraphs.npz import read_layout
from tests.compiler.builders import Builder
from tests.compiler.test_operands import OFFICIAL
from tests.graphs import compress

FEATURES_MINOR, BATCH_MINOR = (3, 0), (0, 3)
PLAIN = (3, 2, 1, 0)


def products():
    """A 3 x 3 convolution of 64 into 192 features, a dot, and a reshape; and its program."""
    made = Builder()
    image, weights = made.add("parameter", (8, 16, 16, 64)), made.add("parameter", (3, 3, 64, 192))
    convolved = made.convolution((8, 16, 16, 192), image, weights, window_size_product=9)
    rows, columns = made.add("parameter", (32, 48)), made.add("parameter", (48, 5))
    multiplied = made.add("dot", (32, 5), rows, columns)
    flat = made.add("reshape", (160,), multiplied)
    return made, (convolved, multiplied, flat)


def test_work_is_counted_in_multiply_adds():
    made, nodes = products()
    own = ConfiguredNodes(TensorGraph.of(made.graph(nodes, [[[()] * 3] * 3])))
    assert own.work.tolist() == [8 * 16 * 16 * 192 * 9 * 64, 32 * 5 * 48, 0]


def test_what_a_layout_leaves_open_the_program_decides():
    made, nodes = products()
    own = ConfiguredNodes(TensorGraph.of(made.graph(nodes, [[[()] * 3] * 3])))
    digits = np.full((5, 3, 6), -1)
    for row, order in enumerate([(), (0,), (3,), (0, 3), (7, 0)]):  # the last one no tensor has
        digits[row, 0, : len(order)] = order
    found = own.minor(np.zeros(5, np.int64), digits)[:, 0].tolist()
    assert found == [[3, 2], [0, 3], [3, 2], [0, 3], [3, 0]]


def test_the_baseline_pads_outputs_of_products_and_nothing_else():
    made, nodes = products()
    rest = [[(), (), ()], [(), (), ()]]
    graph = made.graph(
        nodes,
        [
            [[(), (), ()], *rest],
            [[(), BATCH_MINOR, (0, 1)], *rest],  # its input and kernel
            [[BATCH_MINOR, (), ()], *rest],  # 8 of 128 lanes, 192 of 256 before
            [[(), (), ()], [(0, 1), (), ()], [(0,), (), ()]],  # 32 of 128 lanes, 5 before
        ],
    )
    convolution, dot = 8 * 16 * 16 * 192 * 9 * 64, 32 * 5 * 48
    wanted = [0, 0, convolution * log(16 / (256 / 192)), dot * log((128 / 32) / (128 / 5))]
    np.testing.assert_allclose(padded_work(graph), np.array(wanted) / (convolution + dot))


def test_hardware_decides_which_baseline_is_shown():
    made, nodes = products()
    rest = [[(), (), ()], [(), (), ()]]
    moves, stays = BATCH_MINOR, PLAIN  # an input's layout, whose padding nobody counts
    graph = made.graph(nodes, [[[(), moves, ()], *rest], [[(), stays, ()], *rest]])
    kinds = [measures_of("layout-xla-default", hardware) for hardware in ("cpu", "tpu")]
    found = [kind.references(np.array([2, 1]), graph)["baseline_tau"] for kind in kinds]
    assert found == [1.0, -1.0]  # of equal scores the first comes first
    assert kinds[0].baseline.explained != kinds[1].baseline.explained
    assert measures_of("tile-xla", "tpu") is measures_of("tile-xla")


@pytest.mark.parametrize(
    ("name", "tau"),
    [
        ("layout/xla/default/train/unet3d", 0.176),
        ("layout/xla/default/valid/unet_3d.4x4.bf16", 0.353),
        ("layout/xla/random/valid/unet_3d.4x4.bf16", 0.781),
    ],
)
def test_the_baseline_of_real_programs(name, tau):
    path = OFFICIAL / "npz" / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    graph = compress(read_layout(path), "train", "all", path=path)
    assert kendall_tau(padded_work(graph), graph.runtime) == pytest.approx(tau, abs=1e-3)
