"""What all configurations of a small graph do stays on disk: every fold and stage asks for it.

Working it out is a quarter of a fold's training on the bundled data, and it is the same for all
folds, seeds and numbers of epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from lib.cache.graph import CachedGraph
from lib.files import tensor_file
from lib.files.artifacts import fingerprint_value
from lib.files.errors import DataError
from lib.inputs.shared import fingerprint_arrays
from lib.models.batch import OnDevice
from lib.models.plus import CostBatch
from lib.runs.ingredients import ASIDE
from lib.runs.provenance import versions
from lib.runs.sources import code_of

FOLDER = "resolved"  # beside the cache
CODE = "lib.inputs.copies:copies_graph"


def kept_batch(graph: CachedGraph, blocks: int, make: Callable[[], CostBatch]) -> CostBatch:
    """The batch of all configurations of a graph: from disk, or made and put there.

    A file of another graph, of other code or packages, or a damaged one is written anew. A file
    that cannot be written costs time, and nothing else. Nothing is kept of a graph of no cache.
    """
    if graph.folder is None:
        return make()
    path = graph.folder.with_name(FOLDER) / f"{graph.name}.safetensors"
    program = graph.node_feat, graph.node_opcode, graph.edges, graph.node_splits
    content = fingerprint_arrays(*program, graph.config_nodes, graph.dictionary, graph.cells)
    made_from = fingerprint_value({"of": content, "blocks": blocks, "by": _code()})
    with suppress(DataError, KeyError):
        tensors, about = tensor_file.load(path)
        if about == made_from:
            return _read(CostBatch, tensors)
    batch = make()
    with suppress(OSError):
        tensor_file.save(path, dict(_tensors(batch)), made_from)
    return batch


@cache
def _code() -> dict[str, dict[str, str]]:
    return {"code": code_of(CODE, aside=ASIDE), "versions": versions()}


def _tensors(value: object, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """All tensors and numbers of a batch, by where they stand in it: ``context.layers.0.own``."""
    if isinstance(value, Tensor | int):
        yield name[1:], torch.as_tensor(value)
    elif isinstance(value, OnDevice):
        for field in fields(value):  # type: ignore[arg-type]
            yield from _tensors(getattr(value, field.name), f"{name}.{field.name}")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _tensors(item, f"{name}.{place}")


def _read(kind: Any, tensors: Mapping[str, Tensor], name: str = "") -> Any:
    """What :func:`_tensors` has taken apart."""
    if kind in (Tensor, int):
        return tensors[name] if kind is Tensor else int(tensors[name])
    if get_origin(kind) is list:
        (kind,) = get_args(kind)
        places = {part[len(name) + 1 :].split(".")[0] for part in tensors if part.startswith(name)}
        return [_read(kind, tensors, f"{name}.{place}") for place in sorted(places, key=int)]
    prefix = f"{name}." if name else ""
    parts = get_type_hints(kind).items()
    return kind(**{part: _read(of, tensors, f"{prefix}{part}") for part, of in parts})
