"""Effects of real programs, which a change of the compiler's model must not change unseen."""

from __future__ import annotations

import numpy as np
import pytest

from lib.compiler.cpu.resolved import effects_of
from lib.settings.resolved import BUNDLED
from lib.tpugraphs.npz import read_layout
from tests.graphs import compress

# Layout copies, operations off their layout, operations that a library repeats, and occurrences;
# sums of sizes and of features.
EFFECTS = {
    "xla/default/test/inception.drawn_image_separable.n11.forward": (
        115,
        0,
        3,
        245,
        1.0758,
        2900.3,
    ),
    "xla/default/test/drawn_image_attention.n18.forward": (194, 0, 1, 557, 1.605, 5309.64),
    "xla/random/test/aspp.drawn_image_inverted.n22.forward": (1328, 115, 0, 1816, 8.1487, 33475.7),
    "nlp/random/train/additive_decoder.w128_d2_t4_b8_l64.forward": (
        352,
        0,
        0,
        1520,
        4.6225,
        9948.5,
    ),
    "nlp/random/test/albert.w128_d2_h4_b4_l64.forward": (842, 0, 0, 1648, 5.0997, 27000.4),
}


@pytest.mark.parametrize("program", EFFECTS)
def test_effects_are_those_of_earlier_versions(program):
    path = BUNDLED / "npz" / "layout" / f"{program}.npz"
    found = effects_of(compress(read_layout(path), path.parent.name, "all", path=path))
    *counts, sizes, features = EFFECTS[program]
    kinds = np.bincount(found["effects"][:, 0], minlength=3).tolist()
    assert [*kinds, len(found["happens"])] == counts
    sums = [found[name].astype(np.float64).sum() for name in ("effect_sizes", "effect_feat")]
    assert sums == pytest.approx([sizes, features], rel=1e-3)
