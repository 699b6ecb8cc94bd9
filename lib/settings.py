"""What a collection is, and every hyper-parameter of it, once.

A setting has a value for official data (the paper's) and, where small data wants another, one
for the bundled measurements. Every stage takes every setting as a flag of the same name, so that
the dataclass of the collection's kind below is also the command line's help.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from lib.errors import DataError, UserError
from lib.tpugraphs.roots import DataRoot, find_root

ROOT = Path(__file__).resolve().parent.parent  # the repository
BUNDLED = ROOT / "data" / "xla-cpu"
DOWNLOADED = ROOT / "data" / "tpugraphs"
WHOLE = "all"  # hops that keep every node
CUTS = ("length", "splits")  # every K nodes, or at the file's node_splits as well
BLENDINGS = ("mean", "standardized", "min-max", "rank")  # the methods of lib/blending.py


def _setting(
    default: Any,
    help: str,
    least: float = 1,
    most: float = math.inf,
    words: tuple[str, ...] = (),
) -> Any:
    """A field with its help; ``least`` and ``most`` bound a number, ``words`` do instead of one."""
    about: dict[str, Any] = {"help": help, "parse": _number_or(words) if words else type(default)}
    if words or type(default) in (int, float):
        about |= {"least": least, "most": most, "words": words}
    return field(default=default, metadata=about)


def _number_or(words: tuple[str, ...]) -> Callable[[str], int | str]:
    """What reads a flag that is a whole number or one of ``words``."""

    def parse(text: str) -> int | str:
        return text if text in words else int(text)

    parse.__name__ = " or ".join(("int", *words))  # argparse's messages name it
    return parse


@dataclass(frozen=True)
class Settings:
    """What every kind of collection has; defaults are the paper's for official data.

    Section numbers are those of the TGraph paper. The wings look up what they need for a
    collection by its ``kind``.
    """

    kind: ClassVar[str]
    metric: ClassVar[str]  # of a graph in validation: what epochs and folds are compared by
    # A cache is of use only with the settings that it was made with ...
    cache_depends_on: ClassVar[tuple[str, ...]] = ("collection",)
    how_to_get: ClassVar[str] = "name a folder that has it with DATA=path"  # the raw data
    # ... and a network only with those that it was trained with.
    weights_depend_on: ClassVar[tuple[str, ...]] = ("collection", "model", "seed", "folds_total")

    collection: str
    model: str = _setting("", "network, one of those in lib/model")
    seed: int = _setting(0, "seed of folds, initial weights, sampling and permutations", 0)
    threads: int = _setting(1, "torch threads of one fold; the same number gives the same bits")
    device: str = _setting("auto", "`cpu`, `cuda`, or `auto`: a GPU where there is one")
    # stage 2 (2.4)
    epochs: float = _setting(1.0, "passes over the training graphs (2.4.2)")
    learning_rate: float = _setting(1e-3, "peak of AdamW's (2.4.2)", 0, 1)
    weight_decay: float = _setting(1e-5, "of parameters that are not biases (2.4.2)", 0, 1)
    warmup: float = _setting(0.05, "share of the steps with rising rate (2.4.2)", 0, 1)
    gradient_clip: float = _setting(1.0, "largest gradient norm (2.4.2)", 1e-6)
    folds_total: int = _setting(20, "K: parts that the graphs are dealt to (2.4.3)", 2)
    validate_every: int = _setting(1, "epochs between validations")
    # stage 3
    weights: str = _setting("last", "weights to score with: `last`, or `best` in validation")
    score_training: bool = _setting(False, "score a fold's training graphs as well")
    # stage 4 (2.4.3)
    best_folds: int = _setting(4, "trained folds that are blended, best validation first")
    blending: str = _setting(
        "mean", "scale of the blended scores: mean, standardized, min-max, rank"
    )

    @property
    def folder(self) -> Path:
        """Where the raw files are, below a data root's ``npz``."""
        return Path(*self.collection.split("-"))

    @property
    def results(self) -> str:
        """The folder of the results, below the outputs: models of a collection lie side by side."""
        first = next(iter(MODELS[self.kind]))
        return self.collection if self.model == first else f"{self.collection}@{self.model}"

    @property
    def cache(self) -> Path:
        """The folder of the cache, below the outputs; models with equal settings share it."""
        return Path(self.collection, "cache")

    @property
    def identifier(self) -> str:
        """What a submission's IDs start with, such as ``layout:xla:default``."""
        return self.collection.replace("-", ":")

    def check(self) -> None:
        """Raise a :class:`UserError` if a value is out of range, or does not go with another."""
        for one in dataclasses.fields(self):
            value = getattr(self, one.name)
            least, most = (one.metadata.get(bound) for bound in ("least", "most"))
            if least is None or value in one.metadata["words"]:
                continue
            if not least <= value <= most:
                top = f"at least {least:g}" if math.isinf(most) else f"from {least:g} to {most:g}"
                raise UserError(f"--{one.name.replace('_', '-')} {value}: must be {top}")
        if self.weights not in WEIGHTS_FILES:
            names = ", ".join(WEIGHTS_FILES)
            raise UserError(f"--weights {self.weights!r}: must be one of {names}")
        if self.blending not in BLENDINGS:
            names = ", ".join(BLENDINGS)
            raise UserError(f"--blending {self.blending!r}: must be one of {names}")


