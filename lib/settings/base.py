"""Settings that every collection has, and the way in which a setting is declared."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from lib.files.errors import UserError
from lib.ranking.folds import TOGETHER
from lib.settings.search import Search, among, between
from lib.systems import SYSTEMS
from lib.tpugraphs.dataset import folder_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

BLENDINGS = ("mean", "standardized")  # the methods of lib/ranking/blending.py
BLENDED = f"scale of the blended scores: {', '.join(BLENDINGS)}"
OPTIMIZERS = ("adamw", "adam")  # lib/training/fold.py
SCHEDULES = ("cosine", "cyclic")  # the functions of lib/training/schedule.py
EVERY, NONE = "all", "none"  # other collections of the data root to learn from
WEIGHTS_FILES = {"last": "last.safetensors", "best": "model.safetensors"}
ByData = Mapping[str, Mapping[str, Any]]  # values of settings, by a size or hardware of data
EXPERIMENT = re.compile(r"[\w.-]{0,60}", re.ASCII)
LARGEST_SEED = 2**63 - 1
MOST = 2**31 - 1  # of any number: larger ones are mistakes, and libraries fail on them in many ways


def setting(
    default: Any,
    help: str,
    least: float = 1,
    most: float = MOST,
    words: tuple[str, ...] = (),
    choices: tuple[str, ...] = (),
    changes_results: bool = True,
    search: Search | None = None,
    first: int = 2,
) -> Any:
    """Return a field with its help; ``least`` and ``most`` bound a number, ``words`` do instead of
    one. A text is one of ``choices``, if there are any.

    ``search`` is how ``make tune`` searches it, if it does; ``first`` is the first stage that reads
    it, whose results and those of later ones depend on it.
    One that does not change results is no part of what they are described by, see
    :func:`described`.
    """
    parse = _number_or(words) if words else type(default)
    metadata: dict[str, Any] = {"help": help, "parse": parse, "choices": choices}
    metadata |= {"changes_results": changes_results, "search": search, "first": first}
    if words or type(default) in (int, float):
        metadata |= {"least": least, "most": most, "words": words}
    return field(default=default, metadata=metadata)


def choice(default: str, help: str, choices: tuple[str, ...]) -> Any:
    """Return a field that is one of some words, which its help names and a search tries."""
    shown = f"{help}: {', '.join(choices)}"
    return setting(default, shown, choices=choices, search=among(*choices))


def _number_or(words: tuple[str, ...]) -> Callable[[str], int | str]:
    """Return a parser of a whole number or one of ``words``."""

    def parse(text: str) -> int | str:
        return text if text in words else int(text)

    parse.__name__ = " or ".join(("int", *words))  # argparse's messages name it
    return parse


def described(settings: DataclassInstance) -> dict[str, Any]:
    """Return the settings that results depend on, by name.

    Args:
        settings: a :class:`Settings`, or another dataclass, of which all fields count.
    """
    return {
        setting.name: getattr(settings, setting.name)
        for setting in dataclasses.fields(settings)
        if setting.metadata.get("changes_results", True)
    }


def wanted_range(setting: Field, value: Any) -> str:
    """Return the range that a value is not in; empty if it is within its setting's bounds."""
    bounds = setting.metadata
    least, most = bounds.get("least"), bounds.get("most")
    if least is None or most is None or value in bounds["words"] or least <= value <= most:
        return ""
    if most >= MOST and not value > most:
        return f"at least {least:g}"
    return f"from {least:g} to {most:g}"


def check_heads(channels: int, heads: int) -> None:
    """Raise a :class:`UserError` unless each head gets equally many channels."""
    if channels % heads:
        raise UserError(f"--channels {channels}: must be a multiple of {heads}, the heads")


