"""Tables on disk: parquet files."""

from __future__ import annotations

import os
import re
from pathlib import Path

import polars as pl

SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")  # how polars tells what the system refused


def write_parquet(frame: pl.DataFrame, path: Path) -> None:
    """Write a table; the same table gives the same bytes.

    Raises:
        OSError: it cannot be written.
    """
    try:
        frame.write_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        refused = SYSTEM_ERROR.search(str(error))
        if refused is None:
            raise
        number = int(refused[1])
        raise OSError(number, os.strerror(number), str(path)) from None
