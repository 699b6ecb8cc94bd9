"""Tables of collections and models, and values of settings that are no defaults."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any

from lib.files.errors import UserError
from lib.files.named import Named
from lib.ranking.folds import UNIT_OF
from lib.settings.base import EVERY, NONE, Settings
from lib.systems import SYSTEMS
from lib.tpugraphs.dataset import LAYOUT_COLLECTIONS, Dataset, count_parts, folder_of

OF_DATA = ("hardware",)  # settings that a dataset itself has
# The settings of each model, by kind of collection; the first one is taken if none is named.
MODELS: dict[str, Mapping[str, type[Settings]]] = {
    kind: Named(system.models) for kind, system in SYSTEMS.items()
}
# The collections, and what each has other than the defaults (2.2.5, 2.4.2). What suits data of a
# size or hardware, and a model on them, stands with the settings (``fits``), and beats this.
VALUES: dict[str, dict[str, Any]] = {
    "layout-xla-random": {"epochs": 750, "configurations": 128},
    "layout-xla-default": {"epochs": 750, "configurations": 64},
    "layout-nlp-random": {"epochs": 1000, "configurations": 128},
    "layout-nlp-default": {"epochs": 1000, "configurations": 64},
    "tile-xla": {},
    "programs-cpu": {},
}
COLLECTIONS: dict[str, str] = {name: name.partition("-")[0] for name in VALUES}  # their kinds


def model_names() -> list[str]:
    """Return the models of all kinds, for ``--model`` of what goes over several collections."""
    return sorted({name for models in MODELS.values() for name in models})


def settings_class(
    collection: str, model: str | None = None, dataset: Dataset | None = None
) -> type[Settings]:
    """Return the settings of a model on a collection.

    If none is named, it is the data's default (:func:`default_model`), or without a ``dataset`` the
    one whose results have the collection's plain name.

    Raises:
        UserError: for an unknown collection, or a model that is not one of its kind's.
    """
    check_collection(collection)
    models = MODELS[COLLECTIONS[collection]]
    if not model:
        return default_model(collection, dataset) if dataset else plain_model(collection)
    if model not in models:
        raise UserError(f"--model {model!r}: not one of {', '.join(models)}")
    return models[model]


def default_model(collection: str, dataset: Dataset) -> type[Settings]:
    """Return the first model of a kind that can learn from the data.

    That is one for their hardware that needs no more programs than there are
    (``least_programs``): a network of hundreds of thousands of weights learns nothing from three.
    """
    for kind in MODELS[COLLECTIONS[collection]].values():
        if dataset.hardware in kind.hardware_of and programs_in(
            collection, dataset, kind.least_programs
        ):
            return kind
    return plain_model(collection)


def programs_in(collection: str, dataset: Dataset, least: int) -> bool:
    """Return whether a collection has so many programs to learn from, as far as that is known."""
    if not least or dataset.root is None:
        return True
    return count_parts(dataset.root, folder_of(collection), str, least) >= least


def settings_for(collection: str, dataset: Dataset, overrides: Mapping[str, Any]) -> Settings:
    """Return the settings of one collection on its data; ``overrides``, by field name, take
    precedence; raises UserError for an unknown name (with the nearest known one) or a value out of
    range.
    """
    dataset = dataclasses.replace(dataset, hardware=overrides.get("hardware", dataset.hardware))
    kind = settings_class(collection, overrides.get("model"), dataset)
    values = fitting(collection, kind, dataset)
    for switch, layer in kind.implied.items():
        values |= layer if overrides.get(switch) else {}
    values |= overrides
    if "folds_total" not in overrides:
        values["folds_total"] = _folds_for(collection, kind, dataset, values)
    if "also" in values:
        values["also"] = others_in(values["also"], collection, dataset)
    settings = kind(collection=collection, **values)
    settings.check()
    return settings


def usual_folds(collection: str, kind: type[Settings], dataset: Dataset) -> int:
    """Return the default number of folds where there are graphs enough."""
    return fitting(collection, kind, dataset).get("folds_total", kind.folds_total)


def _folds_for(
    collection: str, kind: type[Settings], dataset: Dataset, values: Mapping[str, Any]
) -> int:
    """Return the default number of folds: as many as there are graphs, or families, at most.

    (Where there are fewer than two, stage 2 says so.)
    """
    usual = usual_folds(collection, kind, dataset)
    together = values.get("keep_together", kind.keep_together)
    if dataset.root is None or together not in UNIT_OF:
        return usual
    return max(2, count_parts(dataset.root, folder_of(collection), UNIT_OF[together], usual))


def others_in(also: str, collection: str, dataset: Dataset) -> str:
    """Return the collections that a setting ``also`` names, in their order; ``NONE`` if there are
    none; raises UserError for a name of no layout collection, or of one that is not in the same
    root.
    """
    names = set(dataset.collections if also == EVERY else also.split(",")) - {collection, NONE}
    for name in sorted(names - set(dataset.collections)):
        if name not in LAYOUT_COLLECTIONS:
            choices = ", ".join((NONE, EVERY, *LAYOUT_COLLECTIONS))
            raise UserError(f"--also {also}: {name!r} is none of {choices}")
        raise UserError(f"--also {also}: {dataset.name} has no {name} where {collection} is")
    return ",".join(name for name in LAYOUT_COLLECTIONS if name in names) or NONE


def fitting(collection: str, kind: type[Settings], dataset: Dataset) -> dict[str, Any]:
    """Return values that a collection and its data have in place of a model's defaults."""
    values = VALUES[collection]
    fits = [vars(base).get("fits", {}) for base in reversed(kind.__mro__)]
    for word in (dataset.size, dataset.hardware):
        for fit in fits:
            values = values | fit.get(word, {})
    fields = {setting.name for setting in dataclasses.fields(kind)}
    values = values | {name: getattr(dataset, name) for name in OF_DATA}
    return {"model": kind.model} | {name: values[name] for name in values if name in fields}


def plain_model(collection: str) -> type[Settings]:
    """Return the settings of the model whose results have the collection's plain name."""
    kind = COLLECTIONS[collection]
    return MODELS[kind][SYSTEMS[kind].plain]


def check_collection(name: str) -> None:
    """Raise a :class:`UserError` that says what to type, unless ``name`` is a collection."""
    if name not in COLLECTIONS:
        near = difflib.get_close_matches(name, COLLECTIONS, n=1, cutoff=0.3)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UserError(f"collection {name!r}: not one of {', '.join(COLLECTIONS)}{hint}")
