"""The manifest of a cache: what it was made from, and the checksum of every file in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lib.cache.format import FORMAT, MANIFEST
from lib.files.artifacts import MAX_JSON_BYTES, read_json, write_json
from lib.files.checksum import checksum_of
from lib.files.errors import DataError, UserError
from lib.files.regular import open_regular, read_regular, size_of
from lib.files.schema import expect
from lib.files.sealed import check_sealed, sealed

SCHEMA = {
    "fingerprint": str,
    "entries": {str: int},  # of each array, along its first axis
    "checksums": {str: str},  # of each file but the manifest
    "settings": dict,
    "skipped?": [dict],
}


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write a manifest: values of ``SCHEMA``, with ``format`` and checksum put to them."""
    write_json(folder / MANIFEST, sealed({**manifest, "format": FORMAT}))


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
    check_sealed(path, manifest, advice(folder))
    return expect(manifest, SCHEMA, path, advice=advice(folder))


def check_file(
    folder: Path, name: str, checksums: Mapping[str, str], size: int | None = None
) -> None:
    """Raise a DataError unless a file of a cache holds what was written.

    Args:
        folder, name: the cache's, and the file's.
        checksums: of the manifest.
        size: its bytes, if they are known: another size is reported without reading it all.
    """
    path = Path(os.path.realpath(folder / name))  # of a link, the file that it shows
    try:
        with open_regular(path) as file:
            there = size_of(file)
        checksum = checksum_of(path) if size in (None, there) else None
    except DataError as error:
        raise DataError(path, "file", error.actual, f"a file; {advice(path.parent)}") from None
    if checksum is None:
        expected = f"{size} bytes; {advice(path.parent)}"
        raise DataError(path, "size", f"{there} bytes", expected)
    if checksum != checksums.get(name):
        expected = f"{checksums.get(name)}; {advice(path.parent)}"
        raise DataError(path, "checksum", f"{checksum} (damaged)", expected)


def holds_the_same(old: Path, new: Path) -> bool:
    """Whether the cache in ``old`` is whole and that in ``new`` is no other, to the byte."""
    try:
        old_text, new_text = (read_regular(path / MANIFEST, MAX_JSON_BYTES) for path in (old, new))
        if old_text != new_text:
            return False
        checksums = read_manifest(old)["checksums"]
        for name in checksums:  # sizes first: a hole of gigabytes takes minutes to read
            check_file(old, name, checksums, (new / name).stat().st_size)
    except (OSError, UserError):
        return False
    return True


def advice(folder: Path) -> str:
    """How to get the cache in ``folder`` anew."""
    collection, hops = folder.parent.name, folder.name.partition("-")[2]
    flag, variable = (f" --hops {hops}", f" HOPS={hops}") if hops else ("", "")
    return (
        f"delete {folder}, then run 01_preprocess.py --collection {collection}{flag} (with make: "
        f"make preprocess COLLECTION={collection}{variable})"
    )
