"""Raw files, which :mod:`lib.collect.xla.measure` writes: a graph, and what was measured of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError

from lib.files.errors import DataError
from lib.files.foreign import reading
from lib.ranking.rounds import label
from lib.tpugraphs import checks
from lib.tpugraphs.encoding import EncodedGraph, encode_module
from lib.tpugraphs.messages import from_bytes
from lib.tpugraphs.npz import stem
from lib.tpugraphs.schema_pb2 import HloModuleProto

SEARCHES = ("random", "default")  # a raw file's `search` is an index into this

# Key of a raw file -> dtype kind, shape: b bytes, s sites, c configurations, r rounds.
RAW: dict[str, tuple[str, tuple[str | int, ...]]] = {
    "module": ("u", ("b",)),
    "nodes": ("i", ("s",)),
    "configuration": ("i", ("c", "s", 3, 6)),
    "search": ("i", ("c",)),
    "rounds": ("i", ("c", "r")),
    "optimized_hash": ("U", ("c",)),
    "rejected": ("i", ()),
    "about": ("U", ()),
}
FACTS = ("measured_at", "processor", "jax", "xla_flags", "round_seconds", "quiet_lock", "timed_by")


@dataclass(frozen=True, eq=False)
class Measurements:
    """One search on one program: n nodes, s sites, c configurations, r rounds.

    Attributes:
        source: the folder of the file, ``xla`` or ``nlp``.
        search: one of ``SEARCHES``.
        name: the graph's; its part before the first dot is the family.
        graph: the encoded program.
        nodes: (s,) int64, increasing: the configurable nodes.
        configuration: (c, s, 18) int8.
        rounds: (c, r) int64 nanoseconds, 0 where unused.
        optimized_hash: c hashes of the compiled programs.
        rejected: configurations of both searches that did not compile or computed otherwise.
        facts: processor, versions, settings and date, as text, by ``FACTS``.
    """

    source: str
    search: str
    name: str
    graph: EncodedGraph
    nodes: np.ndarray
    configuration: np.ndarray
    rounds: np.ndarray
    optimized_hash: list[str]
    rejected: int
    facts: dict[str, str]

    @property
    def family(self) -> str:
        return self.name.split(".")[0]

    @property
    def collection(self) -> str:
        return f"layout-{self.source}-{self.search}"

    @property
    def runtime(self) -> np.ndarray:
        """The label: (c,) int64 nanoseconds."""
        return label(self.rounds)


def read_raw(path: Path) -> list[Measurements]:
    """Return the searches of a raw file, but for empty searches.

    Raises:
        DataError: it is not such a file.
    """
    arrays = _read_arrays(path)
    try:
        module = from_bytes(HloModuleProto, arrays["module"].tobytes())
    except DecodeError as error:
        raise DataError(path, "module", str(error), "an HloModuleProto") from None
    graph = encode_module(module, -1, path)
    nodes = checks.config_ids(path, arrays["nodes"], len(graph.node_opcode))
    try:
        metadata = json.loads(arrays["about"].item())
        facts = {name: str(metadata[name]) for name in FACTS}
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(path, "about", repr(error), f"JSON with {', '.join(FACTS)}") from None
    searches = []
    for index, search in enumerate(SEARCHES):
        rows = np.flatnonzero(arrays["search"] == index)
        measurements = Measurements(
            source=path.parent.name,
            search=search,
            name=stem(path),
            graph=graph,
            nodes=nodes,
            configuration=arrays["configuration"][rows].reshape(len(rows), len(nodes), 18),
            rounds=arrays["rounds"][rows],
            optimized_hash=arrays["optimized_hash"][rows].tolist(),
            rejected=int(arrays["rejected"]),
            facts=facts,
        )
        searches += [measurements] if len(rows) else []
    return searches


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    expected = "what make collect writes; delete it, and it is measured again"
    with reading(path, "file", expected), np.load(path, allow_pickle=False) as file:
        arrays = {key: file[key] for key in RAW}
    sizes: dict[str, int] = {}
    for key, (kind, shape) in RAW.items():
        array = arrays[key]
        sizes |= {n: k for n, k in zip(shape, array.shape, strict=False) if n not in sizes}
        due = tuple(n if isinstance(n, int) else sizes.get(n) for n in shape)
        if array.dtype.kind != kind or array.shape != due:
            raise DataError(path, key, f"{array.dtype} {array.shape}", f"kind {kind}, {due}")
    used = arrays["rounds"] > 0
    if (arrays["rounds"] < 0).any() or (np.diff(used.astype(np.int8)) > 0).any():
        raise DataError(path, "rounds", "a gap", "positive rounds, then zeros")
    if (used.sum(1) < 2).any():
        raise DataError(path, "rounds", "a configuration with fewer", "two rounds at least")
    return arrays
