"""The command line of a stage: every setting of the collection and model is a flag."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from lib.files.command_line import Parser
from lib.files.errors import UserError
from lib.settings.base import Settings
from lib.settings.resolved import dataset_for
from lib.settings.tables import COLLECTIONS, MODELS, check_collection, settings_class


class _StageFlags(Parser):
    """A stage's command line, whose settings are those of the named collection and model."""

    def parse_known_args(self, args=None, namespace=None):
        """Parse the collection and model first, then the flags that they have."""
        first = Parser(prog=self.prog, add_help=False)
        first.add_argument("--collection")
        first.add_argument("--model")
        first.add_argument("--data", type=Path)
        first.add_argument("--hardware")
        first.add_argument("--show", action="store_true")
        first.add_argument("-h", "--help", action="store_true")
        named = first.parse_known_args(args)[0]
        if named.collection in COLLECTIONS:
            dataset = dataset_for(named.collection, named.data)
            dataset = dataclasses.replace(dataset, hardware=named.hardware or dataset.hardware)
            model = settings_class(named.collection, named.model, dataset)
            _add_settings(self, model)
        else:
            if named.collection and not named.help:
                check_collection(named.collection)
            self.epilog = _models()
        if named.show:  # which needs no fold
            for action in self._actions:
                action.required = action.dest == "collection"
        found, unknown = super().parse_known_args(args, namespace)
        for word in unknown:
            if readers := [kind.model for kind in _readers(word, named.collection)]:
                flag = word.partition("=")[0]
                raise UserError(
                    f"{flag}: {model.model} has no such setting; it is of {', '.join(readers)}"
                )
        return found, unknown


def parser(description: str) -> argparse.ArgumentParser:
    """Return a stage's command line: what to work on, and a flag for each setting of its kind and
    model.

    Which these are, ``--collection`` and ``--model`` say; without a collection, ``--help`` names
    the models.
    """
    lines = argparse.RawDescriptionHelpFormatter
    flags = _StageFlags(description=description, formatter_class=lines)
    flags.add_argument("--collection", required=True, help=f"one of {', '.join(COLLECTIONS)}")
    flags.add_argument("--data", type=Path, help="data root (downloaded, else bundled)")
    flags.add_argument(
        "--outputs", type=Path, default=Path("outputs"), help="where results go (outputs)"
    )
    file = "a TOML file of settings, such as `make tune` writes; flags beat it"
    flags.add_argument("--settings", type=Path, metavar="FILE", help=file)
    shown = "print every setting and its value, and do no more"
    flags.add_argument("--show", action="store_true", help=shown)
    return flags


def _readers(word: str, collection: str) -> list[type[Settings]]:
    """The models of a collection's kind that have a flag."""
    name = word.removeprefix("--").removeprefix("no-").partition("=")[0].replace("-", "_")
    kinds = MODELS[COLLECTIONS[collection]].values() if collection in COLLECTIONS else ()
    fields = {kind: [field.name for field in dataclasses.fields(kind)] for kind in kinds}
    return [kind for kind in kinds if word.startswith("--") and name in fields[kind]]


def _models() -> str:
    """Return in words which models there are, and how to see the settings of one."""
    collections = {
        kind: [name for name in COLLECTIONS if COLLECTIONS[name] == kind] for kind in MODELS
    }
    named = [f"{', '.join(collections[kind])}: {', '.join(MODELS[kind])}" for kind in MODELS]
    shown = "--collection NAME --model NAME --help shows them"
    return f"Every setting of a model is a flag; {shown}. Models of {'; of '.join(named)}"


def _add_settings(flags: argparse.ArgumentParser, kind: type[Settings]) -> None:
    """Add a group with the flags of a kind."""
    title = f"settings of {kind.model} on {kind.kind} collections"
    group = flags.add_argument_group(title, "default: what fits the collection and the data")
    for setting in dataclasses.fields(kind):
        if "help" in setting.metadata:
            flag = "--" + setting.name.replace("_", "-")
            options = {"help": setting.metadata["help"], "default": argparse.SUPPRESS}
            if isinstance(setting.default, bool):
                group.add_argument(flag, action=argparse.BooleanOptionalAction, **options)
            else:
                group.add_argument(flag, type=setting.metadata["parse"], **options)
