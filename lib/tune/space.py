"""The space of a search, as Optuna has it, and the way back to settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from lib.files.artifacts import fingerprint_value
from lib.settings import Settings, described
from lib.settings.search import Search


def distributions(settings: Settings, space: Mapping[str, Search]) -> dict[str, BaseDistribution]:
    """What each setting is drawn from.

    Args:
        settings: of the model, whose types tell whole numbers from fractions.
        space: what is searched, see :func:`lib.settings.search.space_of`.
    """
    return {name: _distribution(search, getattr(settings, name)) for name, search in space.items()}


def _distribution(search: Search, value: Any) -> BaseDistribution:
    if search.values:
        return CategoricalDistribution(search.values)
    if isinstance(value, int):
        return IntDistribution(int(search.low), int(search.high), log=search.logarithmic)
    return FloatDistribution(search.low, search.high, log=search.logarithmic)


def with_values(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """Settings with some of them changed.

    Raises:
        UserError: they do not go together.
    """
    changed = dataclasses.replace(settings, **values)
    changed.check()
    return changed


def name_of(settings: Settings, space: Mapping[str, Search], data: Any, folds: int) -> str:
    """What a search is called: values of trials compare only within one of these.

    Args:
        settings: that are not searched, among others.
        space: what is searched.
        data: fingerprints of what trials learn from.
        folds: how many each trial trains.
    """
    fixed = {name: value for name, value in described(settings).items() if name not in space}
    searched = {name: dataclasses.asdict(search) for name, search in space.items()}
    about = {"fixed": fixed, "searched": searched, "data": data, "folds": folds}
    return f"{settings.results} {fingerprint_value(about)[:12]}"
