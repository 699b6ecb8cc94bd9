"""What goes wrong before a stage's work begins, in its imports or for want of memory: one line."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import time

import pytest

from lib import INTERRUPTED, LEAST_ADDRESS_SPACE
from tests.stages import LONGEST, REPOSITORY, SCRIPTS, command, environment, make_command
from tests.synthetic import write_collection

# Runs before anything else of Python: something happens when a package is imported.
CUSTOM = """
import os, signal, sys
class Finder:
    def find_spec(self, name, *_):
        if name == {package!r}:
            {happens}
sys.meta_path.insert(0, Finder())
"""
INTERRUPT = "os.kill(os.getpid(), signal.SIGINT)"
# As torch does with numpy: what goes wrong is dropped, and something is missing later on.
DROPPED = f"""
            try:
                {INTERRUPT}
                [None for _ in range(10**7)]
            except KeyboardInterrupt:
                pass"""
# Read by every Python: a worker stands still when it is about to read a file, and says so.
STANDSTILL = """
import os, sys, time
def about_to(event, arguments):
    if event == "open" and str(arguments[0]).endswith("train_1.v1.0.npz"):
        os.close(os.open({mark!r}, os.O_CREAT | os.O_WRONLY))
        time.sleep({seconds})
if "loky" in " ".join(sys.orig_argv):
    sys.addaudithook(about_to)
"""
SCORE = [sys.executable, "-m", "lib.scoring.score", "--outputs", "nowhere"]


@pytest.fixture
def run(tmp_path):
    """A function that runs a command in which something happens at an import."""

    def run(line: list[str], package: str = "", happens: str = "pass", limit: int | None = None):
        (tmp_path / "sitecustomize.py").write_text(CUSTOM.format(package=package, happens=happens))
        path = f"{tmp_path}:{REPOSITORY}"
        return subprocess.run(
            line,
            cwd=REPOSITORY,
            env=environment() | {"PYTHONPATH": path},
            preexec_fn=limit and (lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))),
            capture_output=True,
            text=True,
            timeout=LONGEST,
        )

    return run


@pytest.mark.parametrize("happens", [INTERRUPT, DROPPED])
@pytest.mark.parametrize("script", SCRIPTS)
def test_an_interruption_during_a_stages_imports_is_one_line(run, script, happens):
    package = "torch" if script in SCRIPTS[1:3] else "polars"
    fold = ["--fold", 0] if package == "torch" else []
    done = run(command(script, "--outputs", "nowhere", *fold, anew=True), package, happens)
    assert (done.returncode, done.stderr, done.stdout) == (130, f"{INTERRUPTED}\n", "")


def test_an_interruption_during_the_imports_of_another_command_is_one_line(run):
    done = run(SCORE, "lib.settings", INTERRUPT)
    assert (done.returncode, done.stderr) == (130, f"{INTERRUPTED}\n")


@pytest.mark.parametrize(
    "error",
    [
        'ImportError("libtorch_cpu.so: failed to map segment from shared object")',
        "MemoryError()",
        'RuntimeError("std::bad_alloc")',
        """RuntimeError("can't start new thread")""",
    ],
)
def test_no_memory_for_an_import_is_one_line(run, error):
    done = run(
        command("02_train.py", "--outputs", "nowhere", "--fold", 0, anew=True),
        "torch",
        f"raise {error}",
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: out of memory")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("error", ['ImportError("no name x")', 'RuntimeError("a defect")'])
def test_another_error_of_an_import_keeps_its_traceback(run, error):
    done = run(
        command("02_train.py", "--outputs", "nowhere", "--fold", 0, anew=True),
        "torch",
        f"raise {error}",
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")


@pytest.mark.parametrize("line", [*(command(s, anew=True) for s in SCRIPTS), SCORE])
def test_too_small_an_address_space_is_one_line(run, line):
    """With so little, some libraries abort, and one tries again for ever."""
    done = run(line, limit=LEAST_ADDRESS_SPACE - (1 << 20))
    assert done.returncode == 2
    assert done.stderr.startswith("error: ulimit -v ")
    assert done.stderr.count("\n") == 1


def test_who_imports_lib_keeps_a_hook_and_a_limit_of_their_own(run):
    """As a notebook does: it is no program of ours."""
    line = "import sys, lib, lib.settings; assert sys.excepthook is sys.__excepthook__"
    done = run([sys.executable, "-c", line], limit=LEAST_ADDRESS_SPACE - (1 << 20))
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interruption_of_make_and_all_that_it_runs(tmp_path):
    """From a terminal, which tells every process: make, stage 1, its workers in a file's midst."""
    write_collection(tmp_path / "data", "layout-xla-default", train=4, valid=1, test=1)
    outputs, mark = tmp_path / "outputs", tmp_path / "mark"
    (tmp_path / "sitecustomize.py").write_text(STANDSTILL.format(mark=str(mark), seconds=LONGEST))
    process = subprocess.Popen(
        make_command("preprocess", DATA=tmp_path / "data", OUTPUTS=outputs, JOBS=2),
        cwd=REPOSITORY,
        env=environment() | {"PYTHONPATH": f"{tmp_path}:{REPOSITORY}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    while not mark.exists():
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, *said = process.communicate(timeout=LONGEST)[0].splitlines()
    assert said[0] == INTERRUPTED
    assert [line[:8] for line in said[1:]] == ["make: **"]
    assert not list(outputs.glob("layout*/**/*.json"))
    assert not list(outputs.rglob(".partial-*"))


def test_a_line_is_written_at_once():
    """Or the lines of folds that train side by side would be mixed."""
    reading, writing = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with reading, writing:
        subprocess.run(
            [sys.executable, "-c", "import lib.runs.begin; print('one', 'line')"],
            cwd=REPOSITORY,
            env=environment() | {"PYTHONUNBUFFERED": "1"},
            stdout=writing,
            check=True,
        )
        assert reading.recv(100) == b"one line\n"
