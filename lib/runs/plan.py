"""What Make asks before it plans: where results lie, and what each program runs.

The settings and the import statements answer, so that Make repeats no rule of theirs. Only the
standard library is needed, for there may be no environment yet::

    python3 -SEB -m lib.runs.plan COLLECTION MODEL HOPS 01_preprocess.py ...

prints words that Make can take apart, or a line about the value that is no good.
"""

from __future__ import annotations

import dataclasses
import sys

from lib.files.errors import UserError, one_line_errors
from lib.runs.sources import sources_of
from lib.settings import COLLECTIONS, MODELS, Settings, settings_class


def main(collection: str, model: str, hops: str, *programs: str) -> None:
    """Print the folders of results and cache below the outputs, and each program's sources.

    Args:
        collection, model, hops: variables of make; empty if they were not given.
        programs: paths, such as ``02_train.py``.
    """
    try:
        chosen = settings_of(collection, model, hops)
    except UserError as error:
        print(error)
        return
    print(f"results={chosen.results} cache={chosen.cache}")
    for one in programs:
        print(f"{one}={':'.join(sources_of(one))}")


def settings_of(collection: str, model: str = "", hops: str = "") -> Settings:
    """The settings that decide where results lie.

    A model of another kind of collections is none of make's business: stage 1 tells of it, and
    ``make everything`` leaves out the collections that do not have it.

    Raises:
        UserError: for an unknown collection or model, or hops that graphs cannot be pruned to. It
            names make's variable.
    """
    if collection not in COLLECTIONS:
        raise UserError(f"COLLECTION={collection}: must be one of {' '.join(COLLECTIONS)}")
    models = {name: one for known in MODELS.values() for name, one in known.items()}
    models |= MODELS[COLLECTIONS[collection].kind]  # kinds may have models of the same name
    if model and model not in models:
        raise UserError(f"MODEL={model}: must be one of {' '.join(models)}")
    chosen = models[model] if model else settings_class(collection)
    if not hops:
        return chosen(collection=collection)
    pruning = {one.name: one for one in dataclasses.fields(chosen)}.get("hops")
    if pruning is None:
        raise UserError(f"HOPS={hops}: the graphs of {collection} are not pruned; leave it out")
    try:
        made = chosen(collection=collection, hops=pruning.metadata["parse"](hops))
        made.check()
    except (ValueError, UserError):
        raise UserError(f"HOPS={hops}: must be a whole number from 1, or all") from None
    return made


if __name__ == "__main__":
    with one_line_errors():
        main(*sys.argv[1:])
