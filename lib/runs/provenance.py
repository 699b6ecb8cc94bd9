"""What a result came from: code, data, settings, versions."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Any

from lib.files.artifacts import fingerprint_files, fingerprint_value
from lib.runs.sources import ROOT, sources_of

PACKAGES = ("torch", "torch-scatter", "numpy", "polars", "scipy", "xgboost-cpu")
PROGRAMS = ("01_preprocess.py", "02_train.py")  # what makes features, and what learns from them


def run_identity(about: Any) -> str:
    """Fingerprint of a training run: its settings and data (``about``) and the code it runs.

    A training state is resumed only by a run of the same identity.
    """
    return fingerprint_value({"about": about, "code": code_of(*PROGRAMS)})


def code_of(*programs: str) -> str:
    """Fingerprint of the files that some programs run, such as ``02_train.py``."""
    return fingerprint_files([ROOT / path for path in sources_of(*programs)], ROOT)


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that results depend on."""
    return {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}
