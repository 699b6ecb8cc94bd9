"""The replayer of CDMPP (algorithm 2, appendix C): a data-flow graph run on a device's engines.

An engine runs one node at a time: a CUDA stream, a group of matrix units, a CPU. It has a queue of
the nodes whose predecessors have ended. Time is in seconds, or in any unit that is one throughout.
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
        seconds: what it takes on one engine, 0 or more.
        after: numbers of the nodes that must have ended before it begins.
        engines: that run it. On several it is as many parts, each of an equal share of the
            seconds, as the paper has a convolution on three matrix cores (section 5.5).
        gap: seconds for which its engine is taken after it, and nodes that wait for it wait:
            what launching the next one takes.
    """

    seconds: float
    after: tuple[int, ...] = ()
    engines: tuple[str, ...] = (ENGINE,)
    gap: float = 0.0


@dataclass(frozen=True)
class Run:
    """A node, or its part, as an engine ran it; ``end`` is without the gap."""

    node: int
    engine: str
    start: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """What a replay gives.

    Attributes:
        runs: in the order in which they were decided.
        seconds: when the last engine is free.
    """

    runs: tuple[Run, ...]
    seconds: float


def replay(nodes: Sequence[Node]) -> Timeline:
    """Run a graph.

    As algorithm 2 is printed: again and again, of the engines whose queue is not empty, the one
    that is free first takes the node of its queue that was ready first. So an engine that is free
    may wait for a node that is in its queue, though one that comes to the queue later would have
    been ready before it; on one engine there is no such case. Ties, which the paper leaves open,
    are decided by the order of the engines' first appearance, and of the nodes.

    Args:
        nodes: of the graph, in any order.

    Raises:
        ValueError: a node waits for itself, or for a node that there is not.
    """
    queues, successors = _Queues(nodes), _successors(nodes)
    waiting, left = [len(set(node.after)) for node in nodes], [len(node.engines) for node in nodes]
    runs: list[Run] = []
    for number, count in enumerate(waiting):
        if not count:
            queues.enter(number)
    while (engine := queues.first()) is not None:
        run = queues.run(engine)
        runs.append(run)
        number = run.node
        left[number] -= 1  # parts that have not run
        for successor in successors[number]:
            queues.ready[successor] = max(queues.ready[successor], run.end + nodes[number].gap)
            waiting[successor] -= not left[number]
            if not waiting[successor] and not left[number]:
                queues.enter(successor)
    if any(left):
        raise ValueError(f"node {next(k for k, n in enumerate(left) if n)} waits for itself")
    return Timeline(tuple(runs), max(queues.free.values(), default=0.0))


class _Queues:
    """The engines: when each is free, and which nodes it could run, with when they are ready."""

    def __init__(self, nodes: Sequence[Node]):
        self.nodes = nodes
        self.ready = [0.0] * len(nodes)
        self.free = dict.fromkeys((engine for node in nodes for engine in node.engines), 0.0)
        self.waiting: dict[str, list[tuple[float, int]]] = {engine: [] for engine in self.free}

    def enter(self, number: int) -> None:
        """All that a node waited for has ended."""
        for engine in self.nodes[number].engines:
            heapq.heappush(self.waiting[engine], (self.ready[number], number))

    def first(self) -> str | None:
        """The engine that is free first, of the engines that have a node to run."""
        busy = (engine for engine in self.free if self.waiting[engine])
        return min(busy, key=self.free.__getitem__, default=None)

    def run(self, engine: str) -> Run:
        """Run the node, or its part, that was ready first."""
        _, number = heapq.heappop(self.waiting[engine])
        node = self.nodes[number]
        start = max(self.free[engine], self.ready[number])
        end = start + node.seconds / len(node.engines)
        self.free[engine] = end + node.gap
        return Run(number, engine, start, end)


def _successors(nodes: Sequence[Node]) -> list[list[int]]:
    successors: list[list[int]] = [[] for _ in nodes]
    for number, node in enumerate(nodes):
        for predecessor in sorted(set(node.after)):
            if not 0 <= predecessor < len(nodes):
                raise ValueError(f"node {number} waits for node {predecessor}, which there is not")
            successors[predecessor].append(number)
    return successors
