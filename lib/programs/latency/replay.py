"""The replayer of CDMPP (algorithm 2, appendix C): a data-flow graph run on a device's engines.

An engine runs one node at a time: a CUDA stream, a matrix unit, a CPU. It has a queue of the nodes
whose predecessors have ended. Time is in seconds, or in any unit that is one throughout.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

ENGINE = "cpu"


@dataclass(frozen=True)
class Node:
    """A tensor program in the graph.

    Attributes:
        seconds: how long it runs, 0 or more.
        after: numbers of the nodes that must have ended before it begins.
        engine: that runs it.
        gap: seconds for which its engine is taken after it, and nodes that wait for it wait:
            what launching the next one takes.
    """

    seconds: float
    after: tuple[int, ...] = ()
    engine: str = ENGINE
    gap: float = 0.0


@dataclass(frozen=True)
class Run:
    """A node as its engine ran it; ``end`` is without the gap."""

    node: int
    engine: str
    start: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """The result of a replay.

    Attributes:
        runs: in the order in which they were decided.
        seconds: when the last engine is free.
    """

    runs: tuple[Run, ...]
    seconds: float


def replay(nodes: Sequence[Node]) -> Timeline:  # longer: one algorithm of the paper
    """Run a graph.

    As algorithm 2 is printed: again and again, of the engines whose queue is not empty, the one
    that is free first takes the node of its queue that was ready first. So an engine that is free
    may wait for a node that is in its queue, though one that comes to the queue later would have
    been ready before it; on one engine there is no such case. Ties, which the paper leaves open,
    are decided by the order of the engines' first appearance, and of the nodes.

    Args:
        nodes: of the graph, in any order.

    Raises:
        ValueError: a node waits for itself, or for a node that does not exist.
    """
    successors: list[list[int]] = [[] for _ in nodes]
    for number, node in enumerate(nodes):
        for before in set(node.after):
            if not 0 <= before < len(nodes):
                raise ValueError(f"node {number} waits for node {before}, which there is not")
            successors[before].append(number)
    waiting, ready = [len(set(node.after)) for node in nodes], [0.0] * len(nodes)
    free = dict.fromkeys((node.engine for node in nodes), 0.0)
    queues: dict[str, list[tuple[float, int]]] = {engine: [] for engine in free}
    for number, node in enumerate(nodes):
        if not waiting[number]:
            heapq.heappush(queues[node.engine], (0.0, number))
    runs: list[Run] = []
    while queued := [engine for engine in free if queues[engine]]:
        engine = min(queued, key=free.__getitem__)
        _, number = heapq.heappop(queues[engine])
        start = max(free[engine], ready[number])
        runs.append(Run(number, engine, start, start + nodes[number].seconds))
        free[engine] = runs[-1].end + nodes[number].gap
        for successor in successors[number]:
            ready[successor] = max(ready[successor], free[engine])
            waiting[successor] -= 1
            if not waiting[successor]:
                heapq.heappush(queues[nodes[successor].engine], (ready[successor], successor))
    if any(waiting):
        raise ValueError(f"node {next(k for k, n in enumerate(waiting) if n)} waits for itself")
    return Timeline(tuple(runs), max(free.values(), default=0.0))
