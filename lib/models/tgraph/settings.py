"""The settings of TGraph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lib.files.errors import UserError
from lib.models.common.settings import SageSettings, SeveralCollections, TrainedLayouts
from lib.settings.base import ByData, setting
from lib.settings.search import between


@dataclass(frozen=True)
class TGraphSettings(SeveralCollections, TrainedLayouts, SageSettings):
    """TGraph, on the part of a graph that a configuration can touch."""

    input: ClassVar[str] = "lib.models.tgraph.inputs:INPUT"
    fold: ClassVar[str] = "lib.training.fold:Fold"
    network: ClassVar[str] = "lib.models.tgraph.network:TGraph"
    scatter: ClassVar[str] = "gpu"
    least_programs: ClassVar[int] = 20  # the paper's K
    evidence: ClassVar[str] = "published for TpuGraphs: .4785 in Kaggle's metric with all data"
    # Half the width, and a start that already tells configurations apart.
    fits: ClassVar[ByData] = {"small": {"channels": 128, "temperature": 0.01, "score_gain": 16.0}}

    model: str = setting("tgraph", "network: the paper's `tgraph`, or one of lib/models")
    # network (2.3)
    temperature: float = setting(
        0.5,
        "initial, of cross-configuration attention",
        least=1e-3,
        most=1e3,
        search=between(0.01, 1, logarithmic=True),
    )
    score_gain: float = setting(
        1.0,
        "factor on the last layer's initial weights",
        least=1e-3,
        most=1e3,
        search=between(0.5, 32, logarithmic=True),
    )
    dropout: float = setting(
        0.0,
        "share of a node's channels left out in training, before the blocks",
        0,
        0.99,
        search=between(0, 0.5),
    )
    precision: str = setting("auto", "of matrix products: `float32`, `bfloat16`, or `auto`")
    # what the paper takes out of the blocks (2.5.5, table 3)
    channel_attention: bool = setting(True, "channel-wise self-attention in each block (2.3.1)")
    cross_attention: bool = setting(True, "cross-configuration attention in each block (2.3.2)")
    edges: bool = setting(True, "messages between neighbours; without, nodes stand by themselves")
    physics: bool = setting(False, "read how layouts pad tensors and what they hold, too")
    # stage 3 (2.5.3)
    permutations: int = setting(
        10, "groupings of a graph's configurations to average over", first=3
    )

    def check(self) -> None:
        """Also that attention across channels can reduce their number."""
        super().check()
        if self.channels % (2 * self.squeeze):
            raise UserError(
                f"--channels {self.channels}: must be a multiple of {2 * self.squeeze}, twice "
                f"the squeeze"
            )
