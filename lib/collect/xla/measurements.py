"""Raw files, which :mod:`lib.collect.xla.measure` writes: a graph, and what was measured of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lib.files.errors import DataError
from lib.files.foreign import reading
from lib.ranking.rounds import label
from lib.tpugraphs import checks
from lib.tpugraphs.encoding import EncodedGraph, encode_module
from lib.tpugraphs.npz import stem
from lib.tpugraphs.schema_pb2 import HloModuleProto

SEARCHES = ("random", "default")  # a raw file's `search` is an index into this

RAW = (
    *("module", "nodes", "configuration", "search", "rounds"),
    *("optimized_hash", "rejected", "about"),
)
FACTS = ("measured_at", "processor", "jax", "xla_flags", "round_seconds", "timed_by")


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
    expected = "what make collect writes; delete it, and it is measured again"
    with reading(path, "file", expected), np.load(path, allow_pickle=False) as file:
        arrays = {key: file[key] for key in RAW}
        metadata = json.loads(arrays["about"].item())
        facts = {name: str(metadata[name]) for name in FACTS}
        graph = encode_module(HloModuleProto.FromString(arrays["module"].tobytes()), -1, path)
    if ((arrays["rounds"] > 0).sum(1) < 2).any():
        raise DataError(path, "rounds", "a configuration with fewer", "two rounds at least")
    nodes = checks.config_ids(path, arrays["nodes"], len(graph.node_opcode))
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
