"""The half of ``make search`` that has TVM, with one thing changed: without one of those that make
networks fast, or with one as TVM has it.

    python -m tests.bench.deployed_without unrolling -m lib.collect.tvm.search FOLDER NETWORK ...

:mod:`tests.bench.deployed_tvm` starts it for searches such as ``search 16 unrolling``, and
:mod:`tests.bench.search` for ``patience``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable

from lib.collect.tvm import compiler, deployment, importing, search, sources
from lib.files.errors import one_line_errors
from lib.files.processor import MCPU


def _without(name: str) -> None:
    """Leave out a pass of TVM's."""
    passes = deployment.operator_passes()
    kept = [change for change in passes if change.info.name != name]
    assert len(kept) == len(passes) - 1, f"no pass is called {name}"
    importing.operator_passes = lambda: kept


def nothing() -> None:
    """All is there."""


def unrolling() -> None:
    """Of loops of more than 64 steps."""
    compiler.UNROLL_STEPS = (0, 16, 64)


def lanes() -> None:
    """More than one vector of AVX-512 at a time."""
    compiler.MOST_VECTOR_LANES = 16


def channels_last() -> None:
    """Convolutions stay as PyTorch has them."""
    _without("ConvertLayout")


def polynomials() -> None:
    """Exponentials and their like are called from a library."""
    _without("FastMathTransform")


def packing() -> None:
    """Weights are read as PyTorch has them."""
    compiler.packable = lambda task: False


def cold_weights() -> None:
    """Programs are timed with the same weights again and again."""
    importing.Imported.footprint = 0


def rewriting() -> None:
    """Batch normalizations are not folded; attention looks for masks."""
    sources.rewrite = lambda exported: None


def parts() -> None:
    """Clips, sigmoids and the like stay whole."""
    _without("OperatorsInParts")


def processor() -> None:
    """Programs are compiled for any processor that has AVX-512."""
    compiler.mcpu_of = lambda instructions: MCPU["avx512"]


def patience() -> None:
    """XGBoost waits for 100 measurements before it chooses any."""
    name, settings = search.TVM_MODELS["xgboost"]
    search.TVM_MODELS["xgboost"] = name, {**settings, "num_warmup_samples": 100}


CHANGES: dict[str, Callable[[], None]] = {
    change.__name__.replace("_", "-"): change
    for change in (
        *(nothing, unrolling, lanes, channels_last, polynomials, packing, cold_weights),
        *(rewriting, parts, processor, patience),
    )
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
