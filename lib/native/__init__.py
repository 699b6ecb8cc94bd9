"""Compiled loops around the matrix products of the networks, for the CPU.

``*.cpp`` are compiled once for this machine's processor and torch, with torch's own builder, into
a folder of the Python environment (``make setup`` does it, in about a minute; otherwise the first
stage that wants them). Where there is no compiler, the networks run on torch alone: the same
numbers to rounding, in about three times the time.
"""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

import torch

from lib.files.artifacts import fingerprint_files, fingerprint_value

HERE = Path(__file__).resolve().parent
FLAGS = ["-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-Wno-psabi"]
LINKED = ["-fopenmp"]  # the OpenMP that torch has loaded: both have one name
SWITCH = "TGRAPH_NATIVE"  # 0: torch alone


def sources() -> list[Path]:
    """The C++ files, sorted."""
    return sorted([*HERE.glob("*.cpp"), *HERE.glob("*.h")])


@functools.cache
def available() -> bool:
    """Whether the compiled loops are loaded as ``torch.ops.tgraph``; compiles them if need be."""
    if os.environ.get(SWITCH) == "0":
        return False
    if shutil.which(os.environ.get("CXX", "c++")) is None:
        print("no C++ compiler: networks run on torch alone, several times slower", file=sys.stderr)
        return False
    try:
        _load()
    except (RuntimeError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        print(f"lib/native was not compiled, torch alone is used: {reason}", file=sys.stderr)
        return False
    return True


def takes(like: torch.Tensor) -> bool:
    """Whether the compiled loops do for numbers of this tensor's type and device."""
    return like.device.type == "cpu" and like.dtype == torch.float32 and available()


def library() -> Path:
    """The compiled library: another one for other sources, another torch or processor."""
    key = {"sources": fingerprint_files(sources(), HERE), "torch": torch.__version__}
    key |= {"flags": FLAGS, "processor": _processor(), "python": sys.version}
    return Path(sys.prefix) / "tgraph-native" / f"{fingerprint_value(key)[:16]}.so"


def _load() -> None:
    if not library().exists():
        library().parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library().parent) as folder:
            os.replace(_compile(Path(folder)), library())
    torch.ops.load_library(str(library()))


def _compile(folder: Path) -> Path:
    from torch.utils import cpp_extension  # slow to import, seldom needed

    print("compiling lib/native for this processor (about a minute, once)", file=sys.stderr)
    # ninja is a package of the environment, whose programs need not be on the path
    programs = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    os.environ["PATH"] = os.pathsep.join(programs)
    name = "tgraph_native"
    files = [str(path) for path in sorted(HERE.glob("*.cpp"))]
    # The one path that torch does not quote: the environment's may have blanks.
    cpp_extension.TORCH_LIB_PATH = shlex.quote(cpp_extension.TORCH_LIB_PATH)
    cpp_extension.load(
        name,
        files,
        extra_cflags=FLAGS,
        extra_ldflags=LINKED,
        build_directory=str(folder),
        is_python_module=False,
    )
    return folder / f"{name}.so"


def _processor() -> str:
    """What the compiled code depends on: the processor's flags, where they can be read."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return torch.backends.cpu.get_cpu_capability()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


if __name__ == "__main__":
    sys.exit(0 if available() else 1)
