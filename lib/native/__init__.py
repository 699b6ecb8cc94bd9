"""Compiled loops around the matrix products of the networks, for the CPU.

``make setup``, or else the first stage that needs them, compiles ``*.cpp`` with torch's own builder
for this machine's processor and torch, in half a minute, into a folder of the Python environment. A
file next to the library names its compiler. A library that is there is used, whatever compiler is
installed now. Without a library and a compiler, networks run on torch alone: the same numbers to
rounding, in three times the time.
"""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from lib.files.artifacts import fingerprint_files, fingerprint_value, read_json, write_json
from lib.files.locks import only_writer

HERE = Path(__file__).resolve().parent
FLAGS = ["-O2", "-march=native", "-fopenmp", "-fno-math-errno", "-Wno-psabi"]
NAME = "tgraph_native"
LINKED = ["-fopenmp"]  # finds the OpenMP that torch has loaded: both have the same name
SWITCH = "TGRAPH_NATIVE"  # 0: torch alone
GPU_GRAPHS = "TGRAPH_GPU_GRAPHS"  # 1: lib/models/common/replay.py


def sources() -> list[Path]:
    """Return the C++ files, sorted."""
    return sorted([*HERE.glob("*.cpp"), *HERE.glob("*.h")])


@functools.cache
def available() -> bool:
    """Load the compiled loops as ``torch.ops.tgraph``, and return whether they are there.

    They are compiled if need be.
    """
    if not wanted():
        return False
    try:
        path = library()
        if not path.is_file():
            with only_writer(path.parent, path):
                if not path.is_file():  # another process may have written it by now
                    _make(path)
        torch.ops.load_library(str(path))
    except (RuntimeError, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        warning = "lib/native is not compiled, networks run on torch alone, several times slower"
        print(f"{warning}: {reason}", file=sys.stderr)
        return False
    return True


def wanted() -> bool:
    """Return whether anything but torch alone may compute."""
    return os.environ.get(SWITCH) != "0"


def wants_gpu_graphs() -> bool:
    """Return whether CUDA graphs are recorded."""
    return os.environ.get(GPU_GRAPHS) == "1"


def compiler() -> str:
    """Return the version line of the library's compiler: others may round differently."""
    return read_json(library().with_suffix(".json"))["compiler"]


def takes(like: torch.Tensor) -> bool:
    """Return whether the compiled loops take numbers of this tensor's type and device."""
    return like.device.type == "cpu" and like.dtype == torch.float32 and available()


def library() -> Path:
    """Return the path of the library for these sources, this torch and this processor."""
    key: dict[str, Any] = {"sources": fingerprint_files(sources(), HERE)}
    key |= {"torch": torch.__version__, "python": sys.version}
    key |= {"flags": FLAGS, "processor": _processor()}
    return Path(sys.prefix) / "tgraph-native" / f"{fingerprint_value(key)[:16]}.so"


def _make(path: Path) -> None:
    """Compile the library, and put it and its compiler's name in their place, whole."""
    words = shlex.split(os.environ.get("CXX") or "c++")  # such as `ccache g++`
    if shutil.which(words[0]) is None:
        raise OSError(f"no C++ compiler, {words[0]} is not in PATH")
    answer = subprocess.run([*words, "--version"], capture_output=True, text=True)
    name = (answer.stdout.splitlines() or [shlex.join(words)])[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        built = _compile(Path(folder), words)
        with open(built, "rb") as file:
            os.fsync(file.fileno())
        write_json(path.with_suffix(".json"), {"compiler": name})
        os.replace(built, path)  # moved, not copied: torch has loaded this very file


def _compile(folder: Path, words: list[str]) -> Path:
    """Compile the library in a folder with a compiler's command, and return its path."""
    from torch.utils import cpp_extension  # slow to import, seldom needed

    print("compiling lib/native for this processor (half a minute, once)", file=sys.stderr)
    # Ninja is a package of the environment, whose programs need not be in PATH.
    programs = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    os.environ["PATH"] = os.pathsep.join(programs)
    if len(words) > 1:  # torch would take them for one word
        compiler = folder / "c++"
        compiler.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        compiler.chmod(0o755)
        os.environ["CXX"] = str(compiler)
    # One file, since the compiler needs most of the time to read torch's headers.
    copied = [Path(shutil.copy(path, folder)).name for path in sources()]
    together = folder / "together.cc"
    together.write_text("".join(f'#include "{p}"\n' for p in copied if p.endswith(".cpp")))
    # Torch does not quote this path of the environment, which may have blanks.
    cpp_extension.TORCH_LIB_PATH = shlex.quote(cpp_extension.TORCH_LIB_PATH)
    cpp_extension.load(
        NAME,
        [str(together)],
        extra_cflags=FLAGS,
        extra_ldflags=LINKED,
        build_directory=str(folder),
        is_python_module=False,
    )
    if len(words) > 1:
        os.environ["CXX"] = shlex.join(words)
    return folder / f"{NAME}.so"


def _processor() -> str:
    """Return the processor's flags, if they can be read, or else torch's word for it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return torch.backends.cpu.get_cpu_capability()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")
