"""What a data root says of itself: ``dataset.json`` at its top.

A root without one is official TpuGraphs. Defaults follow from it (:mod:`lib.settings.tables`), so
that data of one's own need no flags. Only the standard library is needed: Make asks before there
is an environment.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lib.files.artifacts import atomic_file, read_json
from lib.files.errors import DataError
from lib.files.schema import expect

FILE = "dataset.json"
PROGRAMS = "programs"  # the kind of collections of tensor programs
SUFFIXES = (".npz", ".pb")  # of raw files
LATENCIES = "latencies.parquet"  # at the top of a root of tensor programs (lib/tensorir/records.py)
LAYOUTS = ("npz_all/npz", "npz", ".")  # as Kaggle's zip and the official tars unpack
LAYOUT_COLLECTIONS = tuple(
    f"layout-{source}-{search}" for source in ("xla", "nlp") for search in ("random", "default")
)
WORDS = {  # what some fields may say
    "size": ("official", "small"),
    "hardware": ("tpu", "cpu"),
    "propagation": ("spread", "return"),
}


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
        propagation: how far configured layouts reach there: they ``spread`` to what lies around
            them, or data ``return`` at once (:mod:`lib.compiler.propagation`).
        labels: how runtimes were measured.
        source, licence: of the data.
        collections: of layouts, that the root has raw files of; no part of ``dataset.json``.
        root: where it is, ``None`` of data that are not at hand; no part of it either.
    """

    name: str
    size: str
    hardware: str
    processor: str
    compiler: str
    propagation: str
    labels: str
    source: str
    licence: str
    collections: tuple[str, ...] = field(default=(), compare=False)
    root: Path | None = field(default=None, compare=False)


SAID = tuple(one.name for one in dataclasses.fields(Dataset) if one.compare)  # in dataset.json
TPUGRAPHS = Dataset(
    name="TpuGraphs",
    size="official",
    hardware="tpu",
    processor="TPU v3",
    compiler="XLA",
    propagation="spread",
    labels="the minimum of a few runs on the machine",
    source="https://github.com/google-research-datasets/tpu_graphs",
    licence="Apache-2.0",
)


def read_dataset(root: Path) -> Dataset:
    """What a root says of itself; :data:`TPUGRAPHS` if it says nothing.

    Raises:
        DataError: ``dataset.json`` is something else.
    """
    path = root / FILE
    collections = tuple(one for one in LAYOUT_COLLECTIONS if npz_folder([root], folder_of(one)))
    if not path.exists() and not path.is_symlink():
        return dataclasses.replace(TPUGRAPHS, collections=collections, root=root)
    found = read_json(path)
    if isinstance(found, dict) and found.get("kind") == PROGRAMS:
        return _of_programs(found, path)
    expect(found, dict.fromkeys(SAID, str), path)
    for name, words in WORDS.items():
        if found[name] not in words:
            raise DataError(path, name, repr(found[name])[:60], f"one of {', '.join(words)}")
    return Dataset(**{name: found[name] for name in SAID}, collections=collections, root=root)


def _of_programs(found: dict[str, Any], path: Path) -> Dataset:
    """What a root of tensor programs says, which were measured on CPUs."""
    texts = ("name", "compiler", "labels", "source", "licence")
    expect(found, {**dict.fromkeys(texts, str), "hardware": [str]}, path)
    return Dataset(
        **{name: found[name] for name in texts},
        size="small",
        hardware="cpu",
        processor=", ".join(found["hardware"]),
        propagation="return",
    )


def write_dataset(root: Path, dataset: Dataset) -> None:
    """Write ``dataset.json`` into a root, whole or not at all."""
    with atomic_file(root / FILE) as path:
        path.write_text(dataset_text(dataset))


def dataset_text(dataset: Dataset) -> str:
    """What stands in ``dataset.json``."""
    said = {name: getattr(dataset, name) for name in SAID}
    return json.dumps(said, indent=2, sort_keys=True) + "\n"


def folder_of(collection: str) -> Path:
    """A collection's folder below a root's ``npz``: ``layout/xla/default``."""
    return Path(*collection.split("-"))


def npz_folder(roots: Iterable[Path], folder: Path) -> tuple[Path, Path] | None:
    """The first of some roots that has raw files of a collection's ``train`` split, and its npz.

    Args:
        roots: most wanted first.
        folder: the collection's, below the root's ``npz``, such as ``layout/xla/default``; tensor
            programs are tables at the root's top.
    """
    for root in roots:
        if of_programs(folder) and (root / LATENCIES).is_file():
            return root, root
        for layout in LAYOUTS:
            if any(_is_raw(name) for name in _names_in(root / layout / folder / "train")):
                return root, root / layout
    return None


def of_programs(folder: Path) -> bool:
    """Whether a collection's folder is that of tensor programs."""
    return folder.parts[0] == PROGRAMS


def dataset_of(roots: Sequence[Path], folder: Path) -> Dataset:
    """The dataset of the first root that has a collection; official if none has."""
    found = npz_folder(roots, folder)
    return read_dataset(found[0]) if found else TPUGRAPHS


def raw_files(folder: Path) -> list[Path]:
    """Raw files in ``folder``: every npz, and a protobuf where no npz has its name."""
    by_name: dict[str, str] = {}
    names = [name for name in _names_in(folder) if _is_raw(name)]
    for suffix in SUFFIXES:
        for name in names:
            if name.endswith(suffix):
                by_name.setdefault(name.removesuffix(suffix), name)
    return [folder / by_name[name] for name in sorted(by_name)]


def _names_in(folder: Path) -> list[str]:
    """What a folder has; nothing if it is none, or not to be looked into."""
    try:
        with os.scandir(folder) as found:
            return [one.name for one in found]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []


def _is_raw(name: str) -> bool:
    return name.endswith(SUFFIXES) and not name.startswith(".")