@dataclass(frozen=True)
class SageSettings(Settings):
    """Networks of GraphSAGE blocks with attention across channels: TGraph's and the tiles'."""

    weights_depend_on: ClassVar[tuple[str, ...]] = (
        *(*Settings.weights_depend_on, "channels", "blocks"),
        *("opcode_channels", "layout_channels", "squeeze"),
    )

    # network (2.3)
    channels: int = _setting(256, "width of the residual stream (2.3.3)")
    blocks: int = _setting(2, "graph convolutional blocks (2.3.3)")
    opcode_channels: int = _setting(16, "width of an opcode's embedding (2.2.5)")
    layout_channels: int = _setting(4, "width of a layout digit's embedding (2.2.5)")
    squeeze: int = _setting(8, "reduction of channel-wise self-attention (2.3.1)")


@dataclass(frozen=True)
class LayoutCollection(Settings):
    """A layout collection: configurations set the layouts of convolutions, dots and reshapes."""

    kind: ClassVar[str] = "layout"
    metric: ClassVar[str] = "tau"
    cache_depends_on: ClassVar[tuple[str, ...]] = ("collection", "hops")

    # stage 1
    hops: int | str = _setting(
        1, "keep nodes this far from a configurable one, or `all` (2.2.1)", words=(WHOLE,)
    )
    # stage 2
    epochs: int = _setting(750, "passes over the training graphs (2.4.2)")
    configurations: int = _setting(128, "configurations sampled a step (2.2.5)")
    # stage 3
    inference_configurations: int = _setting(128, "configurations a batch of inference")

    @property
    def cache(self) -> Path:
        """See :attr:`Settings.cache`; graphs pruned otherwise than in the paper lie apart."""
        return Path(self.collection, "cache" if self.hops == 1 else f"cache-{self.hops}")


@dataclass(frozen=True)
class LayoutSettings(LayoutCollection, SageSettings):
    """TGraph, on the part of a graph that a configuration can touch."""

    model: str = _setting("tgraph", "network: the paper's `tgraph`, or one of lib/model")
    # network (2.3)
    temperature: float = _setting(0.5, "initial, of cross-configuration attention", 1e-3, 1e3)
    score_gain: float = _setting(1.0, "factor on the last layer's initial weights", 1e-3, 1e3)
    precision: str = _setting("auto", "of matrix products: `float32`, `bfloat16`, or `auto`")
    # stage 3 (2.5.3)
    permutations: int = _setting(10, "groupings of a graph's configurations to average over")

    def check(self) -> None:
        """See :meth:`Settings.check`."""
        super().check()
        if self.channels % (2 * self.squeeze):
            raise UserError(
                f"--channels {self.channels}: must be a multiple of {2 * self.squeeze}, twice "
                f"the squeeze"
            )


