"""The content of a complete submission: the graphs of each collection's test split."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from lib import settings
from lib.cache.format import TABLE
from lib.cache.reader import original_configurations, read_table
from lib.settings.resolved import place_of
from lib.tpugraphs.dataset import folder_of
from lib.tpugraphs.labels import read_runtimes
from lib.tpugraphs.roots import DataRoot

# Graphs of the official test splits; 894 together.
OFFICIAL_TEST = {
    "layout-xla-random": 8,
    "layout-xla-default": 8,
    "layout-nlp-random": 17,
    "layout-nlp-default": 17,
    "tile-xla": 844,
}
OFFICIAL_TOTAL = sum(OFFICIAL_TEST.values())


@dataclass(frozen=True)
class Collection:
    """One collection's part of a submission.

    Attributes:
        name: such as ``layout-xla-default``.
        identifier: what its IDs start with, such as ``layout:xla:default``.
        file: the submission that stage 4 wrote, if it did.
        root: its raw data, if there are any.
        counts: configurations of each graph of the test split.
    """

    name: str
    identifier: str
    file: Path
    root: DataRoot | None
    counts: dict[str, int]

    @property
    def ids(self) -> dict[str, int]:
        """The number of configurations by ID."""
        return {f"{self.identifier}:{graph}": n for graph, n in sorted(self.counts.items())}


def identifiers() -> dict[str, str]:
    """Return what a submission's IDs start with, such as ``layout:xla:default``, by collection."""
    return {name: name.replace("-", ":") for name in OFFICIAL_TEST}


def data_root(name: str, data: Path | None) -> DataRoot | None:
    """The data root of a collection, ``None`` if there is none.

    Raises:
        DataError: it is not what it should be.
    """
    return settings.root_of(name, data) if place_of(name, data) else None


def find_collection(
    name: str, outputs: Path, data: Path | None, model: str | None = None, experiment: str = ""
) -> Collection:
    """Return what the test split of a collection has, by its raw files or else by its cache.

    ``model`` names whose submission is meant, where its kind has that model; it is the data's
    default if none is named. ``experiment`` names of which experiment.
    """
    root, models = data_root(name, data), settings.MODELS[settings.COLLECTIONS[name]]
    files = root.files(folder_of(name), "test") if root else []
    named = model if model in models else None
    own = settings.settings_class(name, named, root.dataset if root else None)(collection=name)
    tiles = name.startswith("tile")
    known = [one for path in files for one in read_runtimes(path, tiles).items()]
    counts = {graph: len(runtimes) for graph, runtimes in known}
    if not files and (outputs / own.cache / TABLE).exists():
        rows = read_table(outputs / own.cache)
        counts = original_configurations(rows.filter(pl.col("split") == "test"))
    file = outputs / replace(own, experiment=experiment).results / "submission.csv"
    return Collection(name, identifiers()[name], file, root, counts)


def submission_of(outputs: Path, model: str | None, experiment: str) -> Path:
    """Return the path of a merged submission, which names a model that is not the plain one of its
    kind, and an experiment."""
    plain = [next(iter(models)) for models in settings.MODELS.values()]
    suffix = f"@{model}" if model and model not in plain else ""
    return outputs / f"submission{suffix}{f'+{experiment}' if experiment else ''}.csv"
