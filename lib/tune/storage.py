"""Optuna's database of trials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import StorageInternalError
from optuna.pruners import MedianPruner
from optuna.storages import RDBStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import URL
from sqlalchemy.exc import SQLAlchemyError

from lib.files.artifacts import check_place
from lib.files.errors import DataError

WAITED = 60  # seconds, for another process that writes
STARTUP = 5  # trials before any is pruned
DONE = (TrialState.COMPLETE, TrialState.PRUNED)
OF_A_STORAGE = (SQLAlchemyError, StorageInternalError)
WHY = "why"  # of a trial that came to nothing


def open_study(path: Path, name: str, maximize: bool, warmup: int) -> Study:
    """A search by its name, made if it is not there.

    Args:
        path: the database, of SQLite.
        name: see :func:`lib.tune.space.name_of`.
        maximize: the larger the value, the better.
        warmup: passes of a trial before it is pruned.

    Raises:
        DataError: the file is no such database.
        OSError: it cannot be written.
    """
    check_place(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with damage_refused(path, (*OF_A_STORAGE, RuntimeError, ValueError)):
        url = URL.create("sqlite", database=str(path)).render_as_string()
        storage = RDBStorage(url, {"connect_args": {"timeout": WAITED}})
        return optuna.create_study(
            storage=storage,
            study_name=name,
            load_if_exists=True,
            direction="maximize" if maximize else "minimize",
            pruner=MedianPruner(STARTUP, n_warmup_steps=warmup),
        )


def finished(study: Study) -> list[FrozenTrial]:
    """Trials that came to an end, whether to a value or not."""
    return study.get_trials(deepcopy=False, states=DONE)


def completed(study: Study) -> list[FrozenTrial]:
    """Trials that have a value."""
    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))


def failures(study: Study) -> Mapping[int, str]:
    """Why trials came to nothing, by their numbers; without those that were pruned."""
    whys: dict[int, Any] = {trial.number: trial.user_attrs.get(WHY) for trial in finished(study)}
    return {number: why for number, why in whys.items() if why}


@contextmanager
def damage_refused(path: Path, kinds: tuple[type[Exception], ...] = OF_A_STORAGE) -> Iterator[None]:
    """Tell in one line that a file is no database of Optuna's, or cannot be written.

    Args:
        path: the file.
        kinds: of errors that mean it.
    """
    try:
        yield
    except kinds as error:
        actual = str(getattr(error, "orig", None) or error).splitlines()[0]
        expected = "a database of Optuna's that can be written; without it a search begins anew"
        raise DataError(path, "database", actual, expected) from error