@dataclass(frozen=True)
class PoolingSettings(LayoutCollection):
    """The GST thesis' *Pooling Model* (section 4): a linear layer over means over the nodes."""

    model: str = _setting("pooling", "network: a linear layer over mean-pooled features")
    hops: int | str = _setting(
        WHOLE, "keep nodes this far from a configurable one, or `all`", words=(WHOLE,)
    )
    # Whole graphs are one segment, but for GST's.
    segment_nodes: ClassVar[int] = 0
    cut: ClassVar[str] = "length"


@dataclass(frozen=True)
class AttentionSettings(PoolingSettings):
    """Graph attention over the whole graph with gradients everywhere: the thesis' *GAT*."""

    weights_depend_on: ClassVar[tuple[str, ...]] = (
        *(*PoolingSettings.weights_depend_on, "channels", "layers", "heads"),
    )

    model: str = _setting("gat", "network: graph attention on the whole graph")
    channels: int = _setting(64, "width of a node's vector, of all heads together")
    layers: int = _setting(2, "layers of graph attention")
    heads: int = _setting(4, "heads of graph attention")
    memory_gigabytes: float = _setting(
        0.0, "most that a step of training may take; 0 for all that is free", 0
    )

    def check(self) -> None:
        """See :meth:`Settings.check`."""
        super().check()
        if self.channels % self.heads:
            raise UserError(
                f"--channels {self.channels}: must be a multiple of {self.heads}, the heads"
            )


@dataclass(frozen=True)
class PartitioningSettings(AttentionSettings):
    """The thesis' *Partitioning*: gradients in a random contiguous run of nodes only."""

    model: str = _setting("partitioning", "network: graph attention, trained on runs of nodes")
    trained_nodes: int = _setting(1024, "nodes of the run that gradients flow through")


@dataclass(frozen=True)
class SegmentSettings(AttentionSettings):
    """Graph segment training (algorithm 1 of the GST thesis)."""

    weights_depend_on: ClassVar[tuple[str, ...]] = (
        *(*AttentionSettings.weights_depend_on, "segment_nodes", "cut"),
    )

    model: str = _setting("gst", "network: graph attention on segments")
    segment_nodes: int = _setting(1024, "K: most nodes of a segment (algorithm 1)")
    cut: str = _setting("length", f"where to cut graphs: {' or '.join(CUTS)}")
    trained_segments: int = _setting(1, "b: segments a step that gradients flow through")
    history: bool = _setting(True, "read other segments' embeddings from a table of earlier ones")
    history_gigabytes: float = _setting(8.0, "largest size of that table, on disk", 1e-6)
    segment_dropout: float = _setting(0.0, "share of the table's embeddings left out", 0, 0.99)

    def check(self) -> None:
        """See :meth:`Settings.check`."""
        super().check()
        if self.cut not in CUTS:
            raise UserError(f"--cut {self.cut!r}: must be one of {', '.join(CUTS)}")
        if self.segment_dropout and not self.history:
            raise UserError("--segment-dropout: drops what the table remembers; use --history")


@dataclass(frozen=True)
class TileSettings(SageSettings):
    """A tile collection: configurations set the bounds of a fused kernel's tiles.

    Where no section is named the paper says nothing, and the value is ours.
    """

    kind: ClassVar[str] = "tile"
    metric: ClassVar[str] = "tile_score"
    how_to_get: ClassVar[str] = (
        "`make download COLLECTION={collection}` fetches it, and `.venv/bin/python -m "
        "lib.tpugraphs.convert FILE.pb {folder}` converts a tuning protobuf"
    )

    model: str = _setting("tile", "network: `tile`, late fusion (2.2.5)")
    # stage 2
    epochs: float = _setting(17.5, "passes over the training kernels, also parts of one", 1e-3)
    kernels: int = _setting(8, "kernels a step")
    configurations: int = _setting(128, "configurations sampled of each kernel of a step", 2)
    # stage 3
    inference_configurations: int = _setting(8192, "configurations held at a time")

    def check(self) -> None:
        """See :meth:`Settings.check`."""
        super().check()
        if self.channels % self.squeeze:
            raise UserError(
                f"--channels {self.channels}: must be a multiple of {self.squeeze}, the squeeze"
            )


