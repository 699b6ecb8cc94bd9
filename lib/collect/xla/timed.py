"""``python -m lib.collect.xla.timed FOLDER``: time modules that compute the same, on one core.

FOLDER has them as ``0.pb``, ``1.pb`` and so on, each an HloModuleProto; the other modules are
compared with the first. ``rounds.json`` is written beside them: nanoseconds of each module's
rounds, none of one that XLA refuses or that gives other results. Inputs are drawn at random.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src.lib import _jax, xla_client
from jaxlib import _hlo

from lib.collect.quiet import TimingCore
from lib.collect.xla.__main__ import time_here
from lib.collect.xla.bench import ProgramBench
from lib.collect.xla.enough import RUNS
from lib.files.artifacts import write_json
from lib.files.command_line import Parser
from lib.files.errors import UserError, one_line_errors

ROUNDS, ROUND_SECONDS = 16, 0.05
SEED = 0


class Module:
    """A compiled module, to be called like a function of JAX."""

    def __init__(self, data: bytes):
        device = jax.devices()[0]
        devices = xla_client.DeviceList((device,))
        text = _jax.mlir.hlo_to_stablehlo(data)
        options = xla_client.CompileOptions()
        self.loaded = device.client.compile_and_load(text, devices, options)

    def __call__(self, *arguments: jax.Array) -> list[jax.Array]:
        results = self.loaded.execute_sharded(arguments)
        return [shards[0] for shards in results.disassemble_into_single_device_arrays()]

    def as_text(self) -> str:
        """The optimized program."""
        return self.loaded.hlo_modules()[0].to_string()


class ModuleBench(ProgramBench):
    """Modules that compute what the first of them does."""

    def __init__(self, first: bytes, core: TimingCore):
        self.core, self.timed_by, self.round_seconds = core, RUNS, ROUND_SECONDS
        jax.devices()  # XLA takes one thread for each core that it sees now: this one
        core.release()
        self.rejected = 0
        self.arguments = [jax.device_put(x) for x in arguments_of(first)]
        self.expected = [np.asarray(x) for x in Module(first)(*self.arguments)]

    def executable(self, configuration: bytes) -> Any:
        """What runs a configuration, which is the module itself."""
        return Module(configuration)


def arguments_of(data: bytes) -> list[np.ndarray]:
    """Something for each parameter of a module: normal numbers; of integers, zeros and ones."""
    shapes = _hlo.XlaComputation(data).program_shape().parameter_shapes()
    generator = np.random.default_rng(SEED)
    drawn = []
    for shape in shapes:
        if not shape.is_array():
            raise UserError(f"a parameter is {shape}; only modules whose parameters are arrays run")
        normal = generator.standard_normal(shape.dimensions())
        whole = np.dtype(shape.numpy_dtype()).kind in "biu"
        drawn.append((normal > 0 if whole else normal).astype(shape.numpy_dtype()))
    return drawn


def main() -> None:
    """Time the modules of a folder."""
    parser = Parser(prog="python -m lib.collect.xla.timed", description=__doc__)
    parser.add_argument("folder", type=Path, help="with 0.pb, 1.pb and so on")
    core = max(os.sched_getaffinity(0))
    parser.add_argument("--core", type=int, default=core, help="to compile and to run on")
    args = parser.parse_args()
    time_here("lib.collect.xla.timed", args.core)
    modules = [Path(args.folder, f"{n}.pb") for n in range(len(list(args.folder.glob("*.pb"))))]
    data = [path.read_bytes() for path in modules]
    try:
        bench = ModuleBench(data[0], TimingCore(args.core))
    except (RuntimeError, ValueError) as error:
        raise UserError(f"XLA cannot run it here: {' '.join(str(error).split())[:200]}") from None
    compiled = [bench.compile(module, 0) for module in data]
    bench.time([program for program in compiled if program is not None], ROUNDS)
    rounds = [[] if program is None else program.rounds for program in compiled]
    write_json(args.folder / "rounds.json", {"rounds": rounds})


if __name__ == "__main__":
    with one_line_errors():
        main()
