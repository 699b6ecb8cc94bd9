"""The manifest of a cache: its sources, and how long its arrays are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lib.cache.format import FORMAT, MANIFEST
from lib.files.artifacts import MAX_JSON_BYTES, read_json, write_json
from lib.files.errors import DataError, UserError
from lib.files.regular import open_regular, read_regular, size_of
from lib.files.schema import expect

SCHEMA = {
    "fingerprint": str,
    "entries": {str: int},  # of each array, along its first axis
    "settings": dict,
    "skipped?": [dict],
}


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write a manifest: values of ``SCHEMA``, and ``format``."""
    write_json(folder / MANIFEST, {**manifest, "format": FORMAT})


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of the cache in ``folder``, checked; the other files are not read.

    Raises:
        UserError: if there is none.
        DataError: if it is damaged, or of another version.
    """
    path = folder / MANIFEST
    if not path.exists():
        collection = folder.parent.name
        first = f"run 01_preprocess.py --collection {collection} first"
        raise UserError(f"{folder}: no cache there; {first}")
    document = read_json(path, f"a JSON document; {advice(folder)}")
    manifest = expect(document, dict, path, advice=advice(folder))
    if manifest.get("format") != FORMAT:
        version = manifest.get("format", "none, of an older version")
        raise DataError(path, "format", version, f"{FORMAT}; {advice(folder)}")
    return expect(manifest, SCHEMA, path, advice=advice(folder))


def check_size(path: Path, size: int) -> None:
    """Raise a DataError unless a file of a cache is there and has ``size`` bytes."""
    path = Path(os.path.realpath(path))  # of a link, the file that it shows
    try:
        with open_regular(path) as file:
            there = size_of(file)
    except DataError as error:
        raise DataError(path, "file", error.actual, f"a file; {advice(path.parent)}") from None
    if there != size:
        raise DataError(path, "size", f"{there} bytes", f"{size} bytes; {advice(path.parent)}")


def holds_the_same(old: Path, new: Path) -> bool:
    """Return whether two caches are of one fingerprint, and every file is there at its size."""
    try:
        old_text, new_text = (read_regular(path / MANIFEST, MAX_JSON_BYTES) for path in (old, new))
        if old_text != new_text:
            return False
        for path in new.iterdir():
            check_size(old / path.name, path.stat().st_size)
    except (OSError, UserError):
        return False
    return True


def advice(folder: Path) -> str:
    """Return the advice how to get the cache in ``folder`` anew."""
    collection, hops = folder.parent.name, folder.name.partition("-")[2]
    flag, variable = (f" --hops {hops}", f" HOPS={hops}") if hops else ("", "")
    return (
        f"delete {folder}, then run 01_preprocess.py --collection {collection}{flag} (with make: "
        f"make preprocess COLLECTION={collection}{variable})"
    )
