"""Archives that say that they are compressed in a way that nobody knows."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import numpy as np
import pytest

from lib.collect.tvm import raw
from lib.collect.xla import copies, measurements
from lib.files.errors import DataError
from lib.files.foreign import ZLIB_MEMORY, reading
from lib.programs.tensorir.described import ARRAYS

UNKNOWN = 99  # a way to compress

READERS = {
    "programs": measurements.read_raw,
    "tensor programs": raw.read,
}


def unreadable(path: Path) -> Path:
    """An archive whose members are packed in an unknown way."""
    np.savez(
        path,
        **dict.fromkeys(["about", *copies.Copy._fields, *measurements.RAW, *ARRAYS], np.zeros(3)),
    )
    data = bytearray(path.read_bytes())
    for signature, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        for found in re.finditer(re.escape(signature), bytes(data)):
            data[found.start() + place] = UNKNOWN
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("reader", READERS)
def test_it_is_told(tmp_path, reader):
    with pytest.raises(DataError, match="compression method is not supported"):
        READERS[reader](unreadable(tmp_path / "a.npz"))


def test_a_lack_of_memory_is_no_fault_of_the_file():
    with pytest.raises(MemoryError), reading("a", "b", "c"):
        raise zlib.error(f"Error {ZLIB_MEMORY} while decompressing data")
