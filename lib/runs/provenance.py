"""What a result came from: code, data, settings, versions."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
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


def machine() -> dict[str, Any]:
    """What the stage ran on: processor, the cores it may use, operating system."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(terse=True),
        "python": sys.version.split()[0],
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()
