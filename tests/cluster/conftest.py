"""The environment of ``lib/cluster``, as make sets it up."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.stages import run_make


@pytest.fixture(scope="session")
def environment() -> Path:
    """The folder of the environment; the tests are skipped where Ray cannot be installed."""
    done = run_make(f"{sys.prefix}-cluster/.ready", venv=sys.prefix)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        pytest.skip(f"Ray and submitit cannot be installed: {said[0] if said else 'no reason'}")
    return Path(f"{sys.prefix}-cluster")
