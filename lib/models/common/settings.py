"""Settings that several models have."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from lib.files.errors import UserError
from lib.settings.base import EVERY, NONE, ByData, Settings, TrainedSettings, setting
from lib.settings.search import among, between

WHOLE = "all"  # hops that keep every node
AUTO = "auto"  # epochs by how many graphs there are (lib/training/schedule.py)
LOSS_NAMES = ("hinge", "logistic", "correlation", "logistic+correlation")  # lib/training/loss.py
HARDWARE = ("cpu", "tpu")
VALIDATED = "of a graph that an epoch is validated on, the same each time; at the end, all are"


@dataclass(frozen=True)
class SageSettings(TrainedSettings):
    """Networks of GraphSAGE blocks with attention across channels: TGraph's and the tiles'."""

    loss: ClassVar[str] = "hinge"  # of lib/training/loss.py (2.4.1)

    # network (2.3)
    channels: int = setting(256, "width of the residual stream (2.3.3)", search=among(64, 128, 256))
    blocks: int = setting(2, "graph convolutional blocks (2.3.3)", search=between(1, 4))
    opcode_channels: int = setting(
        16, "width of an opcode's embedding (2.2.5)", search=among(4, 8, 16, 32)
    )
    layout_channels: int = setting(
        4, "width of a layout digit's embedding (2.2.5)", search=among(2, 4, 8)
    )
    squeeze: int = setting(
        8, "reduction of channel-wise self-attention (2.3.1)", search=among(4, 8, 16)
    )


@dataclass(frozen=True)
class LayoutCollection(Settings):
    """A layout collection: configurations set the layouts of convolutions, dots and reshapes."""

    kind: ClassVar[str] = "layout"
    metric: ClassVar[str] = "tau"
    cache_depends_on: ClassVar[tuple[str, ...]] = ("collection", "hops", "hardware")
    fits: ClassVar[ByData] = {
        "small": {"folds_total": 5, "keep_together": "family", "score_training": True},
    }

    hardware: str = setting(
        "tpu", "that programs are compiled for, as the data say: cpu or tpu", choices=HARDWARE
    )
    # stage 1
    hops: int | str = setting(
        1, "keep nodes this far from a configurable one, or `all` (2.2.1)", words=(WHOLE,), first=1
    )
    # validation, and stage 3
    validation_configurations: int = setting(200, VALIDATED, 2)
    inference_configurations: int = setting(128, "configurations a batch of inference", first=3)

    @property
    def cache(self) -> Path:
        """The cache's folder; graphs that are not pruned as in the paper have one of their own."""
        return Path(self.collection, "cache" if self.hops == 1 else f"cache-{self.hops}")

    def check(self) -> None:
        """Raise a UserError also if the model cannot learn from programs of this hardware."""
        super().check()
        if self.hardware not in self.hardware_of:
            raise UserError(
                f"--model {self.model}: it reads what the compiler does on "
                f"{' and '.join(self.hardware_of)}, and these programs are of {self.hardware}; "
                f"use another --model (MODEL of make)"
            )


@dataclass(frozen=True)
class TrainedLayouts(LayoutCollection, TrainedSettings):
    """Networks of layout collections that are trained by steps."""

    # A few dozen programs of a few dozen configurations each, and minutes, not hours: a higher rate
    # fits them in ten passes. After thirty, `tgraph` ranks worse without dropout, better with it.
    fits: ClassVar[ByData] = {"small": {"epochs": 10, "learning_rate": 5e-3}}

    epochs: int = setting(750, "passes over the training graphs (2.4.2)")  # type: ignore[assignment]
    configurations: int = setting(
        128, "configurations sampled a step (2.2.5)", search=among(32, 64, 128)
    )


@dataclass(frozen=True)
class SeveralCollections(LayoutCollection):
    """Models that can learn from other layout collections as well."""

    others_depend_on: ClassVar[tuple[str, ...]] = ("also",)

    also: str = setting(
        NONE, f"other layout collections to learn from, between commas; `{EVERY}`, or `{NONE}`"
    )

    @property
    def others(self) -> dict[str, Path]:
        """The other collections that are learned from: those in ``also``."""
        names = () if self.also == NONE else self.also.split(",")
        return {name: dataclasses.replace(self, collection=name).cache for name in names}


@dataclass(frozen=True)
class TileCollection(TrainedSettings):
    """A tile collection: configurations set the bounds of a fused kernel's tiles.

    Where no section is named the paper says nothing, and the value is ours.
    """

    kind: ClassVar[str] = "tile"
    metric: ClassVar[str] = "tile_score"
    how_to_get: ClassVar[str] = (
        "`make download COLLECTION={collection}` fetches it, and tuning protobufs can be "
        "put into {folder}"
    )
    fits: ClassVar[ByData] = {
        # Thousands of kernels: validation takes an eighth of each epoch otherwise.
        "official": {"validate_every": 2},
        # A dozen kernels: two or three of them held out at a time, and some hundred steps.
        "small": {"folds_total": 5, "score_training": True, "epochs": 60.0},
    }

    # stage 2
    epochs: float = setting(17.5, "passes over the training kernels, also parts of one", 1e-3)
    configurations: int = setting(
        128, "configurations sampled of each kernel of a step", 2, search=among(32, 64, 128, 256)
    )
    # stage 3
    validation_configurations: int = setting(200, VALIDATED, 2)
    inference_configurations: int = setting(8192, "configurations held at a time", first=3)
