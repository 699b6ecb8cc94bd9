"""``python -m lib.download.download --collection NAME``: the official archives, unpacked.

Each split is one tar archive. It is downloaded (and resumed, see :mod:`lib.download.transfer`),
extracted beside its final place, moved there whole, and described by a manifest that is written
last. Where the manifest is there and the files fit it, nothing is done.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from lib.download.transfer import complete, discard, fetch
from lib.download.untar import extract
from lib.files.artifacts import TEMPORARY, atomic_folder, read_json, write_json
from lib.files.command_line import Parser
from lib.files.errors import DataError, UserError, one_line_errors
from lib.files.locks import only_writer
from lib.files.regular import UnreadableError
from lib.files.schema import expect
from lib.settings import COLLECTIONS
from lib.settings.resolved import DOWNLOADED
from lib.settings.tables import check_collection, plain_model
from lib.tpugraphs.dataset import FILE, TPUGRAPHS, write_dataset
from lib.tpugraphs.roots import SPLITS

BASE_URL = "http://download.tensorflow.org/data/tpu_graphs/v0"
DISK_FACTOR = 2.1  # the archive and what is in it are there at the same time
DISK_MARGIN = 2**28  # bytes that stay free


@dataclass(frozen=True)
class Piece:
    """A split of a collection: one archive, one folder.

    Attributes:
        collection: such as ``layout-xla-default``.
        split: ``train``, ``valid`` or ``test``.
        to: the data root.
    """

    collection: str
    split: str
    to: Path

    @property
    def archive(self) -> str:
        """The archive's file name."""
        return f"npz_{self.collection.replace('-', '_')}_{self.split}.tar"

    @property
    def prefix(self) -> PurePosixPath:
        """The folder in the archive, and below the root."""
        return PurePosixPath("npz", *self.collection.split("-"), self.split)

    @property
    def folder(self) -> Path:
        """The final folder."""
        return self.to / self.prefix

    @property
    def manifest(self) -> Path:
        """What the folder should have in it."""
        return self.folder.with_name(f"{self.split}.manifest.json")

    @property
    def tar(self) -> Path:
        """The archive while it is needed."""
        return self.to / f"{TEMPORARY}{self.archive}"


def download(
    collection: str,
    to: Path = DOWNLOADED,
    base_url: str = BASE_URL,
    splits: Sequence[str] = SPLITS,
) -> Iterator[str]:
    """Download and unpack splits of a collection, one at a time, ``train`` last.

    The order matters: a root counts as downloaded once it has a ``train`` split.

    Args:
        collection: one of :data:`lib.settings.COLLECTIONS`.
        to: the data root; the files come to ``to/npz/layout/xla/default/train/*.npz``.
        base_url: where the archives are.
        splits: some of ``train``, ``valid``, ``test``.

    Yields:
        One line a split that says what was done.

    Raises:
        UserError: a wrong name, a server or archive that cannot be believed, a full disk. No
            folder is left half-extracted, and the same call goes on from there.
    """
    _check_names(collection, splits)
    for split in [split for split in reversed(SPLITS) if split in splits]:
        piece = Piece(collection, split, to)
        try:
            piece.folder.parent.mkdir(parents=True, exist_ok=True)
            with only_writer(to, piece.folder):
                yield _download_piece(piece, f"{base_url.rstrip('/')}/{piece.archive}")
            if not (to / FILE).exists():
                write_dataset(to, TPUGRAPHS)
        except OSError as error:
            raise UserError(f"{error.filename or to}: {error.strerror or error}") from None


def _download_piece(piece: Piece, url: str) -> str:
    fault = _fault(piece)
    if fault is None:
        discard(piece.tar)
        return _summary(piece, _listed(piece.manifest), "already there")
    if piece.manifest.exists():
        print(f"{piece.folder}: {fault}; downloading again", flush=True)
    elif _names(piece.folder) and not complete(url, piece.tar):
        raise UserError(
            f"{piece.folder}: has files that no download of ours put there (no {piece.manifest}); "
            "use them as they are, or move them away"
        )
    fetch(url, piece.tar, partial(_reserve, piece.to))
    files = _unpack(piece, url)
    discard(piece.tar)
    return _summary(piece, files, "downloaded")