@dataclass(frozen=True)
class Settings:
    """Settings of every kind of collection; defaults are the paper's for official data.

    Section numbers are those of the TGraph paper. Stages look up what they need for a
    collection by its ``kind`` (:mod:`lib.systems`).
    """

    kind: ClassVar[str]
    # Code that the model runs, as lib/files/named.py reads it: its network's class, how it sees a
    # cached graph (lib/models/common/input.py), and its fold (lib/training/fold.py).
    network: ClassVar[str]
    input: ClassVar[str]
    fold: ClassVar[str]
    metric: ClassVar[str]  # of a graph in validation: what epochs and folds are compared by
    # A cache is of use only with the settings that it was made with.
    cache_depends_on: ClassVar[tuple[str, ...]] = ("collection",)
    # Settings that :attr:`others` depends on, whose caches are read as well.
    others_depend_on: ClassVar[tuple[str, ...]] = ()
    higher_is_better: ClassVar[bool] = True  # of that metric
    graphs: ClassVar[str] = "graphs"  # what people call them
    table: ClassVar[str] = "submission.csv"  # stage 4 writes it, besides metrics and report
    # Where torch-scatter adds up for its networks: on a `gpu`, for a CPU has compiled loops, or
    # gains too little by it (2.5 % of a step of `tile`); on `any` device; or nowhere.
    scatter: ClassVar[str] = ""
    # What suits data better than the defaults. A class beats its bases, a hardware beats a size.
    fits: ClassVar[ByData] = {}
    implied: ClassVar[ByData] = {}  # values that a switch sets, by its name
    hardware_of: ClassVar[tuple[str, ...]] = ("cpu", "tpu")  # whose programs it can learn from
    # It is the default only where a collection has so many programs, and why it is then, with a
    # place for `{programs}`, how many there are.
    least_programs: ClassVar[int] = 0
    evidence: ClassVar[str] = ""
    score_digits: ClassVar[int] = 4  # of the scores that make rank shows: equal ones share a rank
    how_to_get: ClassVar[str] = "name a folder that has it with DATA=path"  # the raw data

    collection: str
    model: str = setting("", "network, one of those in lib/models")
    experiment: str = setting(
        "", "its name: its results lie apart, and W&B groups runs by it", changes_results=False
    )
    seed: int = setting(
        0, "seed of folds, initial weights, sampling and permutations", 0, LARGEST_SEED
    )
    threads: int = setting(
        1, "torch threads of one fold; the same number gives the same bits", most=1024
    )
    device: str = setting("auto", "`cpu`, `cuda`, or `auto`: a GPU where there is one")
    # folds (2.4.3)
    folds_total: int = setting(20, "K: parts that the graphs are split into (2.4.3)", 2)
    keep_together: str = setting(
        "graph", f"what is never split between folds: {' or '.join(TOGETHER)}", choices=TOGETHER
    )
    # stage 3
    weights: str = setting(
        "last", "weights to score with: `last`, or `best` in validation", choices=(*WEIGHTS_FILES,)
    )
    score_training: bool = setting(False, "score a fold's training graphs as well", first=3)
    # stage 4 (2.4.3)
    best_folds: int = setting(4, "trained folds that are blended, best validation first", first=4)
    blending: str = setting("mean", BLENDED, choices=BLENDINGS, first=4)

    @property
    def folder(self) -> Path:
        """The folder of the raw files, below a data root's ``npz``."""
        return folder_of(self.collection)

    @property
    def results(self) -> str:
        """The folder of the results, below the outputs: models of a collection lie side by side,
        and experiments of a model do."""
        plain = self.model == SYSTEMS[self.kind].plain
        model = self.collection if plain else f"{self.collection}@{self.model}"
        return f"{model}+{self.experiment}" if self.experiment else model

    @property
    def cache(self) -> Path:
        """The folder of the cache, below the outputs; models with equal settings share it."""
        return Path(self.collection, "cache")

    @property
    def others(self) -> dict[str, Path]:
        """The caches, below the outputs, of other collections that are learned from, by name."""
        return {}

    @property
    def pretrained_on(self) -> Path | None:
        """A file that a new network is pretrained on; ``None`` if there is none."""
        return None

    @property
    def identifier(self) -> str:
        """The start of a submission's IDs, such as ``layout:xla:default``."""
        return self.collection.replace("-", ":")

    def check(self) -> None:
        """Raise a :class:`UserError` if a value is out of range, or does not go with another."""
        for setting in dataclasses.fields(self):
            value, flag = getattr(self, setting.name), f"--{setting.name.replace('_', '-')}"
            if expected := wanted_range(setting, value):
                raise UserError(f"{flag} {value}: must be {expected}")
            words = setting.metadata.get("choices")
            if words and value not in words:
                raise UserError(f"{flag} {value!r}: must be one of {', '.join(words)}")
        if not EXPERIMENT.fullmatch(self.experiment):
            expected = "must be up to 60 letters, digits and _ . -"
            raise UserError(f"--experiment {self.experiment!r} (EXPERIMENT of make): {expected}")


@dataclass(frozen=True)
class TrainedSettings(Settings):
    """Settings of networks that are trained by steps (2.4), which 02_train.py takes."""

    epochs: float = setting(1.0, "passes over the training graphs (2.4.2)")
    learning_rate: float = setting(
        1e-3,
        "peak of the learning rate (2.4.2)",
        0,
        1,
        search=between(1e-4, 2e-2, logarithmic=True),
    )
    schedule: str = choice("cosine", "of the learning rate after its rise", SCHEDULES)
    optimizer: str = choice("adamw", "what takes the steps", OPTIMIZERS)
    weight_decay: float = setting(
        1e-5,
        "weight decay of all parameters but biases (2.4.2)",
        0,
        1,
        search=between(1e-6, 0.3, logarithmic=True),
    )
    warmup: float = setting(
        0.05, "share of the steps with rising rate (2.4.2)", 0, 1, search=between(0, 0.3)
    )
    gradient_clip: float = setting(
        1.0, "largest gradient norm (2.4.2)", 1e-6, search=between(0.1, 10, logarithmic=True)
    )
    validate_every: int = setting(1, "epochs between validations")
    save_seconds: float = setting(
        20.0,
        "seconds between saves that a killed run resumes; 0: each epoch",
        0,
        changes_results=False,
    )
