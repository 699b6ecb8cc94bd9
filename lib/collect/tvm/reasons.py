"""Errors of torch and TVM in one line, with the operator and the layer that they are of."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from lib.files.errors import UserError, in_one_line

MOST_WORDS = 300  # letters of somebody else's message
ADVICE = "write that step with other operators"
NO_TENSOR = re.compile(r"Found <class '.*?(\w+)'> in output")  # as caches of transformers
UNSUPPORTED = re.compile(r"Unsupported function types \[(.*?)\]")


def place_of(node: Any) -> str:
    """Return an operator and the layer that it belongs to, for people."""
    operator = str(getattr(node, "target", node)).removeprefix("aten.").partition(".")[0]
    stack = [*getattr(node, "meta", {}).get("nn_module_stack", {}).values()]
    path, kind = stack[-1] if stack else ("", "")
    kind = getattr(kind, "__name__", str(kind)).rpartition(".")[2]
    return f"{operator} of layer {path} ({kind})" if path else operator


@contextmanager
def one_line_of(name: str, what: str) -> Iterator[None]:
    """Say in one line what torch or TVM cannot do with a network, and at which operator."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # of torch or TVM, whatever its kind
        raise UserError(f"{name}: {what}: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """Return an error's operator and layer, if they are known, and its first words."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    message = in_one_line(error)
    if "data-dependent" in message:
        others = (sys.prefix, sys.base_prefix, str(Path(__file__).parent), "<")  # no user's code
        stack = traceback.extract_tb(error.__traceback__)
        places = [place for place in stack if not place.filename.startswith(others)]
        line = f"{places[-1].filename}:{places[-1].lineno}: " if places else ""
        return f"{line}what it runs depends on values of tensors; torch.where takes both ways"
    if missing := UNSUPPORTED.search(message):
        return f"it has no operator {missing[1]}; {ADVICE}"
    if found := NO_TENSOR.search(message):
        how = "return tensors alone, which transformers does with config.use_cache = False"
        return f"one of its results is a {found[1]}: {how}"
    nodes = [frame.f_locals.get("node") for frame in frames]
    steps = [place_of(node) for node in nodes if isinstance(node, torch.fx.Node)]
    steps += [node.op_type for node in nodes if hasattr(node, "op_type")]  # of ONNX
    return f"{steps[-1]}: {words_of(error)}; {ADVICE}" if steps else words_of(error)


def words_of(error: BaseException) -> str:
    """Return the first words of an error, in one line."""
    return in_one_line(error)[:MOST_WORDS]
