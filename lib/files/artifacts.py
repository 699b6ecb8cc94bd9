"""Files and folders that are whole or absent.

A stage writes to a temporary name in the same folder and renames it when it is complete, so
that a kill at any moment leaves either the old artifact or the new one, never a part of one.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from lib.files.errors import DataError
from lib.files.locks import in_use, is_in_use
from lib.files.regular import open_regular, read_regular

MAX_JSON_BYTES = 1 << 28  # of a document, which takes several times that in memory
TEMPORARY = ".partial-"  # prefix of every unfinished file or folder; readers never match it


@contextmanager
def atomic_file(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path; rename it to ``path`` if the block succeeds.

    The file is flushed to the disk before it is renamed, so that a power cut cannot leave a
    final name on missing bytes. On an exception the temporary file is removed; what a killed
    writer of the same file left is removed too. Of two that write it at once the last one wins.
    A path that is temporary itself is yielded: whoever has it renames it.

    Raises:
        OSError: it cannot be written (full disk, no permission, a folder has its name);
            it names ``path``.
    """
    path = Path(path)
    if path.name.startswith(TEMPORARY):
        with named_in_errors(path):
            yield path
        return
    _free_place(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path)
    temporary = _unfinished(path.parent, path)
    try:
        with named_in_errors(path, temporary):
            temporary.touch()
            with in_use(temporary):
                yield temporary
                # Once more, for some libraries put another file in its place.
                with in_use(temporary), open(temporary, "rb+") as file:
                    os.fsync(file.fileno())
                    # The process's mask decides: some libraries make files for their owner alone.
                    mask = os.umask(0)
                    os.umask(mask)
                    temporary.chmod(0o666 & ~mask)
                    os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def atomic_files(*paths: Path) -> Iterator[list[Path]]:
    """Yield temporary paths; when the block succeeds, their files take their places together.

    None does if one of them cannot be written, so that results of two runs do not mix. (A kill, or
    a disk that fails, between the renames at the end still can leave some of each.)

    Raises:
        OSError: as :func:`atomic_file`.
    """
    for path in paths:
        _free_place(path)
    with ExitStack() as complete:
        yield [complete.enter_context(atomic_file(path)) for path in paths]


def check_place(path: Path | str) -> None:
    """Raise an OSError if no file can come to ``path``: something else has its name, or its
    folder's, or nothing can be written in its folder. Call it before long work whose result goes
    there."""
    path = Path(path)
    probe = _unfinished(_free_place(path), path)
    with named_in_errors(path, probe):
        probe.touch()
        probe.unlink(missing_ok=True)  # who writes there now clears away what nobody has locked


def _free_place(path: Path) -> Path:
    """The nearest folder above ``path`` that is there; an OSError if something has its name, or
    its folder's. Whoever makes a file there at once needs no more to be checked."""
    if path.is_dir() and not path.is_symlink():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    for parent in path.parents:
        # In this order: another process may make the folder between the two looks.
        if os.path.lexists(parent):
            if parent.is_dir():
                return parent
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(parent))
    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path.parent))


def _unfinished(folder: Path, path: Path) -> Path:
    """A temporary name in a folder for what is to become ``path``."""
    return folder / f"{TEMPORARY}{uuid.uuid4().hex[:12]}-{path.name}"


@contextmanager
def atomic_folder(
    path: Path | str, same: Callable[[Path, Path], bool] | None = None
) -> Iterator[Path]:
    """Yield a temporary folder, which takes the place of ``path`` on success.

    A folder cannot be renamed over a full one, so the old one is first moved aside; a kill
    between the two renames leaves no ``path`` at all, which a rerun mends.

    Args:
        path: the folder.
        same: whether the old folder (its first argument) holds the same as the new one, and may
            stay: whoever reads it then is not disturbed.

    Raises:
        OSError: it cannot be written (full disk, no permission, a file has its name); it
            names ``path``.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    remove_leftovers(path)
    temporary, old = (_unfinished(path.parent, path) for _ in range(2))
    try:
        with named_in_errors(path, temporary):
            temporary.mkdir()
            with in_use(temporary):
                yield temporary
                if same is not None and path.exists() and same(path, temporary):
                    return
                if path.exists():
                    os.replace(path, old)
                os.replace(temporary, path)
    finally:
        for folder in (temporary, old):
            _remove(folder)


@contextmanager
def named_in_errors(path: Path, temporary: Path | None = None) -> Iterator[None]:
    """Let an OSError that names no file, or an unfinished artifact, name ``path`` instead; and so
    a DataError, without its advice: to make again what is being made cannot help.

    One that names another file (something that is read on the way) stays as it is.
    """
    try:
        yield
    except DataError as error:
        if not (temporary and error.path.is_relative_to(temporary)):
            raise
        expected = str(error.args[-1]).partition(";")[0]
        raise DataError(path, error.field, error.actual, expected) from None
    except OSError as error:
        named = error.filename
        if named is None or (temporary and Path(os.fsdecode(named)).is_relative_to(temporary)):
            error.filename = str(path)
            del error.filename2  # of a rename
        raise


def remove_leftovers(path: Path | str) -> None:
    """Delete what killed runs, and no living one, left in the folder of ``path`` under temporary
    names."""
    path = Path(path)
    token = "[0-9a-f]" * 12
    for leftover in path.parent.glob(f"{TEMPORARY}{token}-{glob.escape(path.name)}"):
        if not is_in_use(leftover):
            _remove(leftover)


def _remove(path: Path) -> None:
    """Delete a file or a folder, as far as that can be; of a link, not what it leads to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def write_json(path: Path | str, value: Any) -> None:
    """Write ``value`` as indented JSON with sorted keys, whole or not at all."""
    with atomic_file(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")


def read_json(path: Path | str, expected: str = "a JSON document") -> Any:
    """Read a JSON file.

    Raises:
        DataError: if it is missing or not JSON; it says what is ``expected``, and what to do.
    """
    try:
        return json.loads(read_regular(path, MAX_JSON_BYTES).decode())
    except RecursionError:
        raise DataError(path, "JSON", "values too deep in one another", expected) from None
    except DataError as error:
        raise DataError(path, "JSON", error.actual, expected) from None
    except ValueError as error:
        raise DataError(path, "JSON", error, expected) from None


def fingerprint_files(paths: Iterable[Path | str], root: Path | str) -> str:
    """SHA-256 over names (relative to ``root``) and contents of files, in sorted order.

    Returns 64 hexadecimal digits; the same files give the same digits on every machine.
    """
    root, digest = Path(root), hashlib.sha256()
    for path in sorted(Path(p) for p in paths):
        digest.update(str(path.relative_to(root)).encode() + b"\0")
        with open_regular(path) as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def fingerprint_value(value: Any) -> str:
    """SHA-256 of a JSON-serializable value, 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
