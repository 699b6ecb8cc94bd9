"""The half of ``make search`` that has TVM, with one thing changed: without one of those that make
networks fast, or with one as TVM has it.

    python -m tests.bench.deployed_without packing -m lib.collect.tvm.search FOLDER NETWORK ...

:mod:`tests.bench.deployed_tvm` starts it for searches such as ``search 16 packing``, and
:mod:`tests.bench.search` for ``patience``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable

from lib.collect.tvm import compiler, deployment, importing, search
from lib.files.errors import one_line_errors


def _without(name: str) -> None:
    """Leave out a pass of TVM's."""
    passes = deployment.operator_passes()
    kept = [change for change in passes if change.info.name != name]
    assert len(kept) == len(passes) - 1, f"no pass is called {name}"
    importing.operator_passes = lambda: kept


def nothing() -> None:
    """All is there."""


def channels_last() -> None:
    """Convolutions stay as PyTorch has them."""
    _without("ConvertLayout")


def polynomials() -> None:
    """Exponentials and their like are called from a library."""
    _without("FastMathTransform")


def packing() -> None:
    """Weights are read as PyTorch has them."""
    compiler.packable = lambda task: False


def parts() -> None:
    """Clips, sigmoids and the like stay whole."""
    _without("OperatorsInParts")


def patience() -> None:
    """XGBoost waits for 100 measurements before it chooses any."""
    name, settings = search.TVM_MODELS["xgboost"]
    search.TVM_MODELS["xgboost"] = name, {**settings, "num_warmup_samples": 100}


CHANGES: dict[str, Callable[[], None]] = {
    change.__name__.replace("_", "-"): change
    for change in (*(nothing, channels_last, polynomials, packing, parts, patience),)
}


def main() -> None:
    """Make the change, and go on as the module."""
    _, change, _, module, *arguments = sys.argv
    CHANGES[change]()
    sys.argv = [module, *arguments]
    importlib.import_module(module).main()


if __name__ == "__main__":
    with one_line_errors():
        main()
