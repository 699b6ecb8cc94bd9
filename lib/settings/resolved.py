"""Resolved command lines: settings, where each value comes from, and the data, read once."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lib.files.errors import UserError
from lib.files.terminal import counted, printable, table
from lib.settings.base import Settings
from lib.settings.file import read_settings
from lib.settings.tables import (
    COLLECTIONS,
    OF_DATA,
    check_collection,
    plain_model,
    settings_class,
    settings_for,
    usual_folds,
)
from lib.tpugraphs.dataset import (
    LATENCIES,
    LAYOUTS,
    TPUGRAPHS,
    Dataset,
    count_parts,
    folder_of,
    npz_folder,
    of_programs,
    read_dataset,
)

if TYPE_CHECKING:
    from lib.tpugraphs.roots import DataRoot

ROOT = Path(__file__).resolve().parents[2]  # the repository
DOWNLOADED = ROOT / "data" / "tpugraphs"
BUNDLED = ROOT / "data" / "xla-cpu"  # layouts
BUNDLED_TPU = ROOT / "data" / "tpu-v3-sample"  # kernels, and one graph with layouts
BUNDLED_PROGRAMS = ROOT / "data" / "programs-cpu"  # tensor programs
ROOTS = (DOWNLOADED, BUNDLED, BUNDLED_TPU, BUNDLED_PROGRAMS)  # looked in, most wanted first


@dataclass(frozen=True)
class Resolved:
    """The meaning of a command line.

    Attributes:
        settings: all values.
        from_file, flags: those that the settings file and the command line gave.
        dataset: what the data say of themselves; official if there are none.
        data: the data root that the user named, if any.
        place: the data root, and the folder in it that raw files lie below; ``None`` if none is.
    """

    settings: Settings
    from_file: Mapping[str, Any]
    flags: Mapping[str, Any]
    dataset: Dataset
    data: Path | None
    place: tuple[Path, Path] | None

    def root(self) -> DataRoot:
        """Return the data root; raises UserError if there is none; it says how to get one."""
        if self.place is None:
            return root_of(self.settings.collection, self.data)
        from lib.tpugraphs.roots import DataRoot  # late, as in root_of

        return DataRoot(*self.place, self.dataset)

    @property
    def given(self) -> dict[str, Any]:
        """The settings that were given, by field name."""
        return {**self.from_file, **self.flags}

    def choice(self) -> str:
        """Return one line: which model is meant, and why."""
        settings, dataset = self.settings, self.dataset
        why = settings.evidence or f"the default for {settings.kind} collections"
        if "{programs}" in why:
            folder = folder_of(settings.collection)  # to learn from
            programs = count_parts(self.root().path, folder, str, sys.maxsize)
            why = why.format(programs=counted(programs, "program"))
        why = "as --model says" if "model" in self.flags else why
        where = self.root().path
        text = f"{settings.model} ({why}) on {settings.collection} of {dataset.name}, {where}"
        if guessed := [f"{n} {getattr(dataset, n)}" for n in OF_DATA if n in dataset.guessed]:
            text += f"; guessed, for its dataset.json does not say: {', '.join(guessed)}"
        usual = usual_folds(settings.collection, type(settings), dataset)
        if settings.folds_total < usual and "folds_total" not in self.given:
            what = "families" if settings.keep_together == "family" else "graphs"
            text += f"; {settings.folds_total} folds, not {usual}: no more {what} can be ranked"
        return printable(text)

    def text(self) -> str:
        """Return every setting and its value as aligned text."""
        values = dataclasses.asdict(self.settings).items()
        rows = [[name.replace("_", "-"), str(value)] for name, value in values]
        return table(rows, ["setting", "value"])


def resolve(args: argparse.Namespace, dataset: Dataset | None = None) -> Resolved:
    """Return the meaning of a parsed command line; the settings file and ``dataset.json`` are read
    once.

    With ``--show`` the settings are printed, and the process ends.

    Args:
        args: of :func:`lib.settings.flags.parser`, or some of what that has.
        dataset: what is known of data that are not at hand.

    Raises:
        UserError: for an unknown collection or model, a value out of range (if it is the settings
            file's fault, it names that), or more ``--folds``, if the stage has that flag, than
            there are. Whether there are data, :meth:`Resolved.root` says.
        DataError: the settings file or ``dataset.json`` is something else.
    """
    place = None if dataset else place_of(args.collection, args.data)
    data = dataset or (read_dataset(place[0]) if place else TPUGRAPHS)
    kind = settings_class(args.collection, getattr(args, "model", None), data)
    names = [setting.name for setting in dataclasses.fields(kind) if "help" in setting.metadata]
    flags = {name: getattr(args, name) for name in names if hasattr(args, name)}
    path = getattr(args, "settings", None)
    from_file = read_settings(path, args.collection, kind) if path else {}
    try:
        settings = settings_for(args.collection, data, {**from_file, **flags})
    except UserError as error:
        settings_for(args.collection, data, flags)
        raise UserError(f"{path}: {error}") from None  # without the file it goes
    count, most = getattr(args, "folds", None), settings.folds_total
    if count is not None and not 1 <= count <= most:
        raise UserError(f"--folds {count} (FOLDS of make): must be from 1 to --folds-total, {most}")
    from_file, flags = (
        {name: getattr(settings, name) for name in given} for given in (from_file, flags)
    )
    resolved = Resolved(settings, from_file, flags, data, args.data, place)
    if getattr(args, "show", False):
        print(resolved.text())
        if place:
            print(resolved.choice())
        sys.exit()
    return resolved


def place_of(collection: str, data: Path | None) -> tuple[Path, Path] | None:
    """Return the data root of a collection, ``data`` or else the first of :data:`ROOTS` that has
    it, and the folder in it that raw files lie below; :class:`UserError` for an unknown collection.
    """
    check_collection(collection)
    return npz_folder([data] if data else ROOTS, folder_of(collection))


def dataset_for(collection: str, data: Path | None) -> Dataset:
    """Return what the data of a collection state of themselves; official if there are none.

    Raises:
        UserError: for an unknown collection.
        DataError: a ``dataset.json`` is something else.
    """
    place = place_of(collection, data)
    return read_dataset(place[0]) if place else TPUGRAPHS


def root_of(collection: str, data: Path | None) -> DataRoot:
    """Return the data root of a collection: ``data``, else the downloaded one, else a bundled one;
    raises UserError for an unknown collection or a missing root.
    """
    place = place_of(collection, data)
    if place is None:
        folder = folder_of(collection)
        raw = f"{LAYOUTS[0]}/{folder}/train/*.npz (nor {LAYOUTS[1]}/...)"
        missing = LATENCIES if of_programs(folder) else raw
        to = (data or DOWNLOADED.relative_to(ROOT)) / "npz" / folder / "train"
        hint = plain_model(collection).how_to_get.format(collection=collection, folder=to)
        looked = data or " or ".join(map(str, ROOTS))
        if data and (others := [name for name in COLLECTIONS if place_of(name, data)]):
            hint = f"it has COLLECTION={' and COLLECTION='.join(others)}"
        raise UserError(f"{looked}: no {missing} there; {hint}")
    # Late: Make asks for settings before there is an environment with the libraries of this one.
    from lib.tpugraphs.roots import DataRoot

    return DataRoot(*place, read_dataset(place[0]))