def _unpack(piece: Piece, url: str) -> dict[str, int]:
    """Extract a downloaded archive, then write the manifest; a bad archive is deleted."""
    size = piece.tar.stat().st_size
    _reserve(piece.to, size, size)
    try:
        with atomic_folder(piece.folder) as temporary:
            files = extract(piece.tar, piece.archive, piece.prefix, temporary)
            piece.manifest.unlink(missing_ok=True)  # never beside files that it does not mean
    except UnreadableError:
        raise
    except DataError:
        discard(piece.tar)
        raise
    sizes = {name: {"size": length} for name, length in files.items()}
    write_json(piece.manifest, {"archive": {"url": url, "size": size}, "files": sizes})
    return files


def _fault(piece: Piece) -> str | None:
    """What is wrong with a downloaded split; ``None`` if it is as its manifest says."""
    if not piece.manifest.exists():
        return "no manifest"
    files, present = _listed(piece.manifest), _names(piece.folder)
    if strange := sorted(present - files.keys()):
        raise UserError(
            f"{piece.folder / strange[0]}: not from the archive ({len(strange)} such files); "
            "move it away, then run this again"
        )
    for name, size in sorted(files.items()):
        if name not in present:
            return f"{name} is missing"
        there = (piece.folder / name).stat().st_size
        if there != size:
            return f"{name} has {there} bytes, not {size}"
    return None


def _listed(manifest: Path) -> dict[str, int]:
    """The files a manifest names, and the bytes of each."""
    advice = "delete it and its folder to start again"
    document = expect(read_json(manifest), {"files": {str: {"size": int}}}, manifest, "", advice)
    return {name: file["size"] for name, file in document["files"].items()}


def _names(folder: Path) -> set[str]:
    if not folder.is_dir():
        return set()
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def _reserve(to: Path, length: int, here: int) -> None:
    """Raise a :class:`UserError` unless the disk has room for an archive and its content.

    Args:
        to: a folder on that disk.
        length: bytes of the archive.
        here: bytes of it that are on the disk already.
    """
    needed = int(length * DISK_FACTOR) - here + DISK_MARGIN
    free = shutil.disk_usage(to).free
    if free < needed:
        raise UserError(
            f"{to}: {free / 1e9:.1f} GB free, {needed / 1e9:.1f} GB needed for the archive and "
            "what is in it; free some, or name another folder"
        )


def _check_names(collection: str, splits: Sequence[str]) -> None:
    check_collection(collection)
    if COLLECTIONS[collection] == "programs":
        how = plain_model(collection).how_to_get
        raise UserError(f"--collection {collection}: nobody offers an archive of it; {how}")
    wrong = [split for split in splits if split not in SPLITS]
    if wrong or not splits:
        raise UserError(f"splits {','.join(splits)!r}: some of {','.join(SPLITS)}")


def _summary(piece: Piece, files: dict[str, int], done: str) -> str:
    return f"{piece.folder}: {len(files)} files, {sum(files.values()) / 1e6:.1f} MB, {done}"


@one_line_errors()
def main(argv: Sequence[str] | None = None) -> None:
    """The command line; errors are one line on standard error and exit code 2."""
    parser = Parser(
        prog="python -m lib.download.download",
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--collection", required=True, help=f"one of {', '.join(COLLECTIONS)}")
    parser.add_argument("--base-url", default=BASE_URL, help="where the archives are")
    parser.add_argument("--to", type=Path, default=DOWNLOADED, help="the data root")
    parser.add_argument("--splits", default=",".join(SPLITS), help="some of them")
    arguments = parser.parse_args(argv)
    splits = [split.strip() for split in arguments.splits.split(",") if split.strip()]
    for line in download(arguments.collection, arguments.to, arguments.base_url, splits):
        print(line, flush=True)


if __name__ == "__main__":
    main()
