"""The description of a data root: ``dataset.json`` at its top.

A root without one is official TpuGraphs, if its graphs are called so. Defaults follow from it
(:mod:`lib.settings.tables`), so that data of one's own need no flags. Only the standard library is
needed: Make asks before there is an environment.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from lib.files.artifacts import read_json
from lib.files.errors import DataError, UserError
from lib.files.schema import expect

FILE = "dataset.json"
KIND_OF_PROGRAMS = "programs"  # the kind of collections of tensor programs
SUFFIXES = (".npz", ".pb")  # of raw files
SPLITS = ("train", "valid", "test")
LEARNING = SPLITS[:2]  # splits that folds are dealt of
# Why nothing can be ranked in a graph.
UNLABELLED = "no runtimes"
SAME = "all its configurations are the same"
EVEN = "all its configurations ran equally fast"
MEASUREMENTS = "measurements.parquet"  # runtimes that are not in the raw files
LATENCIES = "latencies.parquet"  # at the top of a root of tensor programs
LAYOUTS = ("npz_all/npz", "npz", ".")  # as Kaggle's zip and the official tars unpack
LAYOUT_COLLECTIONS = tuple(
    f"layout-{source}-{search}" for source in ("xla", "nlp") for search in ("random", "default")
)
WORDS = {"size": ("official", "small"), "hardware": ("tpu", "cpu")}  # what these may say


@dataclass(frozen=True)
class Dataset:
    """A set of measured graphs.

    Attributes:
        name: what people call it.
        size: ``official``: hundreds of graphs of thousands of nodes and configurations, as in
            TpuGraphs; ``small``: dozens of graphs that a laptop trains on in minutes.
        hardware: the kind that was measured on, ``tpu`` or ``cpu``.
        processor: which one.
        compiler: that made the programs.
        labels: how runtimes were measured.
        source, licence: of the data.
        collections: of layouts, that the root has raw files of; no part of ``dataset.json``.
        root: where it is, ``None`` of data that are not at hand; no part of it either.
        guessed: the fields that ``dataset.json`` does not have.
    """

    name: str
    size: str
    hardware: str
    processor: str
    compiler: str
    labels: str
    source: str
    licence: str
    collections: tuple[str, ...] = field(default=(), compare=False)
    root: Path | None = field(default=None, compare=False)
    guessed: tuple[str, ...] = field(default=(), compare=False)


SAID = tuple(f.name for f in dataclasses.fields(Dataset) if f.compare)  # in dataset.json
TPUGRAPHS = Dataset(
    name="TpuGraphs",
    size="official",
    hardware="tpu",
    processor="TPU v3",
    compiler="XLA",
    labels="the minimum of a few runs on the machine",
    source="https://github.com/google-research-datasets/tpu_graphs",
    licence="Apache-2.0",
)

# An example for roots without a description, and what is guessed of absent fields.
EXAMPLE = {
    "name": "mine",
    "size": "small",
    "hardware": "tpu",
    "processor": "TPU v4",
    "compiler": "XLA",
    "labels": "fastest of three runs",
    "source": "measured by me",
    "licence": "none",
}
UNSAID = {"compiler": "XLA", "labels": "not said", "source": "not said", "licence": "not said"}
# Names of official graphs: of the test splits, of language models, of XLA's benchmarks by chips and
# precision or by batch, of kernels, and some that are like no others.
OFFICIAL_NAME = re.compile(
    r"[0-9a-f]{32}|.+_batch_size_\d+_(train|test)|.+\.\dx\d\.(bf16|fp16|fp32)\b.*"
    r"|.+_batch_\d+_(train|bf16|\dx\d)|.+_-?[0-9a-f]{14,16}"
    r"|tf2_bert_pretrain_dynamic_.+|openai_v0_rnn_.+|unet3d"
)


def read_dataset(root: Path) -> Dataset:
    """Return the description of a root, or :data:`TPUGRAPHS`; absent fields are guessed.

    Raises:
        UserError: it says nothing, and none of its graphs has an official name.
        DataError: ``dataset.json`` is something else.
    """
    path = root / FILE
    collections = tuple(name for name in LAYOUT_COLLECTIONS if npz_folder([root], folder_of(name)))
    if not path.exists() and not path.is_symlink():
        if not any(OFFICIAL_NAME.fullmatch(name) for name in _graphs_in(root)):
            raise UserError(
                f"{root}: no {FILE}, and no graph has an official name: say what the data are, by "
                f"`echo '{json.dumps(EXAMPLE)}' >{path}`; size alone will do "
                f"(docs/how-to/own-data.md)"
            )
        return dataclasses.replace(TPUGRAPHS, collections=collections, root=root)
    document = read_json(path)
    if isinstance(document, dict) and document.get("kind") == KIND_OF_PROGRAMS:
        texts = ("compiler", "labels", "source", "licence")
        expect(document, {"name?": str, **dict.fromkeys(texts, str), "hardware": [str]}, path)
        fields = {name: document[name] for name in texts}
        fields["name"] = document.get("name", root.resolve().name)
        measured = ", ".join(document["hardware"])
        return Dataset(**fields, size="small", hardware="cpu", processor=measured)
    expect(document, {"size": str} | {f"{name}?": str for name in SAID}, path)
    for name in document:
        if name not in SAID:
            raise DataError(path, ascii(name)[:60], "no such key", f"one of {', '.join(SAID)}")
    for name, words in WORDS.items():
        if document.get(name, words[0]) not in words:
            raise DataError(path, name, repr(document[name])[:60], f"one of {', '.join(words)}")
    hardware = document.get("hardware", "tpu")
    guessed = {"name": root.resolve().name, "hardware": hardware, "processor": hardware.upper()}
    fields = guessed | UNSAID | document
    absent = tuple(name for name in SAID if name not in document)
    return Dataset(**fields, collections=collections, root=root, guessed=absent)


def dataset_text(dataset: Dataset) -> str:
    """Return the text of ``dataset.json``."""
    fields = {name: getattr(dataset, name) for name in SAID}
    return json.dumps(fields, indent=2, sort_keys=True) + "\n"


def folder_of(collection: str) -> Path:
    """A collection's folder below a root's ``npz``: ``layout/xla/default``."""
    return Path(*collection.split("-"))


def npz_folder(roots: Iterable[Path], folder: Path) -> tuple[Path, Path] | None:
    """The first of some roots that has raw files of a collection's ``train`` split, and its npz.

    ``folder`` is below that, such as ``layout/xla/default``; tensor programs are tables at the
    root's top.
    """
    for root in roots:
        if of_programs(folder) and (root / LATENCIES).is_file():
            return root, root
        for layout in LAYOUTS:
            if any(map(_is_raw, _names_in(root / layout / folder / "train"))):
                return root, root / layout
    return None


def of_programs(folder: Path) -> bool:
    """Return whether a collection's folder is that of tensor programs."""
    return folder.parts[0] == KIND_OF_PROGRAMS


