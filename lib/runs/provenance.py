"""Provenance of results: commit, versions, machine."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import version
from typing import Any

from lib.files.processor import processor
from lib.runs.code import ROOT

PACKAGES = ("torch", "numpy", "polars", "scipy")


def versions() -> dict[str, str]:
    """Return versions of Python and of the packages that results depend on."""
    return {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}


def commit() -> str:
    """Return the commit of this code, ``-dirty`` if it was changed since; empty where git cannot
    tell.
    """
    described = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(ROOT.parent), "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(described, env=env, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def machine() -> dict[str, Any]:
    """Return the processor, the cores that a stage may use, and the operating system."""
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(terse=True),
        "python": sys.version.split()[0],
    }
