"""A network as a library that TVM's runtime loads: its programs, and its weights, packed.

network.so      the library
network.json    its inputs, the processor that it is for, and how long it takes
run.py          loads and runs it, in a few lines that need TVM's runtime and NumPy
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import IRModule
from tvm.relax import VMExecutable

from lib.collect.tvm.compiler import target_of
from lib.collect.tvm.importing import PREPARED, Imported, inputs_of
from lib.files.artifacts import atomic_file, write_json

LIBRARY, METADATA, SCRIPT = "network.so", "network.json", "run.py"
LINES = """\
# Run it with GLIBC_TUNABLES=glibc.malloc.hugetlb=1, as it was timed: a large network is faster.
import os, pathlib, numpy, tvm; os.environ["TVM_NUM_THREADS"] = "{threads}"
library = tvm.runtime.load_module(str(pathlib.Path(__file__).with_name("{library}")))
network = tvm.relax.VirtualMachine(library, tvm.cpu())["main"]
inputs = [{inputs}]  # made once
for array in map(numpy.from_dlpack, inputs):  # the same memory, which the network reads
    array[...] = 0
{result}
"""
ONE = "print(numpy.from_dlpack(network(*inputs)))"
SEVERAL = "print([numpy.from_dlpack(result) for result in network(*inputs)])"


def compiled(
    module: IRModule, values: Sequence[np.ndarray], device: str, threads: int = 1
) -> VMExecutable:
    """Return a network whose main function takes the inputs alone: the weights are inside.

    Args:
        module: ``main``, its programs, and what packs the weights, if anything does.
        values: what ``main`` is called with: inputs, then weights before they are packed.
        device: instruction set.
        threads: that will run it.
    """
    target, first = target_of(device, cores=threads), inputs_of(module)
    weights = [tvm.runtime.tensor(value) for value in values[first:]]
    if PREPARED in {variable.name_hint for variable in module.functions}:
        packing = relax.VirtualMachine(tvm.compile(_only(module, PREPARED), target), tvm.cpu(0))
        weights = list(packing[PREPARED](weights))
    main = _only(module, "main")
    bound = dict(zip(main["main"].params[first:], weights, strict=True))
    return tvm.compile(relax.transform.BindParams("main", bound)(main), target)


def runner(library: VMExecutable, inputs: Sequence[np.ndarray]) -> Callable[[], Any]:
    """Return a run of a network on some inputs."""
    main = relax.VirtualMachine(library, tvm.cpu(0))["main"]
    tensors = [tvm.runtime.tensor(array) for array in inputs]
    return lambda: main(*tensors)


def _only(module: IRModule, name: str) -> IRModule:
    """Return a function and what it calls."""
    used = relax.analysis.all_global_vars(module[name])
    return IRModule({name: module[name], **{v: module[v] for v in used if v.name_hint != name}})


@contextmanager
def exported(folder: Path, library: VMExecutable) -> Iterator[None]:
    """Write the library, unless something is raised. It must not have run before: TVM would warn of
    each of its constants whenever it is loaded."""
    with atomic_file(folder / LIBRARY) as temporary:
        library.export_library(str(temporary))
        yield


def write(folder: Path, network: Imported, metadata: dict[str, Any]) -> None:
    """Write the other two files.

    Args:
        folder: where.
        network: what was compiled.
        metadata: what else is known of it, its ``threads`` among that.
    """
    inputs = [
        {"name": name, "shape": list(x.shape), "dtype": str(x.dtype)}
        for name, x in network.named_inputs.items()
    ]
    write_json(folder / METADATA, {"inputs": inputs, **metadata})
    empty = (f'tvm.runtime.empty({tuple(x["shape"])}, "{x["dtype"]}")' for x in inputs)
    one = isinstance(network.module["main"].ret_ty, relax.TensorType)
    blanks = {"library": LIBRARY, "inputs": ", ".join(empty), "threads": metadata["threads"]}
    with atomic_file(folder / SCRIPT) as temporary:
        temporary.write_text(LINES.format(**blanks, result=ONE if one else SEVERAL))
