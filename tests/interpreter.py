"""A Python that starts at once: it has imported what programs need, and is forked for each.

Most of what a stage takes on small data is the import of its packages, some seconds of it. The
folder that :func:`quick` returns can stand for a virtual environment: its ``bin/python`` runs
scripts and modules with arguments, folder, environment, limits of files, input and output of its
caller, in a process of its own, and ends as the program does. In a copy of the
repository, ``lib/`` is imported from there. All else is as in a Python that
starts anew.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
STREAMS = (0, 1, 2)
STARTED = "TGRAPH_TESTS_PYTHON"  # in the environment: the folder of a server
# Runs without packages, so that it starts in no time; gone, so is what it asked for.
CLIENT = """#!{python} -SIE
import json, os, resource, signal, socket, sys
first, second = (*sys.argv[1:3], "", "")[:2]
if not (first.endswith(".py") or first == "-m" and second.startswith(("lib.", "tests."))):
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])  # a worker of a library's
asked = {{"arguments": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}
limits = resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE
asked["limits"] = [[one, *resource.getrlimit(one)] for one in limits]
body = json.dumps(asked).encode()
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
socket.send_fds(server, [len(body).to_bytes(8, "big")], [0, 1, 2])
server.sendall(body)
code = int(server.makefile().readline() or 1)
if code < 0:
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
PROGRAMS = (
    *("01_preprocess.py", "02_train.py", "03_infer.py", "04_ensemble.py"),
    *("lib/scoring/rank.py", "lib/report/status.py"),
    *("lib/report/compare.py", "lib/scoring/merge.py"),
    "lib/scoring/score.py",
)


@cache
def quick() -> Path:
    """The folder of the server, which has begun to listen.

    It is started by the first call, unless a process above has started one.
    """
    started = os.environ.get(STARTED)
    folder = Path(started) if started else start()
    for _ in range(6_000):
        if (folder / "socket").exists():
            return folder
        if (folder / "failed").exists():
            break
        time.sleep(0.05)
    raise RuntimeError("the Python that starts at once does not start; it says why above")


def start() -> Path:
    """Start a server, which ends with this process; return its folder without waiting for it."""
    folder = Path(tempfile.mkdtemp(prefix="tgraph-python-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    client, address = folder / "bin" / "python", str(folder / "socket")
    client.parent.mkdir()
    client.write_text(CLIENT.format(python=sys.executable, address=address))
    client.chmod(0o755)
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.interpreter", address],
        cwd=REPOSITORY,
        # Threads that wait leave the cores; sets have the order that cases of tests.attack want.
        env={**os.environ, "OMP_WAIT_POLICY": "passive", "PYTHONHASHSEED": "0"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,  # as programs' mostly is: Python asks once whether it can seek
    )
    atexit.register(server.kill)
    return folder


def python() -> Path:
    """Its Python."""
    return quick() / "bin" / "python"


def serve(address: str) -> None:
    """Fork a program for each connection, until this process is killed."""
    try:
        import_all()
    except BaseException:
        Path(address).with_name("failed").touch()
        raise
    sys.executable = str(Path(address).with_name("bin") / "python")  # what programs start, too
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{address}.new")
        listener.listen(64)
        Path(f"{address}.new").rename(address)
        while True:
            connection, _ = listener.accept()
            if not os.fork():
                listener.close()
                follow(connection)
            connection.close()


def import_all() -> None:
    """Import what programs import, some of it when they first need it, before the first fork.

    What a program's code is made from is read, too. No thread is started: none survives a fork.
    """
    import gc

    import matplotlib.backends.backend_svg
    import matplotlib.figure  # noqa: F401
    import pandas  # noqa: F401
    import rich.live
    import rich.table  # noqa: F401
    import scipy.stats  # noqa: F401
    import torch._dynamo  # AdamW does when it is first made
    import torch.profiler  # noqa: F401

    from lib import native
    from lib.runs.code import STAGES, code_for, code_of
    from lib.settings import MODELS

    every = [model("") for models in MODELS.values() for model in models.values()]
    looked_up = (code_for(stage, settings) for settings in every for stage in STAGES)
    for path in sorted({*code_of(*PROGRAMS)}.union(*looked_up)):
        name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if path.endswith(".py") and path not in PROGRAMS:
            try:
                __import__(name)
            except ModuleNotFoundError as error:
                if error.name != "triton":  # which is there on GPUs alone
                    raise
    native.available()
    gc.collect()
    gc.freeze()  # pages that programs need not copy


def follow(connection: socket.socket) -> None:
    """Run one program, and tell its exit code; end it if who asked for it is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, streams, _, _ = socket.recv_fds(connection, 8, len(STREAMS))
    body = connection.makefile("rb").read(int.from_bytes(head, "big"))
    process = os.fork()
    if not process:
        connection.close()
        become(json.loads(body), streams)
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(process)
    ready, _, _ = select.select([ended, connection], [], [])
    if ended not in ready:
        os.kill(process, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if ended in ready:
        connection.sendall(f"{code}\n".encode())
    os._exit(0)


def become(asked: dict, streams: list[int]) -> None:
    """Be the program that was asked for."""
    import runpy

    for stream, target in zip(streams, STREAMS, strict=True):
        os.dup2(stream, target)
        os.close(stream)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    for limit, *most in asked["limits"]:
        resource.setrlimit(limit, most)
    if Path(asked["folder"]) != REPOSITORY and Path("lib").is_dir():
        sys.path[0] = asked["folder"]
        for name in [one for one in sys.modules if one.partition(".")[0] == "lib"]:
            del sys.modules[name]
    first, *rest = asked["arguments"]
    code = 0
    try:
        if first == "-m":
            from lib import begin_program

            sys.argv = rest
            begin_program()
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        else:
            sys.argv = [first, *rest]
            runpy.run_path(first, run_name="__main__")
    except BaseException as error:
        code = exit_code(error)
    finish(code)


def exit_code(error: BaseException) -> int:
    """What Python would end with, having said why."""
    if not isinstance(error, SystemExit):
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    print(error.code, file=sys.stderr)
    return 1


def finish(code: int) -> None:
    """End as Python does, but for the clearing up of all that was imported, which takes a while."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
