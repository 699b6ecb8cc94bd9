"""Running the stage scripts and make as a user does, in a clean environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.builders import COLLECTION
from tests.interpreter import python, quick

REPOSITORY = Path(__file__).resolve().parents[1]
SCRIPTS = ("01_preprocess.py", "02_train.py", "03_infer.py", "04_ensemble.py")
MAKEFILES = (REPOSITORY / "Makefile", *sorted((REPOSITORY / "lib").rglob("*.mk")))


def variables_of_make(kind: str) -> list[str]:
    """The names in one of the Makefile's lists: ``PLAIN``, ``QUOTED`` or ``HANDED_ON``."""
    text = MAKEFILES[0].read_text().replace("\\\n", " ")
    return next(x.split()[2:] for x in text.splitlines() if x.startswith(f"{kind} := "))


# What `make test` hands down to its children, and every variable of the Makefile.
MAKE_VARIABLES = (
    *("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "GNUMAKEFLAGS", "MAKEFILES"),
    "TGRAPH_GPU_TURNS",
    *(name for kind in ("PLAIN", "QUOTED", "HANDED_ON") for name in variables_of_make(kind)),
)
# What make leaves in an environment that it has set up, or a part of it.
STAMPS = re.findall(
    r"^\$\(READY\)([\w-]*):", "\n".join(path.read_text() for path in MAKEFILES), re.MULTILINE
)
LONGEST = 900  # seconds that a command may take: it hangs, it is not slow
# Folds and networks that train in a second; batches smaller than graphs, so that TTA shows.
TINY_FLAGS = (
    *("--model", "tgraph", "--folds-total", "2", "--channels", "32", "--score-training"),
    *("--inference-configurations", "8", "--permutations", "2"),
)
# The same for make, whose files go by the model.
TINY_VARIABLES = {"MODEL": TINY_FLAGS[1], "ARGS": " ".join(TINY_FLAGS[2:])}


def environment() -> dict[str, str]:
    """This process's environment without make's and W&B's variables, W&B switched off."""
    dropped = ("WANDB_", "PYTHONSTARTUP")
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in MAKE_VARIABLES and not name.startswith(dropped)
    }
    return kept | {"WANDB_MODE": "disabled", "PYTHONPATH": str(REPOSITORY)}


def make(*arguments: str, **keywords: object) -> str:
    """Standard output of :func:`run_make`, which must succeed."""
    done = run_make(*arguments, **keywords)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_make(
    *arguments: str,
    venv: Path | str | None = None,
    environ: dict[str, str] | None = None,
    folder: Path = REPOSITORY,
    **variables: object,
) -> subprocess.CompletedProcess:
    """Run make in the repository, whatever comes of it.

    Args:
        arguments: of make.
        venv: the environment; without it, one whose Python starts at once.
        environ: put on top of :func:`environment`.
        folder: of the repository, or of a copy.
        variables: of make.
    """
    words = make_command(*arguments, venv=quick() if venv is None else venv, **variables)
    return ran(words, cwd=folder, env=environment() | (environ or {}))


def ran(words: Sequence[object], **options: Any) -> subprocess.CompletedProcess:
    """Run a command, whatever comes of it; in the repository unless the options say otherwise."""
    usual = {"cwd": REPOSITORY, "env": environment(), "timeout": LONGEST}
    return subprocess.run([*map(str, words)], capture_output=True, text=True, **usual | options)


def script(path: Path, text: str) -> Path:
    """Write a program in its place, which may be in new folders; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def make_command(*arguments: str, venv: Path | str = sys.prefix, **variables: object) -> list[str]:
    """The command line of make.

    (``python3`` may be a script that looks for Python, which takes as long as what make asks of
    it.)
    """
    given = {"VENV": venv, "PYTHON": sys.executable, "COLLECTION": COLLECTION, **variables}
    words = [f"{name}={value}" for name, value in given.items()]
    return [*make_without_setup(venv), *words, *arguments]


def make_without_setup(venv: Path | str) -> list[str]:
    """A make that installs and compiles nothing in an environment, old or without any stamp."""
    return ["make", *(f"-o{venv}/.ready{what}" for what in STAMPS)]


def stages_in(output: str) -> list[str]:
    """The stage scripts that make's output says were (or would be) run, in order, each once."""
    return [script for script in SCRIPTS if f"bin/python {script} " in output]


def command(program: str, *flags: object, anew: bool = False) -> list[str]:
    """The command line of one stage, or of another command by its module, such as ``lib.tune``.

    Python starts at once, or ``anew``.
    """
    called = [program] if program.endswith(".py") else ["-m", program]
    started = sys.executable if anew else str(python())
    return [started, *called, "--collection", COLLECTION, *map(str, flags)]


def run_stage(program: str, *flags: object) -> subprocess.CompletedProcess:
    """Run one stage or command on ``COLLECTION``, whatever comes of it."""
    return ran(command(program, *flags))
