"""JSON documents that hold a checksum of themselves, so that a changed digit is noticed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lib.files.checksum import Checksum
from lib.files.errors import DataError

OWN = "checksum"  # of the document's other values


def sealed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as JSON has them, and their checksum beside them."""
    plain = json.loads(json.dumps({key: value for key, value in values.items() if key != OWN}))
    return {**plain, OWN: _digits(plain)}


def check_sealed(path: Path, values: Mapping[str, Any], advice: str) -> None:
    """Raise a DataError unless a document's values are those that were sealed.

    Args:
        path: the file, to name.
        values: what :func:`lib.files.artifacts.read_json` has read of it.
        advice: what to do if they are not.
    """
    digits = _digits({key: value for key, value in values.items() if key != OWN})
    if values.get(OWN) != digits:
        raise DataError(path, OWN, f"{digits} (damaged)", f"{values.get(OWN)}; {advice}")


def _digits(values: Mapping[str, Any]) -> str:
    checksum = Checksum()
    checksum.update(json.dumps(values, sort_keys=True).encode())
    return checksum.digits