# The settings of each model, by kind of collection; the first one is taken if none is named.
MODELS: dict[str, dict[str, type[Settings]]] = {
    "layout": {
        "tgraph": LayoutSettings,
        "gst": SegmentSettings,
        "pooling": PoolingSettings,
        "partitioning": PartitioningSettings,
        "gat": AttentionSettings,
    },
    "tile": {"tile": TileSettings},
}
# What differs from the defaults above, by collection: on official data (2.2.5, 2.4.2) ...
OFFICIAL: dict[str, dict[str, Any]] = {
    "layout-xla-random": {"epochs": 750, "configurations": 128},
    "layout-xla-default": {"epochs": 750, "configurations": 64},
    "layout-nlp-random": {"epochs": 1000, "configurations": 128},
    "layout-nlp-default": {"epochs": 1000, "configurations": 64},
    "tile-xla": {},
}
# ... and on the bundled measurements: a few dozen programs of a few dozen configurations each,
# and minutes, not hours. Half the width, a higher rate and a start that already tells
# configurations apart fit them in a hundred passes or less; the paper's values need many more.
# Their graphs have a few hundred nodes: segments are so small that there are several.
SMALL: dict[str, Any] = {
    "folds_total": 5,
    "score_training": True,
    "learning_rate": 5e-3,
}
SMALL_BY_MODEL: dict[str, dict[str, Any]] = {
    "tgraph": {"channels": 128, "temperature": 0.01, "score_gain": 16.0},
    "gst": {"segment_nodes": 64, "trained_segments": 2},
    "partitioning": {"trained_nodes": 128},
}
BUNDLED_VALUES: dict[str, dict[str, Any]] = {
    "layout-xla-random": {**SMALL, "epochs": 60, "configurations": 128},
    "layout-xla-default": {**SMALL, "epochs": 110, "configurations": 64},
    "layout-nlp-random": {**SMALL, "epochs": 60, "configurations": 128},
    "layout-nlp-default": {**SMALL, "epochs": 110, "configurations": 64},
}
WEIGHTS_FILES = {"last": "last.safetensors", "best": "model.safetensors"}
KINDS: dict[str, type[Settings]] = {  # of a collection, with the model taken if none is named
    **dict.fromkeys(BUNDLED_VALUES, LayoutSettings),
    "tile-xla": TileSettings,
}


def settings_class(collection: str, model: str | None = None) -> type[Settings]:
    """The settings of a model on a collection.

    Raises:
        UserError: for an unknown collection, or a model that is not one of its kind's.
    """
    check_collection(collection)
    models = MODELS[KINDS[collection].kind]
    if model is None:
        return KINDS[collection]
    if model not in models:
        raise UserError(f"--model {model!r}: not one of {', '.join(models)}")
    return models[model]


def settings_for(collection: str, bundled: bool, overrides: dict[str, Any]) -> Settings:
    """The settings of one collection.

    Args:
        collection: its name, such as ``layout-xla-default``.
        bundled: whether the data are the bundled measurements, not official ones.
        overrides: values that take precedence, by field name.

    Raises:
        UserError: for an unknown name (with the nearest known one) or a value out of range.
    """
    chosen = settings_class(collection, overrides.get("model"))
    values = OFFICIAL[collection]
    if bundled and collection in BUNDLED_VALUES:
        values = {**BUNDLED_VALUES[collection], **SMALL_BY_MODEL.get(chosen.model, {})}
    settings = chosen(collection=collection, **{**values, **overrides})
    settings.check()
    return settings


def check_trained_with(path: Path, about: dict[str, Any], settings: Settings) -> None:
    """Raise a :class:`DataError` unless weights were trained with the same network and folds.

    Args:
        path: the weights, for the message.
        about: what :func:`lib.checkpoint.load` says of them.
        settings: those of this run. With another seed or number of folds, graphs that the
            network learned from would pass for validation.
    """
    for name in settings.weights_depend_on:
        if about.get(name) != getattr(settings, name):
            flag = f"--{name.replace('_', '-')}"
            raise DataError(
                path, name, about.get(name), f"{getattr(settings, name)} as {flag} says"
            )


