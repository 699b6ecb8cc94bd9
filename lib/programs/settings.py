"""The settings of predictors of tensor programs' latencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lib.files.errors import UserError
from lib.settings.base import ByData, TrainedSettings, check_heads, setting
from lib.settings.search import among, between

TRANSFORMS = ("box-cox", "none")  # lib/programs/models/cdmpp.py
SIDES = ("networks", "random")
WIDTHS, HEADS = among(48, 96, 128, 192, 384), among(2, 4, 8)  # of a search; each divides each
# Of the programs in a random split: 8 to train on, 1 for validation, 1 for the test.
RANDOM_PARTS = 10


@dataclass(frozen=True)
class ProgramCollection(TrainedSettings):
    """A collection of tensor programs: what is predicted is seconds, not an order."""

    kind: ClassVar[str] = "programs"
    input: ClassVar[str] = "lib.programs.inputs:INPUT"
    fold: ClassVar[str] = "lib.programs.train:ProgramsFold"
    metric: ClassVar[str] = "mape"
    higher_is_better: ClassVar[bool] = False
    graphs: ClassVar[str] = "tasks"
    table: ClassVar[str] = "predictions.csv"
    how_to_get: ClassVar[str] = "`make collect KIND=programs` measures some"

    folds_total: int = setting(4, "K: parts that the networks are split into", 2)
    # Shares of training between which the relative error's weight rises; by default it never does.
    rising: ClassVar[tuple[float, float]] = (-1.0, 0.0)

    split: str = setting(
        "networks",
        "folds and the test are of whole `networks`, or of programs at `random`",
        choices=SIDES,
    )
    # stage 2
    batch: int = setting(
        256,
        "programs a step, all of them with equally many leaves",
        search=among(64, 128, 256, 512, 600),
    )

    def check(self) -> None:
        """Check also that a random split leaves programs to train on."""
        super().check()
        if self.split == "random" and self.folds_total >= RANDOM_PARTS:
            most = f"must be below {RANDOM_PARTS} with --split random"
            raise UserError(f"--folds-total {self.folds_total}: {most}")


@dataclass(frozen=True)
class ProgramSettings(ProgramCollection):
    """CDMPP as the paper has it, with sizes that suit a CPU."""

    network: ClassVar[str] = "lib.programs.models.cdmpp:Cdmpp"
    # Table 6, and what its code adds: no warm-up, and gradients of a norm of at most 2.
    implied: ClassVar[ByData] = {
        "paper": {
            **{"batch": 600, "learning_rate": 1.68e-5, "weight_decay": 1.3e-3},
            **{"optimizer": "adam", "schedule": "cyclic", "warmup": 0.0, "gradient_clip": 2.0},
        }
    }

    loss: ClassVar[str] = "mse+mape"  # of the table in lib/programs/losses.py (5.2)
    model: str = setting("cdmpp", "network: a Transformer over the leaves of a program's tree")
    epochs: int = setting(30, "passes over the training programs")
    learning_rate: float = setting(
        1e-3,
        "peak of the learning rate",
        least=0,
        most=1,
        search=between(1e-5, 2e-2, logarithmic=True),
    )
    # network (5.1)
    paper: bool = setting(
        False, "the sizes that the paper's search found (table 6), and its way of training"
    )
    channels: int = setting(96, "width of a leaf's vector", search=WIDTHS)
    layers: int = setting(2, "layers of the Transformer", search=between(1, 12))
    heads: int = setting(4, "heads of its attention", search=HEADS)
    dropout: float = setting(
        0.0, "share of the channels left out in training", 0, 0.99, search=between(0, 0.5)
    )
    most_leaves: int = setting(12, "numbers of leaves that have a layer of their own", most=256)
    positional: bool = setting(True, "encode where a leaf stands in the tree (4.2)")
    # training (5.2, 5.4)
    label_transform: str = setting(
        "box-cox",
        f"of latencies: {', '.join(TRANSFORMS)} (5.4)",
        choices=TRANSFORMS,
        search=among(*TRANSFORMS),
    )
    mape_weight: float = setting(
        1e-3, "lambda of the loss (equation 3)", 0, 1e6, search=between(1e-4, 1, logarithmic=True)
    )
    least_label: float = setting(0.1, "of a label that an error is divided by", 1e-6, 10)

    def check(self) -> None:
        super().check()
        check_heads(self.channels, self.heads)


@dataclass(frozen=True)
class ProgramPlusSettings(ProgramCollection):
    """CDMPP+: a network that adds leaves up, and reads which thresholds they pass."""

    network: ClassVar[str] = "lib.programs.models.cdmpp_plus:CdmppPlus"

    loss: ClassVar[str] = "relative"
    mape_weight: ClassVar[float] = 1.0
    rising: ClassVar[tuple[float, float]] = (0.3, 0.6)
    least_label: ClassVar[float] = 0.0

    model: str = setting("cdmpp-plus", "network: latency over work, leaf by leaf")
    epochs: int = setting(22, "passes over the training programs")
    batch: int = setting(128, "programs a step, all of them with equally many leaves")
    learning_rate: float = setting(1.5e-3, "peak of the learning rate", 0, 1)
    weight_decay: float = setting(1e-2, "weight decay of all parameters but biases", 0, 1)
    validate_every: int = setting(8, "epochs between validations")
    channels: int = setting(128, "width of a leaf's vector", search=WIDTHS)
    layers: int = setting(1, "layers; after each, leaves read their mean", search=between(1, 4))
    dropout: float = setting(
        0.1, "share of the channels left out in training", 0, 0.99, search=between(0, 0.5)
    )
