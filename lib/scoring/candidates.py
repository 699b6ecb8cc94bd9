"""Configurations of layouts that nobody has written down: drawn, or searched for.

The searches are those that the data were made by (:mod:`lib.tpugraphs.drawing`). What a network
predicts takes the place of a clock, so that thousands are looked at in seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
GENERATIONS = 10  # of a search: the first is drawn, the later ones are bred
PARENTS = 20  # the best of all before; scores have no noise, so that few are enough
TILED = 2  # dimensions that products name on TPUs, as in the official files
Scores = Callable[[Program], np.ndarray]  # of a program with its configurations, (c,)


@dataclass(frozen=True)
class Request:
    """A number of configurations to draw, and a way, ``random`` or ``search``."""

    how: str
    count: int


def candidates_in(text: str | None) -> Request | Path | None:
    """Return the candidates that a command line names: a file, or ``random:N`` or ``search:N``.

    Raises:
        UserError: N is no number that there can be.
    """
    match = DRAWN.fullmatch(text or "")
    if match is None:
        return Path(text) if text else None
    how, count = match.groups()
    if not re.fullmatch("[0-9]{1,5}", count, re.ASCII) or not LEAST <= int(count) <= MOST:
        raise UserError(f"--candidates {text}: expected {how}:N with N from {LEAST} to {MOST:,}")
    return Request(how, int(count))


def with_drawn(program: Program, request: Request, hardware: str, scores: Scores) -> Program:
    """Return the program with configurations that were drawn in place of its own, all different.

    Those that set the fewest layouts come first, so that of equal scores the simplest is the first;
    the very first is the compiler's own choice. There are fewer than ``request`` names if the
    program has no more.

    Args:
        program: whose sites they are of.
        request: how many, and how.
        hardware: of the data: on a ``cpu`` a layout names all dimensions of its tensor; on a
            ``tpu`` those of products name the two minor-most.
        scores: of all configurations of a program; used only where they are searched for.

    Raises:
        UserError: no site has a layout to choose.
    """
    ranks = slot_ranks(program)
    if not any(map(any, ranks)):
        raise UserError(f"{program.path}: no convolution, dot or reshape with a layout to choose")
    drawn = _Drawn(program, ranks, hardware == "tpu", np.random.default_rng(0))
    first = request.count if request.how == "random" else -(-request.count // GENERATIONS)
    drawn.draw(max(LEAST, first))
    while request.how == "search" and len(drawn.pool) < request.count:
        if not drawn.breed(scores(drawn.program()), min(first, request.count - len(drawn.pool))):
            drawn.draw(request.count)
            break
    drawn.pool.sort(key=lambda candidate: (candidate[..., 0] >= 0).sum())
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
        unset = drawing.unconstrained(ranks)
        self.pool, self._seen = [unset], {unset.tobytes()}

    def draw(self, count: int) -> None:
        """Random ones until there are ``count``, or no new one is met for long."""
        for _ in range(100 * count):
            if len(self.pool) == count:
                return
            self._add(drawing.random_configuration(self._ranks, self._generator))

    def breed(self, scores: np.ndarray, count: int) -> int:
        """Children of those of lowest score; how many of them are new."""
        before, best = len(self.pool), np.argsort(scores, kind="stable")[:PARENTS]
        parents = [self.pool[place] for place in best.tolist()]
        for child in drawing.next_generation(
            parents, scores[best], count, self._ranks, self._generator
        ):
            self._add(child)
        return len(self.pool) - before

    def _add(self, configuration: np.ndarray) -> None:
        configuration[self._tiled, :, TILED:] = -1
        if configuration.tobytes() not in self._seen:
            self._seen.add(configuration.tobytes())
            self.pool.append(configuration)

    def program(self) -> Program:
        """The program with them."""
        features = np.stack(self.pool).reshape(len(self.pool), len(self._ranks), -1)
        return self._program.under(features)


def slot_ranks(program: Program) -> list[tuple[int, int, int]]:
    """Return the ranks of each site's output, input and kernel; 0 where no layout can be set.

    Of a module these are its operands in their order. Features of an npz do not say which operand
    is the kernel, so that sizes have to.
    """
    graph = program.graph
    shapes = _shapes_in(program) if program.module else _shapes_by_size(program)
    of_sites = []
    for node, site_shapes in zip(graph.node_config_ids.tolist(), shapes, strict=True):
        count = len(ROLES) if graph.node_opcode[node] in (CONVOLUTION, DOT) else len(ROLES) - 1
        ranks = [len(shape) if 0 not in shape else 0 for shape in site_shapes[:count]]
        ranks += [0] * (len(ROLES) - len(ranks))
        of_sites.append(tuple(rank if 1 < rank <= TENSOR_DIMS else 0 for rank in ranks))
    return of_sites


def _shapes_in(program: Program) -> list[list[Sequence[int]]]:
    """Shapes of each site's output and operands."""
    computations = program.module.computations
    instructions = [op for computation in computations for op in computation.instructions]
    shapes = {op.id: op.shape.dimensions for op in instructions}
    sites = (instructions[place] for place in program.graph.node_config_ids.tolist())
    return [[site.shape.dimensions, *(shapes[id] for id in site.operand_ids)] for site in sites]


def _shapes_by_size(program: Program) -> list[list[Sequence[int]]]:
    tensors = tensors_of(program)
    nodes = program.graph.node_config_ids.tolist()
    constrained = (constrained_tensors(tensors, node).tensors for node in nodes)
    there = [[t if t >= 0 and tensors.bytes[t] else -1 for t in row] for row in constrained]
    return [[tensors.shapes[t] if t >= 0 else () for t in row] for row in there]
