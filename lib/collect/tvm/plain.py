"""Schedules of programs that nobody searches: as they are, by lines, rows, columns and blocks."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from itertools import accumulate
from operator import mul

from tvm import tirx
from tvm.ir import IRModule
from tvm.s_tir import SBlock, Schedule, ScheduleError, meta_schedule
from tvm.s_tir.dlight.analysis import normalize_prim_func
from tvm.sym import Analyzer

from lib.collect.tvm.compiler import (
    MOST_VECTOR_LANES,
    SCHEDULE_TARGET,
    SPATIAL,
    Sampler,
    by_hand,
    inlining,
)
from lib.collect.tvm.tiles import lanes_of, tilings
from lib.files.processor import LANES

LEAST = 8  # numbers of a vector
TILED, EACH = 12, 3  # of a task's tiles that load least, each third
MOST_LINES = 128  # of a copy, that are unrolled
CHOICE = re.compile(r"if_then_else\((.*?), ")  # the condition
NAME = re.compile(r"[A-Za-z_]\w*")
BLOCKS = (8, 16)  # numbers along the last axis
SHARED = 8  # turns of a loop that threads share
NUMBER = re.compile(r"int64\((\d+)\)")


def begun(sampler: Sampler, device: str) -> list[Schedule]:
    """Return some of what a search begins with: tiles that registers hold, of each unrolling; of a
    task without such, what nobody searches."""
    tiled = tilings(sampler, lanes_of(device), TILED)[::EACH]
    return tiled or unscheduled(sampler.task)[1:]


def as_it_is(task: IRModule) -> Schedule:
    """Return a task without a schedule."""
    plain = Schedule(task)
    plain.get_sblock("root")  # a step: TVM's database returns no schedule that has none
    return plain


def unscheduled(task: IRModule, threads: int = 1) -> list[Schedule]:
    """Return a task as it is, and with its steps joined and nothing else: LLVM vectorizes copies
    better than MetaSchedule's rules, which make one loop of all. And :func:`by_lines`,
    :func:`by_rows`, :func:`by_columns` and :func:`by_blocks`. For several threads, each of these
    as well with the loops that they share."""
    plain = as_it_is(task)
    if by_hand(task):
        return [plain]
    rules = meta_schedule.space_generator.PostOrderApply(
        sch_rules=inlining(task), postprocs=[], mutator_probs={}
    )
    context = meta_schedule.TuneContext(task, target=SCHEDULE_TARGET, space_generator=rules)
    joined = context.generate_design_space()[0]
    joined.get_sblock("root")
    found = [plain, joined]
    with suppress(RuntimeError):  # of a task whose steps cannot be placed like that
        found += by_lines(joined.copy())
        found += [*by_rows(Schedule(task)), *by_columns(joined), *by_blocks(joined)]
    if threads > 1:
        found += map(shared, (plain, joined))
        with suppress(RuntimeError):
            found += [*by_rows(Schedule(task), True), *by_columns(joined, True)]
            found += map(shared, by_blocks(joined))
    return found


def shared(schedule: Schedule) -> Schedule:
    """Return a schedule whose steps' outermost loops are shared by threads; of a loop of few turns,
    which would leave threads without work, the next as well."""
    schedule = schedule.copy()
    for block in schedule.get_child_blocks(schedule.get_sblock("root")):
        loops = schedule.get_loops(block)[:-1]  # the last is for vectors
        turns = accumulate((int(schedule.get(loop).extent) for loop in loops), mul)
        enough = next((k for k, turn in enumerate(turns, 1) if turn >= SHARED), len(loops))
        if loops and schedule.get(loops[0]).kind == tirx.ForKind.SERIAL:
            with suppress(ScheduleError):  # of a sum, or of a loop of several steps
                schedule.parallel(schedule.fuse(*loops[:enough]))
    return schedule


def by_lines(schedule: Schedule) -> list[Schedule]:
    """Schedule lines that are of several tensors, such as the steps of an LSTM: each of a few by
    itself, which then knows its tensor; in a loop it goes through all. Of many lines, such as keys
    and those of the step before, whole vectors of one are of one tensor.

    Returns:
        The schedule; nothing if the task is another one.
    """
    block = schedule.get_child_blocks(schedule.get_sblock("root"))[-1]
    loops, step = schedule.get_loops(block), schedule.get(block)
    kinds = {int(variable.iter_type) for variable in step.iter_vars}
    if kinds != {SPATIAL} or len(loops) != len(step.iter_vars):
        return []
    choices = CHOICE.findall(str(step))  # as text: TVM has no walk through its expressions
    *outer, last = (variable.var.name for variable in step.iter_vars)
    if any(last in set().union(*before) - along for *before, along in _read_by(step)):
        return []  # it reads across lines, which LLVM would compile for minutes
    lengths = [int(schedule.get(loop).extent) for loop in loops]
    tested = [k for k, name in enumerate(outer) if any(name in choice for choice in choices)]
    own = [choice for choice in choices if last in choice]
    edges = [int(number) for choice in own for number in NUMBER.findall(choice)]
    piece = math.gcd(lengths[-1], *edges)
    lanes, pieces = math.gcd(piece, MOST_VECTOR_LANES), lengths[-1] // piece
    lines = math.prod(lengths[k] for k in tested) * pieces
    if lines == 1 or pieces > MOST_LINES or (lines > MOST_LINES and lanes < LEAST):
        return []
    part, _, vector = schedule.split(loops[-1], [None, piece // lanes, lanes])
    schedule.vectorize(vector)
    for loop in (*(loops[k] for k in tested if lines <= MOST_LINES), part):
        schedule.unroll(loop)
    return [schedule]


def _read_by(step: SBlock) -> list[list[set[str]]]:
    """Return by which of its own axes a step goes through each axis of the tensors that it reads;
    nothing of single numbers."""
    analyzer = Analyzer()
    for axis in step.iter_vars:
        analyzer.bind(axis.var, axis.dom)
    return [
        [set(NAME.findall(str(analyzer.simplify(place.min)))) for place in source.region]
        for source in step.reads
        if len(source.region)
    ]


def by_rows(schedule: Schedule, shares: bool = False) -> list[Schedule]:
    """Schedule a softmax or a normalization: all its steps for a row, in whole vectors.

    MetaSchedule places each step by itself, and most of them go through memory.

    Returns:
        The schedule; nothing if the task is another one, or rows have parts of a vector, or one.

    Raises:
        RuntimeError: of TVM, if the steps cannot be placed like that.
    """
    steps = normalize_prim_func(schedule) or []
    sums = [step for step in steps if step.is_reduction()]
    outer = min((step.dom_kind().count("S") for step in sums), default=0)  # loops over rows
    lengths = [step.iters[-1].dom for step in steps if len(step.iters) > outer]
    if not outer or not steps[-1].is_injective() or outer == len(steps[-1].iters):
        return []
    if any(not isinstance(n, int) or n % LANES or n == LANES for n in lengths):
        return []
    partial = []
    for step in sums:  # as many sums as a vector has numbers, then the sum of those
        *_, loop = schedule.get_loops(step.block_rv)
        _, lanes = schedule.split(loop, [None, LANES])
        partial.append(schedule.get(schedule.rfactor(lanes, outer)).name_hint)
    *before, last = schedule.get_child_blocks(schedule.get_sblock("root"))
    row = schedule.fuse(*schedule.get_loops(last)[:outer])
    for block in reversed(before):
        schedule.compute_at(block, row)
    if shares:
        schedule.parallel(row)
    for block in (*before, last):
        loops = schedule.get_loops(block)[1:]
        if schedule.get(block).name_hint in partial:
            lanes, *along = loops
            schedule.reorder(*along, lanes)
            schedule.vectorize(lanes)
            schedule.decompose_reduction(block, along[0])
        elif loops and schedule.get(loops[-1]).extent > LANES:
            _, lanes = schedule.split(loops[-1], [None, LANES])
            schedule.vectorize(lanes)
    return [schedule]


def by_columns(task: Schedule, shares: bool = False) -> list[Schedule]:
    """Schedule sums over axes before the last, such as means of an image's channels: in vectors
    along the last axis, of some channels after the other, or of all for each pixel.

    MetaSchedule's rules go through the pixels for each channel by itself.

    Returns:
        Two schedules, or one that threads share; nothing if the task is another one.
    """
    sums = [step for step in normalize_prim_func(task) or [] if step.is_reduction()]
    if len(sums) != 1:
        return []
    step, spatial = task.get(sums[0].block_rv), sums[0].dom_kind().count("S")
    last = step.iter_vars[spatial - 1]
    lanes = math.gcd(int(last.dom.extent), MOST_VECTOR_LANES)
    if len(step.reads) != 1 or not step.reads[0].region[-1].min.same_as(last.var) or lanes < LEAST:
        return []
    if len(task.get_loops(sums[0].block_rv)) == spatial:  # a sum of one
        return []
    found = []
    for at_once in (False,) if shares else (False, True):
        schedule = task.copy()
        block = schedule.get_sblock(step.name_hint)
        loops = schedule.get_loops(block)
        *_, along = loops[:spatial]
        part, vector = schedule.split(along, [None, lanes])
        summed = loops[spatial:]
        schedule.reorder(*([*summed, part] if at_once else [part, *summed]), vector)
        schedule.vectorize(vector)
        if shares:
            schedule.parallel(schedule.fuse(*loops[: spatial - 1], part))
        schedule.decompose_reduction(block, summed[0])
        found.append(schedule)
    return found


def by_blocks(task: Schedule) -> list[Schedule]:
    """Schedule copies to another order of axes: of a few numbers along the last one, all along the
    axis that lies side by side where it is read, since a cache keeps the lines of these.

    Returns:
        A schedule of each length in :data:`BLOCKS`; nothing if the task is another one.
    """
    block, *others = task.get_child_blocks(task.get_sblock("root"))
    step, loops = task.get(block), task.get_loops(block)
    loops = [loop for loop in loops if int(task.get(loop).extent) > 1]
    axes = [axis for axis in step.iter_vars if int(axis.dom.extent) > 1]
    if others or {int(axis.iter_type) for axis in axes} != {SPATIAL} or len(loops) != len(axes):
        return []
    *outer, last = (axis.var.name for axis in axes)
    read = [axes[-1] for axes in _read_by(step)]
    side_by_side = {place for names in read for place, name in enumerate(outer) if name in names}
    if len(side_by_side) != 1 or any(last in names for names in read):
        return []
    *before, along = loops
    inner = before.pop(*side_by_side)
    found = []
    for length in BLOCKS:
        schedule = task.copy()  # in which loops are the same
        part, vector = schedule.split(along, [None, length])
        schedule.reorder(*before, part, inner, vector)
        schedule.vectorize(vector)
        found.append(schedule)
    return found
