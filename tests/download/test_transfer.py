"""One file from a server on loopback that breaks off, changes, lies and recovers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lib.download import transfer
from lib.files.errors import UserError
from tests.download.test_site import (
    Handler,
    Site,
    half_then_wait,
    loopback_only,
    serving,
    spoiled,
    status,
)

BODY = random.Random(0).randbytes(300_000)
OTHER = random.Random(1).randbytes(250_000)


@pytest.fixture
def site(monkeypatch) -> Iterator[Site]:
    loopback_only(monkeypatch)
    with serving() as site:
        site.files["/a.tar"] = BODY
        yield site


def get(site: Site, path: Path, reserve=lambda length, here: None) -> bytes:
    transfer.fetch(f"{site.url}/a.tar", path, reserve)
    return path.read_bytes()


def ranges(site: Site) -> list[str | None]:
    return [asked for _, asked in site.log]


def test_a_whole_file_comes_once(site, tmp_path):
    asked = []
    assert get(site, tmp_path / "a", lambda *numbers: asked.append(numbers)) == BODY
    assert get(site, tmp_path / "a") == BODY
    assert (ranges(site), asked) == ([None], [(len(BODY), 0)])


@pytest.mark.parametrize("by", ["ETag", "Last-Modified"])
def test_a_broken_transfer_goes_on_where_it_broke(site, tmp_path, by):
    date = "Mon, 01 Jan 2024 00:00:00 GMT"
    site.validators = lambda body: {by: '"one"' if by == "ETag" else date}
    site.script = [spoiled(cut=131_072), spoiled(cut=131_072)]
    assert get(site, tmp_path / "a") == BODY
    assert ranges(site) == [None, "bytes=131072-", "bytes=262144-"]


def test_a_later_call_goes_on(site, tmp_path, monkeypatch):
    monkeypatch.setattr(transfer, "TRIES", 1)
    site.script = [spoiled(cut=131_072)]
    with pytest.raises(UserError, match="IncompleteRead"):
        get(site, tmp_path / "a")
    assert get(site, tmp_path / "a") == BODY
    assert ranges(site) == [None, "bytes=131072-"]


def test_a_server_that_ignores_ranges_starts_again(site, tmp_path):
    site.script = [spoiled(cut=131_072), spoiled(ranges=False)]
    assert get(site, tmp_path / "a") == BODY
    assert ranges(site) == [None, "bytes=131072-"]


def changed(**how) -> Callable[[Handler], None]:
    """The file becomes another one, just before this request."""

    def behave(handler):
        handler.server.files["/a.tar"] = OTHER
        handler.answer(**how)

    return behave


def test_a_file_that_changes_in_between_is_not_mixed(site, tmp_path):
    site.script = [spoiled(cut=131_072), changed()]
    assert get(site, tmp_path / "a") == OTHER


@pytest.mark.parametrize("lengths", ["the same length", "another length"])
def test_a_changed_file_is_noticed_where_if_range_is_ignored(site, tmp_path, lengths):
    new = OTHER if lengths == "another length" else OTHER + bytes(50_000)

    def careless(handler):
        site.files["/a.tar"] = new
        place = f"bytes 131072-{len(new) - 1}/{len(new)}"
        headers = {"Content-Range": place, "Content-Length": len(new) - 131_072, "ETag": '"new"'}
        handler.send(206, headers, new[131_072:])

    site.script = [spoiled(cut=131_072), careless]
    assert get(site, tmp_path / "a") == new
    assert ranges(site) == [None, "bytes=131072-", None]


@pytest.mark.parametrize(
    "place", [None, "", "bytes 0-299999/300000", "bytes 131072-200000/300000", "bytes 1-2/*", "x"]
)
def test_a_wrong_piece_is_not_believed(site, tmp_path, place):
    site.script = [spoiled(cut=131_072), spoiled(Content_Range=place)]
    assert get(site, tmp_path / "a") == BODY
    assert ranges(site) == [None, "bytes=131072-", None]


def test_416_starts_again(site, tmp_path):
    site.script = [spoiled(cut=131_072), status(416)]
    assert get(site, tmp_path / "a") == BODY
    assert ranges(site) == [None, "bytes=131072-", None]


def test_without_a_validator_nothing_is_resumed(site, tmp_path):
    site.validators = lambda body: {"ETag": 'W/"weak"'}
    site.script = [spoiled(cut=131_072)]
    assert get(site, tmp_path / "a") == BODY
    assert ranges(site) == [None, None]


def test_a_declared_length_that_is_too_large_is_told(site, tmp_path):
    site.script = [spoiled(Content_Length=400_000)] + 10 * [spoiled(ranges=False, cut=0)]
    with pytest.raises(UserError, match=r"IncompleteRead.*; gave up after 6"):
        get(site, tmp_path / "a")
    assert len(site.log) == 6


def test_a_server_that_always_lies_is_given_up(site, tmp_path):
    site.script = 20 * [spoiled(ranges=False, Content_Length=400_000)]
    with pytest.raises(
        UserError, match=r"IncompleteRead\(300000 bytes read, 100000 more expected\); gave up"
    ):
        get(site, tmp_path / "a")
    assert len(site.log) == 6


def test_a_piece_longer_than_its_range_is_noticed(site, tmp_path):
    def longer(handler):
        headers = {"Content-Range": "bytes 131072-299999/300000", "ETag": f'"{hash(BODY)}"'}
        handler.send(206, headers, BODY[131_072:] + b"more")

    site.script = [spoiled(cut=131_072), longer]
    assert get(site, tmp_path / "a") == BODY
    assert ranges(site) == [None, "bytes=131072-", None]


@pytest.mark.parametrize("code", [408, 429, 500, 503])
def test_a_passing_error_is_waited_for(site, tmp_path, code):
    site.script = [status(code), status(code)]
    assert get(site, tmp_path / "a") == BODY


def test_failures_are_counted_anew_after_progress(site, tmp_path, monkeypatch):
    monkeypatch.setattr(transfer, "TRIES", 2)
    monkeypatch.setattr(transfer, "PROGRESS_BYTES", transfer.CHUNK_BYTES)
    site.script = 4 * [spoiled(cut=transfer.CHUNK_BYTES)]
    assert get(site, tmp_path / "a") == BODY


@pytest.mark.parametrize("code", [301, 400, 401, 403, 404, 410])
def test_a_lasting_error_is_told_at_once(site, tmp_path, code):
    site.script = [status(code)]
    with pytest.raises(UserError, match=f"a.tar: {code}"):
        get(site, tmp_path / "a")
    assert len(site.log) == 1


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (status(200, b"<html>", **{"Content-Type": "text/html; charset=utf-8"}), "an HTML page"),
        (spoiled(Content_Length=None), "does not say how long it is"),
        (status(204), "a.tar: 204"),
        (status(302, Location="file:///etc/passwd"), "No connection adapters"),
        (status(302, Location="ftp://127.0.0.1/a.tar"), "No connection adapters"),
    ],
)
def test_an_answer_that_is_no_archive_is_told_at_once(site, tmp_path, behaviour, message):
    site.script = [behaviour]
    with pytest.raises(UserError, match=message):
        get(site, tmp_path / "a")
    assert len(site.log) == 1


def test_redirects_on_the_web_are_followed(site, tmp_path):
    site.files["/b.tar"] = BODY
    site.script = [status(302, Location="/b.tar")]
    assert get(site, tmp_path / "a") == BODY


def test_nobody_there(site, tmp_path):
    with pytest.raises(UserError, match=r"refused; gave up after 6 tries"):
        transfer.fetch("http://127.0.0.1:1/a.tar", tmp_path / "a", lambda *_: None)


def test_silence_is_broken_off(site, tmp_path, monkeypatch):
    usual = transfer.TIMEOUT

    def silent(handler: Handler) -> None:
        monkeypatch.setattr(transfer, "TIMEOUT", usual)  # for the next try
        half_then_wait(handler)

    monkeypatch.setattr(transfer, "TIMEOUT", 0.3)
    site.script = [silent]
    assert get(site, tmp_path / "a") == BODY


@pytest.mark.parametrize("url", ["", "a.tar", "file:///etc/passwd", "ftp://host/a", "http:///a"])
def test_only_web_addresses(url, tmp_path):
    with pytest.raises(UserError, match=r"Invalid URL|No connection adapters"):
        transfer.fetch(url, tmp_path / "a", lambda *_: None)


@pytest.mark.parametrize("state", ["", "[]", "{}", '{"url": 1}', "null", "\x00"])
def test_a_damaged_state_starts_again(site, tmp_path, state):
    path = tmp_path / "a"
    path.write_bytes(OTHER)
    (tmp_path / "a.json").write_text(state)
    assert get(site, path) == BODY
    assert ranges(site) == [None]


def test_the_state_is_of_one_address(site, tmp_path, monkeypatch):
    monkeypatch.setattr(transfer, "TRIES", 1)
    site.script = [spoiled(cut=131_072)]
    with pytest.raises(UserError):
        get(site, tmp_path / "a")
    assert json.loads((tmp_path / "a.json").read_text())["length"] == len(BODY)
    site.files["/b.tar"] = OTHER
    transfer.fetch(f"{site.url}/b.tar", tmp_path / "a", lambda *_: None)
    assert (tmp_path / "a").read_bytes() == OTHER
    assert site.log[-1] == ("/b.tar", None)
