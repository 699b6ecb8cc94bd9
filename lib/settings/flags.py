"""The command line of a stage: every setting of the collection and model is a flag."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lib.files.command_line import Parser
from lib.files.errors import UserError
from lib.files.terminal import table
from lib.settings.base import Settings
from lib.settings.file import read_settings
from lib.settings.tables import (
    COLLECTIONS,
    COMMAND_LINE,
    DEFAULT,
    FEW_GRAPHS,
    MODELS,
    TOLD,
    check_collection,
    origins_of,
    plain_model,
    settings_class,
    settings_for,
    usual_folds,
)
from lib.tpugraphs.dataset import Dataset, dataset_of

if TYPE_CHECKING:
    from lib.tpugraphs.roots import DataRoot

ROOT = Path(__file__).resolve().parents[2]  # the repository
DOWNLOADED = ROOT / "data" / "tpugraphs"
BUNDLED = ROOT / "data" / "xla-cpu"  # layouts
BUNDLED_TPU = ROOT / "data" / "tpu-v3-sample"  # kernels, and one graph with layouts
PROGRAMS = ROOT / "data" / "programs-cpu"  # tensor programs
ROOTS = (DOWNLOADED, BUNDLED, BUNDLED_TPU, PROGRAMS)  # that are looked in, most wanted first


class _StageFlags(Parser):
    """A stage's command line, whose settings are those of the named collection and model."""

    def parse_known_args(self, args=None, namespace=None):
        """What parse_args calls: first the collection and model, then the flags they have."""
        first = Parser(prog=self.prog, add_help=False)
        first.add_argument("--collection")
        first.add_argument("--model")
        first.add_argument("--data", type=Path)
        first.add_argument("--show", action="store_true")
        named = first.parse_known_args(args)[0]
        every = [one for models in MODELS.values() for one in models.values()]
        if named.collection in COLLECTIONS:
            dataset = dataset_for(named.collection, named.data)
            every = [settings_class(named.collection, dataset, named.model)]
        known: set[str] = set()
        for one in every:
            _add_settings(self, one, known)
        if named.show:  # which needs no fold
            for action in self._actions:
                action.required = action.dest == "collection"
        return super().parse_known_args(args, namespace)


def parser(description: str) -> argparse.ArgumentParser:
    """A stage's command line: what to work on, and a flag for each setting of its kind and model.

    Which these are, ``--collection`` and ``--model`` say; without a collection, ``--help`` shows
    all models' flags.
    """
    form = argparse.ArgumentDefaultsHelpFormatter
    made = _StageFlags(description=description, formatter_class=form)
    made.add_argument("--collection", required=True, help=f"one of {', '.join(COLLECTIONS)}")
    made.add_argument("--data", type=Path, help="data root (downloaded, else bundled)")
    made.add_argument("--outputs", type=Path, default=Path("outputs"), help="where results go")
    file = "a TOML file of settings, such as `make tune` writes; flags beat it"
    made.add_argument("--settings", type=Path, metavar="FILE", help=file)
    shown = "print every setting, its value and where it comes from, and do no more"
    made.add_argument("--show", action="store_true", help=shown)
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


