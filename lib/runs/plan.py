"""What Make asks before it plans: where results lie.

The settings answer, so that Make repeats no rule of theirs. Only the standard library is needed,
for there may be no environment yet::

    python3 -SEB -m lib.runs.plan COLLECTION MODEL HOPS DATA ALSO SETTINGS EXPERIMENT

prints words that Make can take apart, or a line about the value that is no good.
"""

import dataclasses
import difflib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lib.files.errors import UserError, in_one_line, one_line_errors
from lib.settings import COLLECTIONS, MODELS, Settings, settings_class, settings_for
from lib.settings.file import read_settings
from lib.settings.resolved import dataset_for

TRAINED = 5  # of all folds: TGraph has 20 and trains the first 5 "to limit the compute" (2.4.2)


def main(
    collection: str, model: str, hops: str, data: str, also: str, settings: str, experiment: str
) -> None:
    """Print the folders of results and cache below the outputs.

    ``table`` is the file that stage 4 writes beside metrics and report, and ``scatter`` where
    torch-scatter adds up. ``also`` are other collections that are learned from, and ``others``
    their caches, in the same order. ``results`` comes first: in a line about a value, which may
    repeat what stands in a file, it cannot.

    Args:
        collection, model, hops, data, also, settings, experiment: variables of make; empty if they
            are not given.
    """
    try:
        chosen = settings_of(collection, model, hops, data, also)
        chosen = dataclasses.replace(chosen, experiment=experiment)
        chosen.check()
        if settings:
            read_settings(Path(settings), collection, type(chosen))
    except UserError as error:
        print(in_one_line(error))
        return
    folds = min(TRAINED, chosen.folds_total)
    print(f"results={chosen.results} cache={chosen.cache} folds={folds} table={chosen.table}")
    print(f"scatter={chosen.scatter}")
    print(f"others={':'.join(map(str, chosen.others.values()))}")


def _unknown(variable: str, value: str, known: Iterable[str]) -> UserError:
    near = difflib.get_close_matches(value, known, n=1)
    meant = f"; is {near[0]} meant?" if near else ""
    return UserError(f"{variable}={value}: must be one of {' '.join(known)}{meant}")


def settings_of(
    collection: str, model: str = "", hops: str = "", data: str = "", also: str = ""
) -> Settings:
    """The settings that decide where results lie.

    A model of another kind of collections is none of make's business: stage 1 tells of it, and
    ``make everything`` leaves out the collections that do not have it.

    Raises:
        UserError: for an unknown collection or model, hops that graphs cannot be pruned to, or
            other collections that cannot be learned from. It names make's variable.
    """
    if collection not in COLLECTIONS:
        raise _unknown("COLLECTION", collection, COLLECTIONS)
    fitting = MODELS[COLLECTIONS[collection]]
    models = {name: kind for group in (*MODELS.values(), fitting) for name, kind in group.items()}
    if model and model not in models:
        raise _unknown("MODEL", model, models)
    if model and model not in fitting:
        return models[model](collection=collection)
    dataset = dataset_for(collection, Path(data) if data else None)
    overrides: dict[str, Any] = {"model": model} if model else {}
    kind = settings_class(collection, model or None)
    fields = {setting.name: setting for setting in dataclasses.fields(kind)}
    if hops and "hops" not in fields:
        raise UserError(f"HOPS={hops}: the graphs of {collection} are not pruned; leave it out")
    if also and "also" not in fields:
        raise UserError(f"ALSO={also}: {kind.model} learns from its own collection alone")
    try:
        if hops:
            overrides["hops"] = fields["hops"].metadata["parse"](hops)
        settings_for(collection, dataset, overrides)
    except (ValueError, UserError):
        raise UserError(f"HOPS={hops}: must be a whole number from 1, or all") from None
    try:
        return settings_for(collection, dataset, overrides | ({"also": also} if also else {}))
    except UserError as error:
        raise UserError(str(error).replace(f"--also {also}", f"ALSO={also}")) from None


if __name__ == "__main__":
    with one_line_errors():
        main(*sys.argv[1:])
