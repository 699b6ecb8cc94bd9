"""Stage 1 by several machines: slices of a collection's files, and the cache made of them.

A slice is some of the files, one after the other, and becomes a cache of its own, in a folder
beside the cache that it is for. What is put together of slices has the bytes of what one machine
writes.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from lib.cache.manifest import check_file, read_manifest
from lib.cache.reader import read_table
from lib.cache.writer import CacheWriter
from lib.files.artifacts import atomic_folder, fingerprint_value
from lib.files.errors import DataError, UserError
from lib.files.locks import is_being_written
from lib.preprocess.collection import RawFile, Skipped, check_new, new_cache, preprocess
from lib.runs.stage import process_seconds

FILE_BYTES = 1 << 18  # what a file costs beside its bytes, in bytes
MOST_SLICES = 9999
NAME = re.compile(r"(\d{1,4})-of-([1-9]\d{0,3})", re.ASCII)
Raw = Mapping[str, Sequence[int]]  # size and time by split and name


@dataclass(frozen=True)
class Slice:
    """One slice of so many, counted from 0."""

    number: int
    count: int

    @classmethod
    def named(cls, name: str) -> Slice:
        """The slice that a word such as ``3-of-8`` names; a UserError if it names none."""
        match = NAME.fullmatch(name)
        if not match or int(match[1]) >= int(match[2]):
            raise UserError(f"--slice {name}: must be a slice and how many there are, as in 0-of-8")
        return cls(int(match[1]), int(match[2]))

    def folder(self, cache: Path) -> Path:
        """Where it is written for a cache."""
        return folder_of_slices(cache) / f"{self.number}-of-{self.count}"

    def of(self, files: Sequence[RawFile], raw: Raw) -> list[RawFile]:
        """Its files: slices take about the same time, and every file is in one of them."""
        costs = [FILE_BYTES + max(0, raw[_key(file)][0]) for file in files]
        total, before, share = sum(costs), 0, []
        for file, cost in zip(files, costs, strict=True):
            if (2 * before + cost) * self.count // (2 * total) == self.number:
                share.append(file)
            before += cost
        return share


def folder_of_slices(cache: Path) -> Path:
    """The folder of all slices of a cache."""
    return cache.with_name(f"{cache.name}.slices")


def write_slice(
    folder: Path,
    files: list[RawFile],
    raw: Raw,
    settings: dict[str, Any],
    jobs: int = 1,
    keep_going: bool = False,
    kind: str = "layout",
    code: str = "",
) -> tuple[int, list[Skipped]]:
    """Write a slice, whole or not at all.

    Args:
        folder: the slice's.
        files: the slice's.
        raw: sizes and times of the collection's files, that tell a slice of other files.
        settings, jobs, keep_going, kind: see
            :func:`lib.preprocess.collection.write_cache`, which raises the same.
        code: fingerprint of what writes it.

    Returns:
        How many graphs it has, and the files that were left out.
    """
    with atomic_folder(folder) as temporary, CacheWriter(temporary, kind) as writer:
        skipped = preprocess(writer, files, settings, jobs, keep_going, kind)
        left_out = [[files.index(skip.file), *skip.error.args[1:]] for skip in skipped]
        about = _identity(files, raw, [settings, keep_going, kind, code])
        more = {"left_out": left_out, "seconds": process_seconds()}
        writer.finish({"fingerprint": about, "settings": settings, **more})
    return len(writer.rows), skipped


def write_from_slices(
    path: Path,
    count: int,
    files: list[RawFile],
    raw: Raw,
    settings: dict[str, Any],
    jobs: int = 1,
    keep_going: bool = False,
    kind: str = "layout",
    code: str = "",
) -> tuple[pl.DataFrame, list[Skipped], float]:
    """Write a cache of its slices, which are deleted.

    One that is not there, damaged or of other files is made up for.

    Args:
        path: the cache folder.
        count: of slices.
        files, raw: of the collection.
        settings, jobs, keep_going, kind: see :func:`lib.preprocess.collection.write_cache`,
            which raises the same.
        code: that the slices were written by.

    Returns:
        The cache's table, the files that were left out, and the seconds that writing the slices
        took, all together.
    """
    seconds = 0.0
    with new_cache(path, files, settings, kind) as (writer, skipped):
        for part in (Slice(number, count) for number in range(count)):
            part_files, folder = part.of(files, raw), part.folder(path)
            about = _identity(part_files, raw, [settings, keep_going, kind, code])
            if manifest := _whole(folder, about):
                skipped += _append(writer, folder, part_files, manifest)
                seconds += manifest["seconds"]
            else:
                skipped += preprocess(writer, part_files, settings, jobs, keep_going, kind=kind)
    _delete_slices(path)
    return read_table(path), skipped, seconds


def _whole(folder: Path, about: str) -> dict[str, Any] | None:
    """The manifest of a slice; ``None`` if there is none, or it is damaged or of other files."""
    try:
        manifest = read_manifest(folder)
        if manifest["fingerprint"] != about:
            return None
        for name in manifest["checksums"]:
            check_file(folder, name, manifest["checksums"])
    except UserError:
        return None
    return manifest


def _append(
    writer: CacheWriter, folder: Path, files: list[RawFile], manifest: dict[str, Any]
) -> list[Skipped]:
    """Append a slice to a cache; returns the files that it has left out."""
    empty = not any(manifest["entries"].values())
    rows = [] if empty else read_table(folder).to_dicts()
    seen, sources = {row["graph"] for row in writer.rows}, {file.path.name: file for file in files}
    for row in rows:
        check_new(sources[row["source"]], [row], seen)
    writer.extend(folder, rows)
    bad = [(files[index], words) for index, *words in manifest["left_out"]]
    return [Skipped(file, DataError(file.path, *words)) for file, words in bad]


def _identity(files: Iterable[RawFile], raw: Raw, how: list[Any]) -> str:
    """Fingerprint of what a slice depends on; files by sizes and times, for none is read."""
    sizes = {_key(file): raw[_key(file)] for file in files}
    return fingerprint_value([sizes, *how])


def _key(file: RawFile) -> str:
    return f"{file.path.parent.name}/{file.path.name}"


def _delete_slices(cache: Path) -> None:
    """Delete all slices of a cache, also unfinished ones, but none that a process is writing."""
    folder = folder_of_slices(cache)
    with suppress(OSError):
        for path in folder.iterdir():
            if not is_being_written(path):
                shutil.rmtree(path, ignore_errors=True)
        folder.rmdir()
