"""A fold that another run has trained while this one waited for it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lib.files.errors import DataError
from lib.files.results import read_fold_metrics


def is_trained(files: Sequence[Path], about: Mapping[str, Any]) -> bool:
    """Whether a fold's results are there and a training from ``about`` would give the same again.

    Then their time is renewed, for make goes by it.

    Args:
        files: the results, ``metrics.json`` among them, which says what they were trained with.
        about: settings, fold, data, code and versions of packages.
    """
    wanted = json.loads(json.dumps(about))  # with lists for tuples, as in the file
    try:
        found = next(read_fold_metrics(file) for file in files if file.name == "metrics.json")
        if any(found.get(key) != value for key, value in wanted.items()):
            return False
        for file in files:
            os.utime(file)
    except (DataError, OSError):
        return False
    return True
