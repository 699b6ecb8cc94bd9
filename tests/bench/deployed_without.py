"""The half of ``make search`` that has TVM, without one of the things that make networks fast.

    python -m tests.bench.deployed_without unrolling -m lib.collect.tvm.search FOLDER NETWORK ...

:mod:`tests.bench.deployed_tvm` starts it for searches such as ``search 16 unrolling``.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable

from lib.collect.tvm import compiler, deployment, importing, sources
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


CHANGES: dict[str, Callable[[], None]] = {
    change.__name__.replace("_", "-"): change
    for change in (
        *(nothing, unrolling, lanes, channels_last, polynomials, packing, cold_weights),
        *(rewriting, parts, processor),
    )
}


def main() -> None:
    """Make the change, and go on as the module."""
    _, change, _, module, *arguments = sys.argv
    CHANGES[change]()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
