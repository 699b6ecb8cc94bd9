"""One file over HTTP: resumed where it broke off, never mixed from two versions of itself.

Beside the unfinished file lies a JSON that says which version of which address it is part of. A
server is asked for the rest of exactly that version (``Range`` with ``If-Range``); where its answer
is no such piece, the transfer starts again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import requests
from requests import exceptions

from lib.files.artifacts import read_json, write_json
from lib.files.errors import UserError
from lib.files.progress import Lines
from lib.files.schema import expect

CHUNK_BYTES = 2**16
MEGABYTE = 10**6
TIMEOUT = 60.0  # seconds that a server may stay silent
TRIES = 6  # failures in a row before giving up ...
PROGRESS_BYTES = 2**20  # ... where this much more than ever before starts a new row
PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds before the second try, doubled at each further one
PASSING = (408, 425, 429, 500, 502, 503, 504)  # statuses that may go away by themselves
LASTING = (  # what another try does not mend
    *(exceptions.InvalidURL, exceptions.InvalidSchema, exceptions.MissingSchema),
    *(exceptions.TooManyRedirects, exceptions.SSLError),
)
STATE = {
    "url": str,
    "length": int,
    "version": str,
}  # the version is empty where a server names none


class _Broken(Exception):
    """A transfer that may go better another time."""


def fetch(url: str, path: Path, reserve: Callable[[int, int], None]) -> None:
    """Download ``url`` to ``path``, going on where an earlier call broke off.

    Args:
        url: an http or https address.
        path: where to; a state file ``<path>.json`` is kept beside it.
        reserve: called with the length and the bytes already here, before the body is read;
            raises if the disk is too small.

    Raises:
        UserError: the address is wrong, the server refuses, or too many tries broke off. What
            came is kept for the next call.
    """
    best, failures = _size(path), 0
    while not complete(url, path):
        try:
            _transfer(url, path, reserve)
            if not complete(url, path):  # more came than should, or somebody else writes there
                raise _stale(path)
        except LASTING as error:
            raise UserError(f"{url}: {error}") from None
        except (_Broken, exceptions.RequestException) as broken:
            if _size(path) >= best + PROGRESS_BYTES:
                best, failures = _size(path), 0
            failures += 1
            if failures >= TRIES:
                raise UserError(f"{url}: {_root(broken)}; gave up after {TRIES} tries") from None
            pause = min(PAUSE * 2 ** (failures - 1), LONGEST_PAUSE)
            print(f"{path.name}: {_root(broken)}; again in {pause:g} s", file=sys.stderr)
            time.sleep(pause)


def complete(url: str, path: Path) -> bool:
    """Whether ``path`` is all of ``url``, by an earlier or the present call."""
    return _size(path) == _state(url, path).get("length")


def discard(path: Path) -> None:
    """Delete a file and its state, finished or not."""
    path.unlink(missing_ok=True)  # first: a state without a file means nothing
    _state_path(path).unlink(missing_ok=True)


def _transfer(url: str, path: Path, reserve: Callable[[int, int], None]) -> None:
    state, offset = _state(url, path), _size(path)
    headers = {"User-Agent": "tgraph", "Accept-Encoding": "identity"}
    if state and state["version"] and 0 < offset < state["length"]:
        headers |= {"Range": f"bytes={offset}-", "If-Range": state["version"]}
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
        status = response.status_code
        if status == 416 or (status == 206 and not _continues(response.headers, state, offset)):
            raise _stale(path)
        if status in PASSING:
            raise _Broken(f"{status} {response.reason}")
        if status not in (200, 206):
            raise UserError(f"{url}: {status} {response.reason}")
        if status == 200:
            state, offset = _new_state(url, response.headers), 0
            path.write_bytes(b"")  # the old bytes go before the new state comes
        reserve(state["length"], offset)
        if not offset:
            write_json(_state_path(path), state)
        lines = Lines(path.name, state["length"] // MEGABYTE, "megabyte")
        with path.open("ab") as file:
            for chunk in response.iter_content(CHUNK_BYTES):
                offset += file.write(chunk)
                lines.at(offset // MEGABYTE)


def _new_state(url: str, headers: Mapping[str, str]) -> dict[str, Any]:
    """What is to come, of which version."""
    if headers.get("Content-Type", "").startswith("text/html"):
        raise UserError(f"{url}: an HTML page came, not an archive")
    if not headers.get("Content-Length", "").isdecimal():
        raise UserError(f"{url}: the server does not say how long it is")
    return {"url": url, "length": int(headers["Content-Length"]), "version": _version(headers)}


def _version(headers: Mapping[str, str]) -> str:
    """What ``If-Range`` may compare: a strong entity tag, else the date."""
    tag = headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else headers.get("Last-Modified", "")


def _continues(headers: Mapping[str, str], state: dict[str, Any], offset: int) -> bool:
    """Whether an answer is the rest of the version that the state is of."""
    if not state:
        return False
    piece = f"bytes {offset}-{state['length'] - 1}/{state['length']}"
    same = _version(headers) in ("", state["version"])
    return same and headers.get("Content-Range") == piece


def _stale(path: Path) -> _Broken:
    discard(path)
    return _Broken("the pieces do not fit each other; starting again")


def _root(error: BaseException) -> str:
    """What broke a transfer, below what libraries have made of it."""
    while error.__context__ is not None:
        error = error.__context__
    return str(error) or type(error).__name__


def _state_path(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _state(url: str, path: Path) -> dict[str, Any]:
    """The state of a transfer of ``url``, or nothing; whatever else stands there is ignored."""
    try:
        state = expect(read_json(_state_path(path)), STATE, path)
    except UserError:
        return {}
    return state if state["url"] == url else {}
