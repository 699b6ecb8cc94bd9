"""Messages between a search, which has TVM, and what predicts for it, which has not.

A message is an npz with its length before it: arrays, and metadata in JSON as ``about``.
"""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

import numpy as np

from lib.files.children import end_with_parent
from lib.files.errors import UserError
from lib.files.foreign import reading
from lib.runs.code import ROOT

PREDICTOR = "predictor"  # the cost model that is trained here; the other models are TVM's own
COST_MODELS = (PREDICTOR, "xgboost", "random")
NATIVE = "native"  # the device that this machine is, whatever its processor
OURS = "searched"  # among the names of what a network is timed with
LENGTH = 8  # bytes of the length
Message = tuple[dict[str, Any], dict[str, np.ndarray]]


def file_name(network: str) -> str:
    """Return a network's name as a file's."""
    return re.sub(r"[^\w.-]", "_", network).lstrip(".") or "network"


def last_words(code: int, errors: str) -> str:
    """Return in one line why the process with TVM has ended.

    Args:
        code: its exit code; below 0, the signal that ended it.
        errors: the text of its standard error, with warnings of its libraries.
    """
    lines = errors.strip().splitlines()
    messages = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if messages:
        return messages[-1]
    if code < 0:
        name = signal.Signals(-code).name
        late = "; it took too long" if code == -signal.SIGALRM else ""
        return f"the process that has TVM was ended by {name}{late}"
    return lines[-1] if lines else f"exit code {code}"


def send(
    stream: BinaryIO, metadata: Mapping[str, Any], arrays: Mapping[str, np.ndarray] = {}
) -> None:
    """Write a message, and see it off.

    Raises:
        BrokenPipeError: nobody reads any more.
    """
    body = io.BytesIO()
    np.savez(body, about=np.array(json.dumps(metadata)), **arrays)
    stream.write(len(body.getvalue()).to_bytes(LENGTH, "big"))
    stream.write(body.getvalue())
    stream.flush()


def receive(stream: BinaryIO) -> Message | None:
    """Return the next message; ``None`` if there is none any more.

    Raises:
        DataError: it was cut short.
    """
    head = stream.read(LENGTH)
    if not head:
        return None
    body = stream.read(int.from_bytes(head, "big"))
    with reading("message", "npz", "arrays and metadata"):
        with np.load(io.BytesIO(body), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file}
        return json.loads(arrays.pop("about").item()), arrays


@contextmanager
def started(
    command: list[str], **environment: str
) -> Iterator[tuple[subprocess.Popen, Callable[[dict[str, np.ndarray]], None]]]:
    """Yield a process of this repository, and a function that answers it; it ends with the block.

    Raises:
        UserError: with what it says, if it fails.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
        pipes["preexec_fn"] = end_with_parent
        with subprocess.Popen(command, env=environment, **pipes) as child:

            def answer(arrays: dict[str, np.ndarray]) -> None:
                """Send them, unless it has ended: there is no next message then."""
                try:
                    send(child.stdin, {}, arrays)
                except BrokenPipeError:
                    with suppress(BrokenPipeError):  # of what is left in the buffer
                        child.stdin.close()

            try:
                yield child, answer
            except BaseException:
                child.kill()
                raise
        if child.returncode:
            errors.seek(0)
            raise UserError(last_words(child.returncode, errors.read()))
