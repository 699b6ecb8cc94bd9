"""A scheduled module as a record: its tree of loops, and TVM's features of each leaf."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tvm
from tvm.ir import IRModule
from tvm.s_tir import Schedule, meta_schedule, transform

from lib.collect.tvm.compiler import SCHEDULE_TARGET
from lib.files.errors import UserError
from lib.programs.tensorir.features import WIDTH
from lib.programs.tensorir.tree import LEAF, NO_ROW, SERIAL, Forest, from_nodes, loop_nests

OUTER_PRODUCT, LOOPS = -3, -2  # columns that the tree can be checked against
ANNOTATION = "pragma_auto_unroll_max_step"
TOLERANCE = 1e-3  # of log2: features are single precision

# Of what PerStoreFeature lowers a module by before it looks at the stores, what makes stores and
# loops; the rest moves and shrinks buffers, takes most of the time and leaves the tree as it is.
_lowering = tvm.ir.transform.Sequential(
    [transform.LowerInitBlock(), transform.ConvertBlocksToOpaque()]
)
_extractor = meta_schedule.feature_extractor.PerStoreFeature()


def features(programs: Sequence[IRModule | Schedule]) -> list[np.ndarray]:
    """(rows, 164) float32 of each program: log2(1 + x) of what MetaSchedule knows of a store.

    A row stands for a buffer: the last store of something that is no constant. A module becomes a
    schedule first, which takes as long as its features: who has schedules gives those.
    """
    schedules = [one if isinstance(one, Schedule) else Schedule(one) for one in programs]
    first = schedules[0].mod
    context = meta_schedule.TuneContext(mod=first, target=SCHEDULE_TARGET, num_threads=1)
    candidates = [meta_schedule.MeasureCandidate(one, []) for one in schedules]
    return [table.numpy() for table in _extractor.extract_from(context, candidates)]


def tree_of(module: IRModule) -> Forest:
    """The loops of a scheduled module around its stores.

    Loops of one iteration are left out, as the features leave them out, unless they are marked:
    to be parallel, vectorized or unrolled.
    """
    nodes: list[list[int]] = []
    rows: dict[object, int] = {}
    last: dict[int, int] = {}
    _walk(_lowering(module)["main"].body, 0, nodes, rows, last)
    for row, node in last.items():
        nodes[node][-1] = row
    return from_nodes([tuple(node) for node in nodes])


def _walk(statement, depth: int, nodes: list, rows: dict, last: dict) -> None:
    """Append the nodes of a statement; ``last`` tells which leaf each row belongs to."""
    kind = type(statement).__name__
    if kind == "For":
        if not isinstance(statement.extent, tvm.tirx.IntImm):
            raise UserError("a loop's length is not fixed, and no predictor knows such loops")
        extent = int(statement.extent)
        unroll = int(statement.annotations.get(ANNOTATION, 0))
        marked = int(statement.kind)
        if extent > 1 or unroll or marked != SERIAL:
            nodes.append([depth, marked, extent, unroll, NO_ROW])
            depth += 1
        _walk(statement.body, depth, nodes, rows, last)
    elif kind == "SeqStmt":
        for part in statement.seq:
            _walk(part, depth, nodes, rows, last)
    elif kind == "BufferStore":
        if type(statement.value).__name__ not in ("FloatImm", "IntImm"):
            row = rows.setdefault(statement.buffer, len(rows))
            last[row] = len(nodes)
        nodes.append([depth, LEAF, 1, 0, NO_ROW])
    elif kind == "IfThenElse":
        _walk(statement.then_case, depth, nodes, rows, last)
        if statement.else_case is not None:
            _walk(statement.else_case, depth, nodes, rows, last)
    elif kind == "SBlockRealize":
        _walk(statement.block.body, depth, nodes, rows, last)
    elif hasattr(statement, "body"):
        _walk(statement.body, depth, nodes, rows, last)
    elif kind not in ("Evaluate", "Bind"):  # Bind names a value, which a store after it has
        raise UserError(f"a statement of kind {kind} was not expected in a tensor program")


def disagreement(tree: Forest, table: np.ndarray) -> str | None:
    """Why rows of features cannot belong to a tree's leaves, by what both of them say."""
    if table.shape != (len(tree.leaves), WIDTH):
        return f"features of {table.shape}, {len(tree.leaves)} leaves"
    for row, nest in zip(table, loop_nests(tree), strict=True):
        extents = tree.extent[nest].astype(np.float64)
        said = np.log2(1 + extents.prod()), np.log2(1 + len(nest))
        if not np.allclose(row[[OUTER_PRODUCT, LOOPS]], said, atol=TOLERANCE):
            return f"loops {extents.tolist()} around a leaf whose features are of others"
    return None
