"""One file over HTTP: resumed where it broke off, never mixed from two versions of itself.

Beside the unfinished file lies a JSON that says which version of which address it is part of. A
server is asked for the rest of exactly that version (``Range`` with ``If-Range``); whatever it
answers is checked, and where the pieces may not belong together the transfer starts again.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lib.files.artifacts import read_json, write_json
from lib.files.errors import UserError
from lib.files.progress import Lines

SCHEMES = ("http", "https")
CHUNK_BYTES = 2**16
MEGABYTE = 10**6
MAX_BYTES = 2**36  # 64 GiB; no official archive comes near
TIMEOUT = 60.0  # seconds that a server may stay silent
TRIES = 6  # failures in a row before giving up ...
PROGRESS_BYTES = 2**20  # ... where this much more than ever before starts a new row
PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds before the second try, doubled at each further one
PASSING = (408, 425, 429, 500, 502, 503, 504)  # statuses that may go away by themselves


class _Broken(Exception):
    """A transfer that may go better another time."""


@dataclass(frozen=True)
class Version:
    """What a server said of the file when the transfer began."""

    url: str
    length: int | None
    etag: str | None
    modified: str | None

    @property
    def validator(self) -> str | None:
        """What ``If-Range`` may compare: a strong entity tag, else the date."""
        strong = self.etag and not self.etag.startswith("W/")
        return self.etag if strong else self.modified


def fetch(url: str, path: Path, reserve: Callable[[int, int], None]) -> None:
    """Download ``url`` to ``path``, going on where an earlier call broke off.

    Args:
        url: an http or https address.
        path: where to; a state file ``<path>.json`` is kept beside it.
        reserve: called with the length (0 if undeclared) and the bytes already here, before
            the body is read; raises if the disk is too small.

    Raises:
        UserError: the address is wrong, the server refuses, or too many tries broke off. What
            came is kept for the next call.
    """
    check_url(url)
    best, failures = _size(path), 0
    while not complete(url, path):
        try:
            _transfer(url, path, reserve)
            if not complete(url, path):  # somebody else writes there
                raise _stale(path)
        except _Broken as broken:
            if _size(path) >= best + PROGRESS_BYTES:
                best, failures = _size(path), 0
            failures += 1
            if failures >= TRIES:
                raise UserError(f"{url}: {broken}; gave up after {TRIES} tries") from None
            pause = min(PAUSE * 2 ** (failures - 1), LONGEST_PAUSE)
            print(f"{path.name}: {broken}; again in {pause:g} s", file=sys.stderr)
            time.sleep(pause)


def check_url(url: str) -> None:
    """Raise a :class:`UserError` unless ``url`` is a plain http or https address."""
    try:
        parts = urlsplit(url)
        plain = not (parts.username or parts.password or parts.query or parts.fragment)
        good = parts.scheme in SCHEMES and parts.hostname and parts.port != 0 and plain
    except ValueError:
        good = False
    if not good or not url.isascii() or not url.isprintable() or " " in url:
        raise UserError(f"address {url!r}: not a plain http:// or https:// address")


def complete(url: str, path: Path) -> bool:
    """Whether ``path`` is all of ``url``, by an earlier or the present call."""
    version = _version(url, path)
    return version is not None and version.length is not None and _size(path) == version.length


def discard(path: Path) -> None:
    """Delete a file and its state, finished or not."""
    path.unlink(missing_ok=True)  # first: a state without a file means nothing
    _state_path(path).unlink(missing_ok=True)


def _transfer(url: str, path: Path, reserve: Callable[[int, int], None]) -> None:
    earlier, offset = _version(url, path), _size(path)
    resumable = earlier is not None and earlier.length is not None and earlier.validator is not None
    if earlier is None or not resumable or not 0 < offset < (earlier.length or 0):
        earlier, offset = None, 0
    with _open(url, path, earlier, offset) as response:
        version, offset = _agree(url, path, response, earlier, offset)
        if offset == 0:
            path.write_bytes(b"")  # the old bytes go before the new state comes
        reserve(version.length or 0, offset)
        if offset == 0:
            write_json(_state_path(path), asdict(version))
        size = _receive(response, path, version.length, offset)
    if version.length is None:  # the end of the stream was the end of the file
        write_json(_state_path(path), asdict(version) | {"length": size})


def _open(url: str, path: Path, earlier: Version | None, offset: int) -> http.client.HTTPResponse:
    request = urllib.request.Request(url, headers={"User-Agent": "tgraph"})
    if earlier is not None and earlier.validator is not None:
        request.add_header("Range", f"bytes={offset}-")
        request.add_header("If-Range", earlier.validator)
    try:
        return urllib.request.build_opener(_WebOnly).open(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and offset:
            raise _stale(path) from None
        if error.code in PASSING:
            raise _Broken(f"{error.code} {error.reason}") from None
        raise UserError(f"{url}: {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise UserError(f"{url}: {error.reason}") from None
        raise _Broken(str(error.reason)) from None
    except (OSError, http.client.HTTPException) as error:
        raise _Broken(str(error) or type(error).__name__) from None


def _agree(
    url: str, path: Path, response: Any, earlier: Version | None, offset: int
) -> tuple[Version, int]:
    """What is being sent, and from which byte on."""
    headers = response.headers
    if headers.get_content_type() == "text/html":
        raise UserError(f"{url}: an HTML page came, not an archive")
    if headers.get("Content-Encoding", "identity").lower() != "identity":
        raise UserError(f"{url}: came with Content-Encoding {headers['Content-Encoding']}")
    version = Version(url, response.length, headers.get("ETag"), headers.get("Last-Modified"))
    if response.status == 206 and earlier is not None:
        if not _continues(headers.get("Content-Range", ""), version, earlier, offset):
            raise _stale(path)
        return earlier, offset
    if response.status != 200:
        raise UserError(f"{url}: unexpected status {response.status} {response.reason}")
    if (version.length or 0) > MAX_BYTES:
        raise UserError(f"{url}: declares {version.length} bytes, at most {MAX_BYTES} expected")
    return version, 0


def _continues(content_range: str, part: Version, earlier: Version, offset: int) -> bool:
    match = re.fullmatch(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", content_range.strip())
    if match is None or earlier.length is None:
        return False
    start, last, total = map(int, match.groups())
    return (
        (start, last, total) == (offset, earlier.length - 1, earlier.length)
        and part.length in (None, total - start)
        and part.etag in (None, earlier.etag)
        and part.modified in (None, earlier.modified)
    )


def _receive(response: Any, path: Path, length: int | None, offset: int) -> int:
    limit = MAX_BYTES if length is None else length
    lines = Lines(path.name, (length or 0) // MEGABYTE, "megabyte")
    with path.open("ab") as file:
        while chunk := _read(response):
            offset += len(chunk)
            if offset > limit:
                file.close()
                discard(path)
                raise _Broken(f"more than {limit} bytes came")
            file.write(chunk)
            lines.at(offset // MEGABYTE)
    if length is not None and offset < length:
        raise _Broken(f"broke off after {offset} of {length} bytes")
    return offset


def _read(response: Any) -> bytes:
    try:
        return response.read(CHUNK_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise _Broken(str(error) or type(error).__name__) from None


def _stale(path: Path) -> _Broken:
    discard(path)
    return _Broken("the pieces do not fit each other; starting again")


def _state_path(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _version(url: str, path: Path) -> Version | None:
    """The state of an unfinished transfer of ``url``; whatever else stands there is ignored."""
    state: Any = None
    with contextlib.suppress(OSError, UserError):
        state = read_json(_state_path(path))
    try:
        version = Version(**state)
    except TypeError:
        return None
    texts = (version.etag, version.modified)
    sound = isinstance(version.length, int | None) and all(isinstance(t, str | None) for t in texts)
    return version if version.url == url and sound else None


class _WebOnly(urllib.request.HTTPRedirectHandler):
    """Follows redirects to the web only, and never from https to http."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str):
        allowed = ("https",) if req.type == "https" else SCHEMES
        if urlsplit(newurl).scheme not in allowed:
            raise UserError(f"{req.full_url}: redirects to {newurl}, not one of {allowed}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
