"""The network that somebody asks for by a name.

It is one of :mod:`lib.collect.tvm.networks`; or ``file.py:function``, which returns a
``torch.nn.Module`` and a tuple of example inputs, for a batch if it takes one; or an ONNX file; or
what ``torch.export.save`` writes.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch

from lib.collect.tvm.networks import Built, Network, all_networks
from lib.collect.tvm.sources import read_exported
from lib.files.errors import UserError

KINDS = "a network is a name, or file.py:function, or file.onnx, or file.pt2"


def named(name: str, batch: int | None) -> Network:
    """The network that a name means: of that family and batch, the largest of several.

    Args:
        name: ``family``, ``family.size``, ``family.size.bN``, ``file.py:function``, ``file.onnx``,
            ``file.pt2``.
        batch: ``None`` for 1, or what the name says.

    Raises:
        UserError: there is no such network, or the file has no such function.
    """
    path, colon, function = name.rpartition(":")
    if not colon:
        path, function = name, ""
    if colon or Path(path).suffix in (".py", ".onnx", ".pt2") or Path(path).is_file():
        return Network(name, _of_file(Path(path), function, batch))
    networks = {network.name: network for network in all_networks()}
    if name in networks and batch in (None, int(name.rpartition(".b")[2])):
        return networks[name]
    ending = f".b{batch or 1}"
    fits = [network for key, network in networks.items() if f"{key}.".startswith(f"{name}.")]
    of_batch = [network for network in fits if network.name.endswith(ending)]
    if not of_batch:
        there = ", ".join(sorted(n.name for n in fits)) or "python -m lib.collect.tvm --list"
        raise UserError(f"network {name!r} of batch {batch or 1}: not among {there}")
    return max(of_batch, key=lambda network: _sizes(network.name))


def _sizes(name: str) -> list[int]:
    """The numbers in a network's size, such as ``w64_s112``."""
    return [int(part.lstrip("wslnt")) for part in name.split(".")[1].split("_")]


def _of_file(path: Path, function: str, batch: int | None) -> Callable[[], Built]:
    """What builds the network of a file."""
    if not path.is_file():
        raise UserError(f"{path}: no such file; {KINDS}")
    if path.suffix == ".onnx" and not function:
        from lib.collect.tvm.onnx_files import read

        return lambda: read(path, batch)
    if path.suffix == ".pt2" and not function:
        return lambda: read_exported(path, batch)
    if path.suffix != ".py":
        raise UserError(f"{path}{':' * bool(function)}{function}: {KINDS}")
    if not function:
        there = [f"{path}:{name}" for name in _functions(path)]
        raise UserError(f"{path}: of which function? {', '.join(there) or 'it has none'}")
    return lambda: _built(path, function, batch or 1)


def _functions(path: Path) -> list[str]:
    """The functions of a Python file, which is not run."""
    with suppress(SyntaxError, ValueError):
        body = ast.parse(path.read_bytes()).body
        return [statement.name for statement in body if isinstance(statement, ast.FunctionDef)]
    return []


def _built(path: Path, function: str, batch: int) -> Built:
    """The network and its example inputs, as a function of a Python file returns them."""
    spec = importlib.util.spec_from_file_location("network_of_the_user", path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    sys.modules[spec.name] = module  # dataclasses and torch.compile look there
    try:
        spec.loader.exec_module(module)
        build = getattr(module, function)
        built = build(batch) if inspect.signature(build).parameters else build()
    except (Exception, SystemExit) as error:  # the user's code, whatever it does
        raise UserError(f"{path}: {function}: {type(error).__name__}: {error}") from error
    match built:
        case (torch.nn.Module() as network, tuple() as inputs):
            return network, inputs
    raise UserError(f"{path}: {function}: must return a torch.nn.Module and a tuple of inputs")
