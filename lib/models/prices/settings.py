"""The settings of prices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lib.models.common.settings import SeveralCollections
from lib.settings.base import setting


@dataclass(frozen=True)
class PricesSettings(SeveralCollections):
    """Prices of a TPU's layouts: arithmetic, and what was measured, solved for."""

    input: ClassVar[str] = "lib.models.prices.inputs:INPUT"
    fold: ClassVar[str] = "lib.models.prices.training:PricesFold"
    network: ClassVar[str] = "lib.models.prices.network:Prices"
    hardware_of: ClassVar[tuple[str, ...]] = ("tpu",)
    evidence: ClassVar[str] = "{programs}: too few to train a network"
    score_digits: ClassVar[int] = 3  # measured again, runtimes on TPUs differ by up to 0.2 %
    # All there is to learn is solved for before 02_train.py begins: its one epoch has no steps.
    epochs: ClassVar[int] = 1
    learning_rate: ClassVar[float] = 0.0
    weight_decay: ClassVar[float] = 0.0
    optimizer: ClassVar[str] = "adamw"
    validate_every: ClassVar[int] = 1
    save_seconds: ClassVar[float] = 0.0

    model: str = setting("prices", "no network: what layouts cost on a TPU, solved for")
    inference_configurations: int = setting(512, "configurations a batch of inference", first=3)
