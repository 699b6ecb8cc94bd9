"""Kernels of ``tgraph`` compiled for cards that are not here: what each takes of a multiprocessor.

    .venv/bin/python -m tests.gpu.compiled [--cards 75 80 89 90 120] [--channels 256]

A row is a kernel as a step or the shared part of permutations launches it. *Spilled* are bytes a
thread that do not fit its registers; *instructions* are those of the whole kernel, once.

Exit code: 1 if a kernel spills more than it may, or wants more shared memory than its card has.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from lib.files.terminal import table
from lib.models.common import blocks_gpu
from lib.models.tgraph.inputs import graph_tensors
from lib.models.tgraph.network import TGraph
from tests.bench.case import Shape, program_graph

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
KINDS = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.int64: "i64"}
# Kilobytes that a block may have, by compute capability: a T4's, an A100's, ...
SHARED = {75: 64, 80: 163, 86: 99, 89: 99, 90: 227, 100: 227, 120: 99}
SPILLED = 128  # bytes a thread, beside some 250 registers; they stay in the cache
SIZE = 20  # configurations of the batch, which decide nothing
NAMES = ["card", "kernel", "type", "registers", "spilled", "shared, KB", "instructions", ""]


def launches(channels: int, dtype: torch.dtype) -> list[tuple[JITFunction, dict[str, Any]]]:
    """Return the kernels of a step and of groups, and their arguments; none of them runs."""
    found = []

    def launched(kernel: JITFunction, *values: Any, **named: Any) -> None:
        found.append((kernel, dict(zip(kernel.arg_names, values, strict=False)) | named))

    tensors = graph_tensors(program_graph(Shape(8, 4, SIZE), SIZE))
    network, batch = TGraph(channels=channels), tensors.batch(np.arange(SIZE))
    with patch.object(JITFunction, "run", launched):
        rows = network.table(batch)
        blocks_gpu.pooled(network.blocks, rows, batch, dtype).sum().backward()
        blocks_gpu.share(network.blocks, rows, batch, dtype).pooled(torch.arange(SIZE // 2))
    return found


def source_of(kernel: JITFunction, given: dict[str, Any]) -> tuple[ASTSource, dict[str, Any]]:
    """Return a kernel with types for its arguments, and the options of its launch."""
    types, values, aligned = {}, {}, {}
    for place, parameter in enumerate(kernel.params):
        value = given[parameter.name]
        if parameter.is_constexpr:
            types[parameter.name], values[place,] = "constexpr", value
        elif isinstance(value, torch.Tensor):
            types[parameter.name] = f"*{KINDS[value.dtype]}"
            aligned[place,] = [["tt.divisibility", 16]]
        else:
            types[parameter.name] = "fp32" if isinstance(value, float) else "i32"
    options = {k: v for k, v in given.items() if k in ("num_warps", "num_stages")}
    return ASTSource(kernel, types, values, aligned), options


def usage(cubin: bytes) -> tuple[int, int, int]:
    """Return registers, bytes that are spilled, and instructions of a compiled kernel."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        used = _told("cuobjdump", "-res-usage", file.name)
        code = _told("nvdisasm", "-c", file.name)
    found = re.search(r"REG:(\d+) STACK:(\d+)", used)
    return int(found[1]), int(found[2]), len(re.findall(r"^\s+/\*[0-9a-f]{4,}\*/ ", code, re.M))


def _told(tool: str, *args: str) -> str:
    return subprocess.run([TOOLS / tool, *args], capture_output=True, text=True, check=True).stdout


def rows_of(card: int, channels: int, dtype: torch.dtype) -> list[list[str]]:
    """Return a row for each kernel that differs from the others."""
    rows, seen = [], set()
    for kernel, given in launches(channels, dtype):
        source, options = source_of(kernel, given)
        if (key := (source.hash(), str(options))) in seen:
            continue
        seen.add(key)
        made = triton.compile(source, target=GPUTarget("cuda", card, 32), options=options)
        registers, spilled, instructions = usage(made.asm["cubin"])
        shared = made.metadata.shared / 1024
        good = spilled <= SPILLED and shared <= SHARED[card]
        cells = [registers, spilled, f"{shared:.0f}", instructions, "ok" if good else "TOO MUCH"]
        rows.append([f"sm_{card}", kernel.fn.__name__, KINDS[dtype], *map(str, cells)])
    return rows


def main() -> None:
    """Print a row for each card and kernel."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cards", type=int, nargs="+", default=[75, 80, 89, 90, 120])
    parser.add_argument("--channels", type=int, default=256)
    parser.add_argument("--types", nargs="+", default=["float32", "bfloat16"])
    args = parser.parse_args()
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # as today without a warning
    rows = []
    for card in args.cards:
        for dtype in (getattr(torch, name) for name in args.types):
            if dtype == torch.float32 or card >= 80:  # a T4 has no bfloat16
                rows += rows_of(card, args.channels, dtype)
    print(table(rows, NAMES))
    sys.exit(0 if all(row[-1] == "ok" for row in rows) else 1)


if __name__ == "__main__":
    main()