def cache_of(results: Path, about: dict[str, Any]) -> Path:
    """The cache that the results in a folder were made from.

    Args:
        results: ``<outputs>/<collection>[@<model>]``.
        about: the settings, as a stage recorded them.
    """
    collection = about.get("collection") or results.name.partition("@")[0]
    kind = settings_class(collection, about.get("model")) if collection in KINDS else None
    if kind is None:
        return results / "cache"
    given = {key: about[key] for key in kind.cache_depends_on if key in about}
    return results.parent / kind(**{"collection": collection, **given}).cache


def check_collection(name: str) -> None:
    """Raise a :class:`UserError` that says what to type, unless ``name`` is a collection."""
    if name not in KINDS:
        near = difflib.get_close_matches(name, KINDS, n=1, cutoff=0.3)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UserError(f"collection {name!r}: not one of {', '.join(KINDS)}{hint}")


class _Flags(argparse.ArgumentParser):
    """Tells what is wrong with a flag in one line, as every other error is told."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; {self.prog} --help names the flags")


class _StageFlags(_Flags):
    """A stage's command line, whose settings are those of the named collection and model."""

    def parse_known_args(self, args=None, namespace=None):  # what parse_args calls
        first = _Flags(prog=self.prog, add_help=False)
        first.add_argument("--collection")
        first.add_argument("--model")
        named = first.parse_known_args(args)[0]
        every = [one for models in MODELS.values() for one in models.values()]
        if named.collection in KINDS:
            every = [settings_class(named.collection, named.model)]
        known: set[str] = set()
        for one in every:
            _add_settings(self, one, known)
        return super().parse_known_args(args, namespace)


def parser(description: str) -> argparse.ArgumentParser:
    """A stage's command line: what to work on, and a flag for each setting of its kind and model.

    Which these are, ``--collection`` and ``--model`` say; without a collection, ``--help`` shows
    all models' flags.
    """
    form = argparse.ArgumentDefaultsHelpFormatter
    made = _StageFlags(description=description, formatter_class=form)
    made.add_argument("--collection", required=True, help=f"one of {', '.join(KINDS)}")
    made.add_argument("--data", type=Path, help="data root (downloaded, else bundled)")
    made.add_argument("--outputs", type=Path, default=Path("outputs"), help="where results go")
    return made


def _add_settings(made: argparse.ArgumentParser, kind: type[Settings], known: set[str]) -> None:
    """Add a group with the flags of a kind, without those in ``known``, which grows by them."""
    title = f"settings of {kind.model} on {kind.kind} collections" + (" alone" if known else "")
    group = made.add_argument_group(title, "default: what fits the collection and the data")
    for one in dataclasses.fields(kind):
        if "help" in one.metadata and one.name not in known:
            known.add(one.name)
            flag = "--" + one.name.replace("_", "-")
            about = {"help": one.metadata["help"], "default": argparse.SUPPRESS}
            if isinstance(one.default, bool):
                group.add_argument(flag, action=argparse.BooleanOptionalAction, **about)
            else:
                group.add_argument(flag, type=one.metadata["parse"], **about)


def overrides_in(args: argparse.Namespace) -> dict[str, Any]:
    """The settings that were given on the command line."""
    fields = dataclasses.fields(settings_class(args.collection, getattr(args, "model", None)))
    names = {one.name for one in fields if "help" in one.metadata}
    return {name: value for name, value in vars(args).items() if name in names}


def resolve(args: argparse.Namespace) -> tuple[Settings, DataRoot]:
    """The settings and the data root that a parsed command line means.

    Raises:
        UserError: for an unknown collection, a missing root, or a value out of range.
    """
    check_collection(args.collection)
    plain = KINDS[args.collection](collection=args.collection)
    to = (args.data or DOWNLOADED.relative_to(ROOT)) / "npz" / plain.folder / "train"
    hint = plain.how_to_get.format(collection=plain.collection, folder=to)
    root = find_root(args.data, plain.folder, (DOWNLOADED, BUNDLED), BUNDLED, hint)
    return settings_for(args.collection, root.bundled, overrides_in(args)), root