def _graphs_in(root: Path) -> Iterable[str]:
    """Names of the graphs of a root, of any collection of layouts or tiles and any split."""
    collections = (*LAYOUT_COLLECTIONS, "tile-xla")
    for layout, collection, split in product(LAYOUTS, collections, SPLITS):
        for name in filter(_is_raw, _names_in(root / layout / folder_of(collection) / split)):
            yield name[: name.rindex(".")]


def raw_files(folder: Path) -> list[Path]:
    """Raw files in ``folder``: every npz, and a protobuf where no npz has its name."""
    names = sorted(filter(_is_raw, _names_in(folder)), key=lambda name: name.endswith(".npz"))
    by_name = {name[: name.rindex(".")]: name for name in names}  # an npz beats what came before
    return [folder / by_name[name] for name in sorted(by_name)]


def count_parts(root: Path, folder: Path, part: Callable[[str], str], enough: int) -> int:
    """Return how many parts the graphs of a collection make, and no more than ``enough``.

    ``part`` gives the part of a graph by its name: itself, or its family. Graphs in which
    nothing can be ranked count too, for no file is read.
    """
    place = npz_folder([root], folder)
    if place is None or of_programs(folder):
        return enough
    paths = [path for split in LEARNING for path in raw_files(place[1] / folder / split)]
    if folder.parts[0] == "tile" and any(path.suffix != ".npz" for path in paths):
        return enough  # a protobuf has any number of kernels
    return min(enough, len({part(path.name.removesuffix(path.suffix)) for path in paths}))


def sizes_and_times(root: Path, npz: Path, folder: Path) -> dict[str, list[int]]:
    """Return the state of each raw file of a collection, by split and name.

    It shows that a file was added, removed or changed, without any being read: bytes, times (ns) of
    its content and of its entry, and which file of which disk it is.
    """
    if of_programs(folder):
        files = [root / FILE, *sorted(root.glob("*.parquet"))]
    else:
        files = [path for split in SPLITS for path in raw_files(npz / folder / split)]
    known = {}
    for path in files:
        known[f"{path.parent.name}/{path.name}"] = [-1]
        with suppress(OSError):  # whoever reads it says why it cannot be
            s = path.stat()
            state = [s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino, s.st_dev]
            known[f"{path.parent.name}/{path.name}"] = state
    return known


def _names_in(folder: Path) -> list[str]:
    """Return the names in a folder; nothing if it is none, or not to be looked into."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []


def _is_raw(name: str) -> bool:
    return name.endswith(SUFFIXES) and not name.startswith(".")