def given_in(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The settings that a command line gives, by where they stand; what beats another comes last.

    Raises:
        UserError: for an unknown collection or model.
        DataError: its settings file is none.
    """
    dataset = dataset_for(args.collection, args.data)
    chosen = settings_class(args.collection, dataset, getattr(args, "model", None))
    names = {one.name for one in dataclasses.fields(chosen) if "help" in one.metadata}
    flags = {name: value for name, value in vars(args).items() if name in names}
    path = getattr(args, "settings", None)
    from_file = {str(path): read_settings(path, args.collection, chosen)} if path else {}
    return {**from_file, COMMAND_LINE: flags}


def overrides_in(args: argparse.Namespace) -> dict[str, Any]:
    """The settings that were given on the command line, or in a file that it names."""
    return {name: value for own in given_in(args).values() for name, value in own.items()}


def chosen_by(args: argparse.Namespace, dataset: Dataset) -> Settings:
    """The settings that a parsed command line means, on data that say this of themselves.

    Raises:
        UserError: for an unknown name or a value out of range; if it is the settings file's
            fault, it names that.
    """
    given = given_in(args)
    try:
        return settings_for(args.collection, dataset, overrides_in(args))
    except UserError as error:
        settings_for(args.collection, dataset, given.pop(COMMAND_LINE))
        (path,) = given or ("",)  # without the file it goes
        raise UserError(f"{path}: {error}") from None


def resolve(args: argparse.Namespace) -> tuple[Settings, DataRoot]:
    """The settings and the data root that a parsed command line means.

    With ``--show`` the settings are printed, and the process ends.

    Raises:
        UserError: for an unknown collection, a missing root, a value out of range, or more
            ``--folds``, if the stage has that flag, than there are.
    """
    root = root_of(args.collection, args.data)
    chosen = chosen_by(args, root.dataset)
    count, most = getattr(args, "folds", None), chosen.folds_total
    if count is not None and not 1 <= count <= most:
        raise UserError(f"--folds {count} (FOLDS of make): must be from 1 to --folds-total, {most}")
    if getattr(args, "show", False):
        print(settings_text(chosen, root.dataset, args))
        print(f"data root: {root.path} ({_about(root.dataset)})")
        sys.exit()
    return chosen, root


def root_of(collection: str, data: Path | None) -> DataRoot:
    """The data root of a collection: ``data``, else the downloaded one, else the bundled one.

    Raises:
        UserError: for an unknown collection or a missing root.
    """
    # Late: Make asks for settings before there is an environment with the libraries of this one.
    from lib.tpugraphs.roots import find_root

    check_collection(collection)
    plain = plain_model(collection)(collection=collection)
    to = (data or DOWNLOADED.relative_to(ROOT)) / "npz" / plain.folder / "train"
    hint = plain.how_to_get.format(collection=collection, folder=to)
    return find_root(data, plain.folder, ROOTS, hint)


def dataset_for(collection: str, data: Path | None) -> Dataset:
    """What the data of a collection say of themselves; official if there are none.

    Raises:
        UserError: for an unknown collection.
        DataError: a ``dataset.json`` is something else.
    """
    check_collection(collection)
    folder = plain_model(collection)(collection=collection).folder
    return dataset_of([data] if data else ROOTS, folder)


def choice_of(settings: Settings, root: DataRoot, args: argparse.Namespace) -> str:
    """One line: which model is meant, and why."""
    dataset = root.dataset
    named = "model" in overrides_in(args)
    best = f"the default for {dataset.size} data: it ranks best there"
    why = "as --model says" if named else best
    said = f"{settings.model} ({why}) on {settings.collection} of {dataset.name}, {root.path}"
    if guessed := [f"{one} {getattr(dataset, one)}" for one in TOLD if one in dataset.guessed]:
        said += f"; guessed, for its dataset.json does not say: {', '.join(guessed)}"
    if origins_of(settings, dataset, given_in(args))["folds_total"] == FEW_GRAPHS:
        usual = usual_folds(settings.collection, type(settings), dataset)
        what = "families" if settings.keep_together == "family" else "graphs"
        said += f"; {settings.folds_total} folds, not {usual}: no more {what} can be ranked"
    return said


def settings_text(settings: Settings, dataset: Dataset, args: argparse.Namespace) -> str:
    """Every setting, its value and where it comes from, as aligned text."""
    origins = origins_of(settings, dataset, given_in(args))
    rows = [
        [name.replace("_", "-"), str(value), origins[name]]
        for name, value in dataclasses.asdict(settings).items()
    ]
    return table(rows, ["setting", "value", "from"])


def changed_by(
    args: argparse.Namespace, settings: Settings, dataset: Dataset
) -> dict[str, dict[str, str]]:
    """For the record of a run: which settings are no defaults of the model, and why.

    Returns:
        ``origins``, by setting; see :func:`lib.settings.tables.origins_of`.
    """
    origins = origins_of(settings, dataset, given_in(args))
    return {"origins": {name: why for name, why in origins.items() if why != DEFAULT}}


def _about(dataset: Dataset) -> str:
    said = f"{dataset.name}: {dataset.size} data, measured on {dataset.processor}"
    return said + (f"; guessed: {', '.join(dataset.guessed)}" if dataset.guessed else "")
