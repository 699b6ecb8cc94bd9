"""What a result came from: code, data, settings, versions."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lib.artifacts import fingerprint_files, fingerprint_value

PACKAGES = ("torch", "torch-scatter", "numpy", "polars", "scipy")
TRAINING_SOURCES = (
    *("batches.py", "memory.py", "scoring.py", "segments.py", "tiles.py", "metrics.py", "folds.py"),
    *("moves.py", "cache", "inputs", "layouts", "model", "native", "train"),
)
SUFFIXES = (".py", ".cpp", ".h")


def run_identity(about: Any) -> str:
    """Fingerprint of a training run: its settings and data (``about``) and the code it runs.

    A training state is resumed only by a run of the same identity.
    """
    library = Path(__file__).resolve().parent
    files: list[Path] = []
    for name in TRAINING_SOURCES:
        path = library / name
        files += sorted(p for p in path.rglob("*.*") if p.suffix in SUFFIXES) or [path]
    return fingerprint_value({"about": about, "code": fingerprint_files(files, library)})


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that results depend on."""
    return {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}
