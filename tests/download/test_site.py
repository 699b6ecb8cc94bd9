"""A server on loopback that misbehaves as it is told. No tests here: those beside use it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from lib.download import transfer


class Site(ThreadingHTTPServer):
    """A server; each request takes the next behaviour of ``script``, then behaves well.

    Attributes:
        files: path to body.
        log: (path, Range header) of each request.
        validators: headers that name the version of a body.
        hold: set to let a response that waits go on.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.script: list[Callable[[Handler], None]] = []
        self.log: list[tuple[str, str | None]] = []
        self.validators = lambda body: {"ETag": f'"{hash(body)}"'}
        self.hold = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address):
        pass  # clients that are killed are the point


class Handler(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self):
        self.server.log.append((self.path, self.headers.get("Range")))
        script = self.server.script
        (script.pop(0) if script else well)(self)

    def log_message(self, *args):
        pass

    def send(self, status: int, headers: dict, body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def answer(self, ranges: bool = True, cut: int | None = None, **changes) -> None:
        """Serve the file as the standard says, but for what the arguments spoil."""
        body = self.server.files.get(self.path)
        if body is None:
            return self.send(404, {}, b"")
        version, asked = self.server.validators(body), self.headers.get("Range")
        headers, status = {**version, "Content-Length": len(body)}, 200
        if ranges and asked and self.headers.get("If-Range") in version.values():
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                return self.send(416, {"Content-Range": f"bytes */{len(body)}"}, b"")
            headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
            status, body = 206, body[start:]
            headers["Content-Length"] = len(body)
        headers |= {name.replace("_", "-"): value for name, value in changes.items()}
        headers = {name: value for name, value in headers.items() if value is not None}
        self.send(status, headers, body[:cut])


def well(handler: Handler) -> None:
    handler.answer()


def spoiled(**how) -> Callable[[Handler], None]:
    return lambda handler: handler.answer(**how)


def status(code: int, body: bytes = b"", **headers) -> Callable[[Handler], None]:
    return lambda handler: handler.send(code, headers, body)


def half_then_wait(handler: Handler) -> None:
    """Send half a body, then stay silent until somebody lets go."""
    body = handler.server.files[handler.path]
    headers = {**handler.server.validators(body), "Content-Length": len(body)}
    handler.send(200, headers, body[: len(body) // 2])
    handler.wfile.flush()
    handler.server.hold.wait(60)


@contextmanager
def serving() -> Iterator[Site]:
    with Site() as site:
        thread = threading.Thread(target=site.serve_forever, args=(0.005,))
        thread.start()
        try:
            yield site
        finally:
            site.hold.set()
            site.shutdown()
            thread.join()


def loopback_only(monkeypatch) -> None:
    """No proxy between the tests and their server, no waiting between tries."""
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(transfer, "PAUSE", 0.001)
