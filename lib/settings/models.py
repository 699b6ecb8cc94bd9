"""Every hyper-parameter of every model: a frozen dataclass each."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from lib.files.errors import UserError
from lib.settings.base import BLENDED, BLENDINGS, ByData, Settings, choice, setting
from lib.settings.search import among, between

WHOLE = "all"  # hops that keep every node
AUTO = "auto"  # epochs by how many graphs there are (lib/train/schedule.py)
EVERY, NONE = "all", "none"  # other collections of the data root to learn from
LOSS_NAMES = ("hinge", "logistic", "correlation", "logistic+correlation")  # lib/train/loss.py
HARDWARE = ("cpu", "tpu")
# Copies that were measured by themselves (lib/collect/xla/copies.py), by hardware.
COPIES = {"cpu": Path(__file__).parents[2] / "data" / "copies-cpu" / "copies.npz"}
VALIDATED = "of a graph that an epoch is validated on, the same each time; at the end, all are"


@dataclass(frozen=True)
class SageSettings(Settings):
    """Networks of GraphSAGE blocks with attention across channels: TGraph's and the tiles'."""

    weights_depend_on: ClassVar[tuple[str, ...]] = (
        *Settings.weights_depend_on,
        *("channels", "blocks", "opcode_channels", "layout_channels", "squeeze"),
    )

    loss: ClassVar[str] = "hinge"  # of lib/train/loss.py (2.4.1)

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
    # A few dozen programs of a few dozen configurations each, and minutes, not hours: a higher rate
    # fits them in ten passes. After thirty, `tgraph` ranks worse without dropout, better with it.
    fits: ClassVar[ByData] = {
        "small": {
            **{"folds_total": 5, "keep_together": "family", "score_training": True},
            **{"epochs": 10, "learning_rate": 5e-3},
        },
    }

    hardware: str = setting(
        "tpu", "that programs are compiled for, as the data say: cpu or tpu", choices=HARDWARE
    )
    # stage 1
    hops: int | str = setting(
        1, "keep nodes this far from a configurable one, or `all` (2.2.1)", words=(WHOLE,), first=1
    )
    # stage 2
    epochs: int = setting(750, "passes over the training graphs (2.4.2)")
    configurations: int = setting(
        128, "configurations sampled a step (2.2.5)", search=among(32, 64, 128)
    )
    # stage 3
    validation_configurations: int = setting(200, VALIDATED, 2)
    inference_configurations: int = setting(128, "configurations a batch of inference", first=3)

    @property
    def cache(self) -> Path:
        """Where the cache lies: graphs pruned otherwise than in the paper lie apart."""
        return Path(self.collection, "cache" if self.hops == 1 else f"cache-{self.hops}")


@dataclass(frozen=True)
class LearnedBeside(LayoutCollection):
    """A layout collection that is learned from beside others, if ``also`` names them."""

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
class LayoutSettings(LearnedBeside, SageSettings):
    """TGraph, on the part of a graph that a configuration can touch."""

    input: ClassVar[str] = "lib.inputs.pruned:INPUT"
    fold: ClassVar[str] = "lib.train.fold:GraphsFold"
    network: ClassVar[str] = "lib.models.tgraph:TGraph"
    scatter: ClassVar[str] = "gpu"
    weights_depend_on: ClassVar[tuple[str, ...]] = (
        *SageSettings.weights_depend_on,
        *("channel_attention", "cross_attention", "edges"),
    )
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


@dataclass(frozen=True)
class PlusSettings(LearnedBeside):
    """TGraph+: learned costs of what layouts make a compiler do (lib/models/plus.py)."""

    input: ClassVar[str] = "lib.inputs.copies:INPUT"
    fold: ClassVar[str] = "lib.train.copies:CopiesFold"
    network: ClassVar[str] = "lib.models.plus:TGraphPlus"
    picks: ClassVar[str] = "lib.scoring.picks:picks"
    scatter: ClassVar[str] = "gpu"
    weights_depend_on: ClassVar[tuple[str, ...]] = (
        *LayoutCollection.weights_depend_on,
        *("channels", "members", "hardware", "context_blocks", "context_channels"),
    )
    fits: ClassVar[ByData] = {
        "official": {"epochs": AUTO},
        "small": {"epochs": AUTO, "learning_rate": 2e-3, "channels": 64, "also": EVERY},
        # Prices are solved for before the first step (lib/train/products.py); steps change nothing.
        "tpu": {"epochs": 1, "learning_rate": 0.0},
    }

    model: str = setting("tgraph-plus", "network: learned costs of layout copies")
    inference_configurations: int = setting(512, "configurations a batch of inference", first=3)
    epochs: int | str = setting(  # type: ignore[assignment]
        AUTO,
        f"passes over the training graphs; `{AUTO}`: as many as make 4,000 steps, 20 at most",
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
    lessons: int = setting(
        1500, "steps of pretraining on single layout copies, where those were measured; 0: none", 0
    )

    @property
    def taught(self) -> Path | None:
        """What is learned first: copies that were measured by themselves."""
        return COPIES.get(self.hardware) if self.lessons else None


@dataclass(frozen=True)
class TileCollection(Settings):
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


@dataclass(frozen=True)
class TileSettings(TileCollection, SageSettings):
    """A network of its own for tiles: late fusion."""

    input: ClassVar[str] = "lib.inputs.kernels:INPUT"
    fold: ClassVar[str] = "lib.train.kernels:KernelsFold"
    network: ClassVar[str] = "lib.models.tile:TileNetwork"
    scatter: ClassVar[str] = "gpu"
    # One kernel a step: so, 17.5 passes over them are the published 100,000 steps.
    fits: ClassVar[ByData] = {"official": {"kernels": 1}}

    model: str = setting("tile", "network: `tile`, late fusion (2.2.5)")
    # stage 2
    kernels: int = setting(8, "kernels a step", search=among(1, 2, 4, 8, 16))

    def check(self) -> None:
        super().check()
        if self.channels % self.squeeze:
            raise UserError(
                f"--channels {self.channels}: must be a multiple of {self.squeeze}, the squeeze"
            )
