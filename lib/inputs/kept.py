"""What all configurations of a small graph do stays on disk: every fold and stage asks for it.

Working it out is a quarter of a fold's training on the bundled data, and it is the same for all
folds, seeds and numbers of epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import cache

import torch
from torch import Tensor

from lib.cache.graph import CachedGraph
from lib.files import tensor_file
from lib.files.artifacts import fingerprint_value
from lib.files.errors import DataError
from lib.inputs.shared import fingerprint_arrays
from lib.models.batch import OnDevice
from lib.models.context import ContextBatch, ContextLayer, Neighbours
from lib.models.plus import CostBatch
from lib.runs.ingredients import ASIDE
from lib.runs.provenance import versions
from lib.runs.sources import code_of

FOLDER = "resolved"  # beside the cache
CODE = "lib.inputs.copies:copies_graph"


def kept_batch(graph: CachedGraph, blocks: int, make: Callable[[], CostBatch]) -> CostBatch:
    """The batch of all configurations of a graph: from disk, or made and put there.

    A file of another graph, of other code or packages, or a damaged one is written anew. A file
    that cannot be written costs time, and nothing else.

    Args:
        graph: of a cache; the batch of a graph of no cache is not kept.
        blocks: of the network, whose neighbours' messages reach so far.
        make: makes the batch.
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
            return _batch(tensors)
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


def _batch(tensors: Mapping[str, Tensor]) -> CostBatch:
    """A batch of its tensors."""
    count = int(tensors["configurations"])
    places = sorted({int(name.split(".")[2]) for name in tensors if ".layers." in name})
    layers = [_layer(tensors, f"context.layers.{place}.") for place in places]
    context = _made(ContextBatch, tensors, "context.", layers=layers)
    return _made(CostBatch, tensors, "", configurations=count, context=context)  # type: ignore[return-value]


def _layer(tensors: Mapping[str, Tensor], name: str) -> ContextLayer:
    sides = {side: _made(Neighbours, tensors, f"{name}{side}.") for side in ("operands", "users")}
    return _made(ContextLayer, tensors, name, **sides)  # type: ignore[return-value]


def _made(kind: type, tensors: Mapping[str, Tensor], prefix: str, **parts: object) -> OnDevice:
    """A part of a batch: its tensors by name, and what else it has."""
    names = [field.name for field in fields(kind) if field.name not in parts]
    return kind(**{name: tensors[prefix + name] for name in names}, **parts)
