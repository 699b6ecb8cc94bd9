"""A scheduled module as a record: its tree of loops, and TVM's features of each leaf."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import tvm
from tvm.ir import IRModule
from tvm.s_tir import Schedule, meta_schedule, transform

from lib.collect.tvm.accesses import Store, statement_of
from lib.collect.tvm.compiler import SCHEDULE_TARGET
from lib.files.errors import UserError
from lib.programs.tensorir import accesses
from lib.programs.tensorir.accesses import Statement
from lib.programs.tensorir.features import WIDTH
from lib.programs.tensorir.tree import LEAF, NO_ROW, SERIAL, Forest, from_nodes, loop_nests

OUTER_PRODUCT, LOOPS = -3, -2  # columns that the tree can be checked against
ANNOTATION = "pragma_auto_unroll_max_step"
TOLERANCE = 1e-3  # of log2: features are single precision

# Of what PerStoreFeature lowers a module by before it looks at the stores, what makes stores; the
# rest moves and shrinks buffers, takes most of the time and leaves the tree as it is.
_lowering = tvm.ir.transform.Sequential(
    [transform.RemoveWeightLayoutRewriteBlock(True), transform.LowerInitBlock()]
)
_extractor = meta_schedule.feature_extractor.PerStoreFeature()


def features(schedules: Sequence[Schedule]) -> list[np.ndarray]:
    """Return (rows, 164) float32 of each program: log2(1 + x) of MetaSchedule's features.

    A row stands for a buffer: the last store of something that is no constant.
    """
    first = schedules[0].mod
    context = meta_schedule.TuneContext(mod=first, target=SCHEDULE_TARGET, num_threads=1)
    candidates = [meta_schedule.MeasureCandidate(schedule, []) for schedule in schedules]
    return [table.numpy() for table in _extractor.extract_from(context, candidates)]


class Walked:
    """The loops of a scheduled module around its stores.

    Loops of one iteration are left out, as the features leave them out, unless they are marked:
    to be parallel, vectorized or unrolled.

    Attributes:
        tree: of loops, and of stores as leaves.
    """

    tree: Forest

    def __init__(self, module: IRModule):
        function = _lowering(module)["main"]
        self.nodes: list[list[int]] = []
        self.rows: dict[int, int] = {}
        self.last: dict[int, tuple[int, Store]] = {}  # of each row
        self.shared: dict[int, list[int]] = {}  # of each buffer: the loops around all its blocks
        self._walk(function.body, [], None, 0)
        for row, (node, _) in self.last.items():
            self.nodes[node][-1] = row
        self.tree = from_nodes([tuple(node) for node in self.nodes])
        self.arguments = {hash(parameter) for parameter in function.params}

    @property
    def computes(self) -> bool:
        """Whether it stores something else than constants, and copies of what it has stored."""
        values = [store[2].value for _, store in self.last.values()]
        return any(
            type(value).__name__ != "TensorLoad" or hash(value.source) in self.arguments
            for value in values
        )

    def statement(self, row: int) -> Statement:
        """Return the statement of a row of features, with its accesses to buffers."""
        shared = {k: len(loops) for k, loops in self.shared.items() if k not in self.arguments}
        return statement_of(*self.last[row][1], shared)

    def _walk(self, statement, loops: list, realize, conditions: int) -> None:
        """Append the nodes of a statement below some loops, a block and conditions."""
        kind = type(statement).__name__
        if kind == "For":
            self._loop(statement, loops, realize, conditions)
        elif kind == "SeqStmt":
            for part in statement.seq:
                self._walk(part, loops, realize, conditions)
        elif kind == "BufferStore":
            if type(statement.value).__name__ not in ("FloatImm", "IntImm"):
                row = self.rows.setdefault(hash(statement.buffer), len(self.rows))
                self.last[row] = len(self.nodes), (loops, realize, statement, conditions)
            self.nodes.append([len(loops), LEAF, 1, 0, NO_ROW])
        elif kind == "IfThenElse":
            self._walk(statement.then_case, loops, realize, conditions + 1)
            if statement.else_case is not None:
                self._walk(statement.else_case, loops, realize, conditions + 1)
        elif kind == "SBlockRealize":
            self._note(statement.block, loops)
            self._walk(statement.block.body, loops, statement, conditions)
        elif hasattr(statement, "body"):
            self._walk(statement.body, loops, realize, conditions)
        elif kind not in ("Evaluate", "Bind"):  # Bind names a value, which a store after it has
            raise UserError(f"a statement of kind {kind} was not expected in a tensor program")

    def _loop(self, loop, loops: list, realize, conditions: int) -> None:
        if not isinstance(loop.extent, tvm.tirx.IntImm):
            raise UserError("a loop's length is not fixed, and no predictor knows such loops")
        before = len(self.nodes)
        extent, marked = int(loop.extent), int(loop.kind)
        unroll = int(loop.annotations.get(ANNOTATION, 0))
        if extent > 1 or unroll or marked != SERIAL:
            self.nodes.append([len(loops), marked, extent, unroll, NO_ROW])
            loops = [*loops, (hash(loop.loop_var), extent, marked, unroll)]
        self._walk(loop.body, loops, realize, conditions)
        if self.nodes and self.nodes[-1][1] != LEAF:
            del self.nodes[before:]  # a loop that packed weights, which is done beforehand

    def _note(self, block, loops: list) -> None:
        """Note the loops around the buffers of a block."""
        names = [loop[0] for loop in loops]
        for region in (*block.reads, *block.writes):
            common = self.shared.setdefault(hash(region.source), names)
            if common is not names:
                alike = zip(common, names, strict=False)
                here = itertools.takewhile(lambda pair: pair[0] == pair[1], alike)
                self.shared[hash(region.source)] = [name for name, _ in here]


def accesses_of(
    walked: Sequence[Walked], tables: Sequence[np.ndarray], good: Sequence[bool]
) -> np.ndarray:
    """Return (rows, 98) float16 access patterns of all rows of features; unknown where these are
    not ``good``."""
    usable = [program for program, right in zip(walked, good, strict=True) if right]
    patterns = accesses.columns([p.statement(row) for p in usable for row in p.last])
    rows = np.repeat(np.array(good, bool), [len(table) for table in tables])
    every = accesses.unknown(len(rows))
    every[rows] = patterns
    return every


def disagreement(tree: Forest, table: np.ndarray) -> str | None:
    """Return why rows of features cannot belong to a tree's leaves; ``None`` if they can."""
    if table.shape != (len(tree.leaves), WIDTH):
        return f"features of {table.shape}, {len(tree.leaves)} leaves"
    for row, nest in zip(table, loop_nests(tree), strict=True):
        extents = tree.extent[nest].astype(np.float64)
        expected = np.log2(1 + extents.prod()), np.log2(1 + len(nest))
        if not np.allclose(row[[OUTER_PRODUCT, LOOPS]], expected, atol=TOLERANCE):
            return f"loops {extents.tolist()} around a leaf whose features are of other loops"
    return None
