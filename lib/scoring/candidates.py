"""Configurations of layouts that nobody has written down: drawn, or searched for.

The searches are those that the data were made by (:mod:`lib.tpugraphs.drawing`). What a network
predicts takes the place of a clock, so that thousands are looked at in seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lib.compiler.operands import ROLES, constrained_tensors
from lib.files.errors import UserError
from lib.scoring.possible import tensors_of
from lib.tpugraphs import drawing
from lib.tpugraphs.opcodes import CONVOLUTION, DOT
from lib.tpugraphs.program import TENSOR_DIMS, Program

DRAWN = re.compile(r"(random|search):(.*)", re.DOTALL)
LEAST, MOST = 2, 10_000
GENERATIONS = 10  # of a search: the first is drawn, the others are bred
PARENTS = 20  # the best of all before; scores have no noise, so that few are enough
TILED = 2  # dimensions that products name on TPUs, as in the official files
Scores = Callable[[Program], np.ndarray]  # of a program with its configurations, (c,)


@dataclass(frozen=True)
class Wanted:
    """How many configurations to draw, how, ``random`` or ``search``, and by which seed."""

    how: str
    count: int
    seed: int = 0


def candidates_in(text: str | None, seed: int = 0) -> Wanted | Path | None:
    """What a command line asks to be ranked: a file, or ``random:N`` or ``search:N``.

    Raises:
        UserError: N is no number that there can be.
    """
    found = DRAWN.fullmatch(text or "")
    if found is None:
        return Path(text) if text else None
    how, count = found.groups()
    if not re.fullmatch("[0-9]{1,5}", count, re.ASCII) or not LEAST <= int(count) <= MOST:
        raise UserError(f"--candidates {text}: expected {how}:N with N from {LEAST} to {MOST:,}")
    return Wanted(how, int(count), seed)


def with_drawn(program: Program, wanted: Wanted, hardware: str, scores: Scores) -> Program:
    """The program with configurations that were drawn in place of its own, all different.

    Those that set the fewest layouts come first, so that of equal scores the simplest is the first;
    the very first is the compiler's own choice. There are fewer than are wanted where the program
    has no more.

    Args:
        program: whose sites they are of.
        wanted: how many, and how.
        hardware: of the data: on a ``cpu`` a layout names all dimensions of its tensor; on a
            ``tpu`` those of products name the two minor-most.
        scores: of all configurations of a program; asked only where they are searched for.

    Raises:
        UserError: no site has a layout to choose.
    """
    ranks = slot_ranks(program)
    if not any(map(any, ranks)):
        raise UserError(f"{program.path}: no convolution, dot or reshape with a layout to choose")
    drawn = _Drawn(program, ranks, hardware == "tpu", np.random.default_rng(wanted.seed))
    first = wanted.count if wanted.how == "random" else -(-wanted.count // GENERATIONS)
    drawn.draw(max(LEAST, first))
    while wanted.how == "search" and len(drawn.found) < wanted.count:
        if not drawn.breed(scores(drawn.program()), min(first, wanted.count - len(drawn.found))):
            drawn.draw(wanted.count)
            break
    drawn.found.sort(key=lambda one: (one[..., 0] >= 0).sum())
    return drawn.program()


class _Drawn:
    """Configurations of a program so far, as :mod:`lib.tpugraphs.drawing` has them."""

    def __init__(
        self,
        program: Program,
        ranks: drawing.Ranks,
        tiled: bool,
        generator: np.random.Generator,
    ):
        self._program, self._ranks, self._generator = program, ranks, generator
        sites = program.graph.node_opcode[program.graph.node_config_ids]
        self._tiled = np.isin(sites, (CONVOLUTION, DOT)) & tiled
        own = drawing.unconstrained(ranks)
        self.found, self._seen = [own], {own.tobytes()}

    def draw(self, count: int) -> None:
        """Random ones until there are ``count``, or no new one is met for long."""
        for _ in range(100 * count):
            if len(self.found) == count:
                return
            self._add(drawing.random_configuration(self._ranks, self._generator))

    def breed(self, scores: np.ndarray, count: int) -> int:
        """Children of those of lowest score; how many of them are new."""
        before, best = len(self.found), np.argsort(scores, kind="stable")[:PARENTS]
        parents = [self.found[place] for place in best.tolist()]
        for child in drawing.next_generation(
            parents, scores[best], count, self._ranks, self._generator
        ):
            self._add(child)
        return len(self.found) - before

    def _add(self, configuration: np.ndarray) -> None:
        configuration[self._tiled, :, TILED:] = -1
        if configuration.tobytes() not in self._seen:
            self._seen.add(configuration.tobytes())
            self.found.append(configuration)

    def program(self) -> Program:
        """The program with them."""
        features = np.stack(self.found).reshape(len(self.found), len(self._ranks), -1)
        runtimes = np.zeros(len(features), np.int64)
        graph = replace(self._program.graph, node_config_feat=features, config_runtime=runtimes)
        return replace(self._program, graph=graph)


def slot_ranks(program: Program) -> list[tuple[int, int, int]]:
    """Of each site, the rank of output, input and kernel; 0 where there is no layout to choose.

    Of a module these are its operands in their order. Features of an npz do not say which operand
    is the kernel, so that sizes have to.
    """
    graph = program.graph
    shapes = _shapes_in(program) if program.module else _shapes_by_size(program)
    found = []
    for node, own in zip(graph.node_config_ids.tolist(), shapes, strict=True):
        count = len(ROLES) if graph.node_opcode[node] in (CONVOLUTION, DOT) else len(ROLES) - 1
        ranks = [len(shape) if 0 not in shape else 0 for shape in own[:count]]
        ranks += [0] * (len(ROLES) - len(ranks))
        found.append(tuple(rank if 1 < rank <= TENSOR_DIMS else 0 for rank in ranks))
    return found


def _shapes_in(program: Program) -> list[list[Sequence[int]]]:
    """Shapes of each site's output and operands."""
    computations = program.module.computations
    instructions = [one for computation in computations for one in computation.instructions]
    shapes = {one.id: one.shape.dimensions for one in instructions}
    sites = (instructions[place] for place in program.graph.node_config_ids.tolist())
    return [[site.shape.dimensions, *(shapes[id] for id in site.operand_ids)] for site in sites]


def _shapes_by_size(program: Program) -> list[list[Sequence[int]]]:
    tensors = tensors_of(program)
    nodes = program.graph.node_config_ids.tolist()
    found = (constrained_tensors(tensors, node).tensors for node in nodes)
    there = [[one if one >= 0 and tensors.bytes[one] else -1 for one in own] for own in found]
    return [[tensors.shapes[one] if one >= 0 else () for one in own] for own in there]
