"""The settings of TGraph+."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from lib.models.common.settings import AUTO, LOSS_NAMES, SeveralCollections, TrainedLayouts
from lib.settings.base import BLENDED, BLENDINGS, ByData, choice, setting
from lib.settings.search import among, between

# Copies that were measured by themselves (lib/collect/xla/copies.py).
COPIES = Path(__file__).parents[3] / "data" / "copies-cpu" / "copies.npz"


@dataclass(frozen=True)
class TGraphPlusSettings(SeveralCollections, TrainedLayouts):
    """TGraph+: learned costs of what layouts make a compiler do (network.py)."""

    input: ClassVar[str] = "lib.models.tgraph_plus.inputs:INPUT"
    fold: ClassVar[str] = "lib.models.tgraph_plus.training:CopiesFold"
    network: ClassVar[str] = "lib.models.tgraph_plus.network:TGraphPlus"
    hardware_of: ClassVar[tuple[str, ...]] = ("cpu",)
    evidence: ClassVar[str] = "it ranks unseen programs best on the bundled data"
    scatter: ClassVar[str] = "gpu"
    fits: ClassVar[ByData] = {
        "official": {"epochs": AUTO},
        "small": {"epochs": AUTO, "learning_rate": 2e-3, "channels": 64},
    }

    model: str = setting("tgraph-plus", "network: learned costs of layout copies")
    inference_configurations: int = setting(512, "configurations a batch of inference", first=3)
    epochs: int | str = setting(  # type: ignore[assignment]
        AUTO,
        f"passes over the training graphs; `{AUTO}`: as many as make 4,000 steps, seven at most",
        words=(AUTO,),
    )
    learning_rate: float = setting(2e-3, "peak of the learning rate", 0, 1)
    weight_decay: float = setting(1e-2, "weight decay of all parameters but biases", 0, 1)
    channels: int = setting(32, "width of the perceptrons", search=among(16, 32, 64, 128))
    members: int = setting(2, "networks in the ensemble, whose scores are averaged")
    context_blocks: int = setting(2, "rounds of neighbours' messages", search=between(1, 4))
    context_channels: int = setting(32, "width of a node's state", search=among(16, 32, 64))
    context_dropout: float = setting(
        0.3, "share of a node's channels left out in training", 0, 0.99, search=between(0, 0.5)
    )
    dropout: float = setting(
        0.1, "share of the width left out in training", 0, 0.99, search=between(0, 0.5)
    )
    loss: str = choice("logistic+correlation", "what training minimizes", LOSS_NAMES)
    blending: str = setting("standardized", BLENDED, choices=BLENDINGS, first=4)
    pretraining: int = setting(
        1500, "steps of pretraining on single layout copies, where those were measured; 0: none", 0
    )

    @property
    def pretrained_on(self) -> Path | None:
        """Layout copies that were measured by themselves."""
        return COPIES if self.pretraining else None
