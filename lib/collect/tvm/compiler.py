"""Every use of TVM's compiler: targets, schedules, machine programs.

TVM is imported when this module is: only what runs in the collecting environment imports it.
"""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

# The search's context imports a module of hardware intrinsics, which takes 15 s and of which
# nothing is used by the rules below.
sys.modules.setdefault("tvm.s_tir.tensor_intrin", types.ModuleType("tvm.s_tir.tensor_intrin"))

import tvm  # noqa: E402
import tvm_ffi  # noqa: E402
from tvm import tirx  # noqa: E402
from tvm.ir import IRModule  # noqa: E402
from tvm.s_tir import Schedule, meta_schedule  # noqa: E402
from tvm.s_tir.meta_schedule import postproc, schedule_rule  # noqa: E402
from tvm.target import Target  # noqa: E402
from tvm.target import codegen as codegen_of  # noqa: E402

from lib.collect.tvm import attention, scattering, winograd  # noqa: E402
from lib.files.processor import MCPU  # noqa: E402

OPT_LEVEL = 2  # LLVM's
CORES = 2  # that schedules are made for: at most 16 pieces of work for each
MOST_VECTOR_LANES = 64
UNROLL_STEPS = (0, 16, 64, 512)
# Of a round of the evolutionary search: the same number of programs finds faster ones in more
# generations of fewer.
POPULATION, GENERATIONS = 16, 8
BRED = 3  # generations of programs that descend from measured ones
TRIES = 6  # for programs that are not known yet
WEIGHTS = "layout_free_buffers"  # a function's attribute: which arguments may be laid out anew
PACKING = "meta_schedule.layout_rewrite_preproc"  # an annotation of a step that does it
SPATIAL, REDUCES = 0, 2  # kinds of a block's variables
# Programs that have schedules of their own, by the name of a step.
BY_HAND = {
    attention.SCORES: attention.schedules,
    scattering.PLACED: scattering.schedules,
    winograd.PRODUCTS: winograd.schedules,
}
PADDED = "PadInput"  # in the name of a step that puts zeros around a tensor
PARENTS = 4  # of programs that are bred: the fastest of a task

codegen = tvm.get_global_func("target.build.llvm")


def target_of(instructions: str, cores: int = CORES) -> Target:
    """Return the LLVM target of one of the names in :data:`MCPU`, or of this machine."""
    metadata = {"kind": "llvm", "mcpu": mcpu_of(instructions), "num-cores": cores}
    return Target({**metadata, "opt-level": OPT_LEVEL})


def mcpu_of(instructions: str) -> str:
    """Return LLVM's name of the processor of a name in :data:`MCPU`, or of this machine."""
    return MCPU.get(instructions) or codegen_of.llvm_get_system_cpu()


def host_target() -> Target:
    """Return the target of the machine that this runs on, whatever its processor."""
    return Target({"kind": "llvm", "num-cores": 1, "opt-level": OPT_LEVEL})


SCHEDULE_TARGET = target_of("avx2")


def hash_of(module: IRModule) -> str:
    """Return the structural hash of a module, 16 digits, the same in every process."""
    return f"{tvm_ffi.structural_hash(module) & (2**64 - 1):016x}"


def alone(function: tirx.PrimFunc) -> IRModule:
    """Return a function as a task: as MetaSchedule takes it out, with the same hash."""
    function = function.with_attr("global_symbol", "main").with_attr("tirx.noalias", True)
    return IRModule({"main": function})


def outputs_of(task: IRModule) -> list[int]:
    """Return the arguments that a tensor program writes, by number."""
    function = task["main"]
    arguments = {parameter: parameter for parameter in function.params}
    written = tvm.s_tir.analysis.get_sblock_access_region(function.body.block, arguments)[1]
    return [
        k
        for k, parameter in enumerate(function.params)
        if any(region.source.same_as(parameter) for region in written)
    ]


def blocks_of(task: IRModule) -> list[tvm.s_tir.SBlock]:
    """Return the steps of a task, in their order."""
    schedule = Schedule(task)
    return [*map(schedule.get, schedule.get_child_blocks(schedule.get_sblock("root")))]


def by_hand(task: IRModule) -> Callable[[IRModule], list[Schedule]] | None:
    """Return what makes a task's schedules, if it is a program that has its own."""
    steps = attention.steps_of(Schedule(task))
    return next((schedules for name, schedules in BY_HAND.items() if name in steps), None)


def space_of(task: IRModule, packs: bool) -> meta_schedule.space_generator.SpaceGenerator:
    """Return MetaSchedule's rules for CPUs; ``packs`` weights as each schedule reads them. Of
    some programs these are schedules by hand."""
    if schedules := by_hand(task):
        found = schedules(task)
        return meta_schedule.space_generator.ScheduleFn(lambda _: found, [], [], {})
    reuse = schedule_rule.ReuseType("may", [1, 2], "global")
    if not all(step.reads for step in blocks_of(task)):
        reuse = None  # it would place a product's reader before numbers made from nothing
    rules = [
        *inlining(task),
        schedule_rule.AddRFactor(max_jobs_per_core=16, max_innermost_factor=64),
        schedule_rule.MultiLevelTiling("SSRSRS", None, 64, None, None, reuse),
        schedule_rule.ParallelizeVectorizeUnroll(16, MOST_VECTOR_LANES, list(UNROLL_STEPS), True),
        schedule_rule.RandomComputeLocation(),
    ]
    after = [
        postproc.DisallowDynamicLoop(),
        postproc.RewriteParallelVectorizeUnroll(),
        postproc.RewriteReductionBlock(),
        *([postproc.RewriteLayout()] if packs else []),
    ]
    mutators = meta_schedule.mutator.Mutator.create("llvm")
    return meta_schedule.space_generator.PostOrderApply(
        sch_rules=rules, postprocs=after, mutator_probs=mutators
    )


def inlining(task: IRModule) -> list[schedule_rule.ScheduleRule]:
    """Return MetaSchedule's rules that join steps: zeros around a sum's inputs stay a step, those
    around what is added to it must not, since its tiles could not be joined with that."""
    steps = blocks_of(task)
    sums = (k for k, step in enumerate(steps) if any(int(x.iter_type) for x in step.iter_vars))
    added = any(PADDED in str(step.name_hint) for step in steps[next(sums, len(steps)) : -1])
    return [
        schedule_rule.InlineConstantScalars(),
        schedule_rule.AutoInline(
            into_producer=False,
            into_consumer=True,
            inline_const_tensor=True,
            disallow_if_then_else=not added,
            require_injective=True,
            require_ordered=True,
            disallow_op=["tirx.exp"],
        ),
    ]


def context_of(task: IRModule, seed: int, packs: bool, strategy: Any) -> meta_schedule.TuneContext:
    """Return a context that draws schedules of a task by one of MetaSchedule's strategies."""
    return meta_schedule.TuneContext(
        mod=task,
        target=SCHEDULE_TARGET,
        space_generator=space_of(task, packs),
        search_strategy=strategy,
        num_threads=1,
        rand_state=1 + seed % (2**31 - 2),
    )


def packable(task: IRModule) -> bool:
    """Return whether TVM can pack a task's weights; not if they are read through a reshape, nor if
    a part of them is read alone, for the rest would take its place."""
    if WEIGHTS not in task["main"].attrs or by_hand(task):
        return True  # there is nothing to pack
    context = context_of(task, 0, True, "replay-trace")
    try:
        drawn = _drawn(context, 1, context.generate_design_space())
    except RuntimeError:
        return False
    steps = (step for schedule in drawn for step in blocks_of(schedule.mod))
    packs = (step for step in steps if PACKING in step.annotations)
    sizes = ([math.prod(map(int, x.source.shape)) for x in (*p.reads, *p.writes)] for p in packs)
    return all(after >= before for before, after in sizes)


def evolution(generations: int) -> meta_schedule.search_strategy.EvolutionarySearch:
    """Return the strategy of a search: a cost model says which of its schedules are measured."""
    return meta_schedule.search_strategy.EvolutionarySearch(
        population_size=POPULATION, genetic_num_iters=generations, init_min_unmeasured=POPULATION
    )


class Sampler:
    """Schedules of one task, in an order that ``seed`` decides: at random, bred, or searched."""

    def __init__(self, task: IRModule, seed: int):
        self.task, self.seed, self.packs = task, seed, packable(task)
        self.context = context_of(task, seed, self.packs, "replay-trace")
        self.designs = self.context.generate_design_space()

    def draw(self, count: int) -> list[Schedule]:
        """Return ``count`` random schedules; some may be equal."""
        return _drawn(self.context, count, self.designs)

    def distinct(self, count: int, seen: set[str]) -> list[Schedule]:
        """Draw up to ``count`` programs whose hashes are not in ``seen``, and add theirs."""
        return _until(count, lambda missing, _: new(self.draw(missing), seen))

    def bred(
        self, measured: Sequence[tuple[Schedule, float]], count: int, seen: set[str]
    ) -> list[Schedule]:
        """Draw up to ``count`` descendants of the fastest of some; see :meth:`distinct`."""
        database = meta_schedule.database.MemoryDatabase()
        workload = database.commit_workload(self.task)
        arguments = meta_schedule.arg_info.ArgInfo.from_prim_func(self.task["main"])
        for schedule, seconds in measured:
            database.commit_tuning_record(
                meta_schedule.database.TuningRecord(
                    schedule.trace, workload, [seconds], SCHEDULE_TARGET, arguments
                )
            )
        chance = meta_schedule.cost_model.CostModel.create("random")

        def children(missing: int, attempt: int) -> list[Schedule]:
            """Return programs of one attempt, at most as many as there are parents."""
            strategy = meta_schedule.search_strategy.EvolutionarySearch(
                population_size=PARENTS,
                init_measured_ratio=1.0,
                init_min_unmeasured=0,
                genetic_num_iters=BRED,
                eps_greedy=0.0,
            )
            return self._evolved(strategy, database, chance, missing, seen, attempt)

        return _until(count, children)

    def searched(self, model: Any, generations: int) -> None:
        """Show a cost model the programs of a search, each generation bred from those it likes."""
        database = meta_schedule.database.MemoryDatabase()
        database.commit_workload(self.task)
        self._evolved(evolution(generations), database, model, 1, set())

    def _evolved(
        self, strategy: Any, database: Any, model: Any, count: int, seen: set[str], attempt: int = 0
    ) -> list[Schedule]:
        context = context_of(self.task, self.seed + attempt, self.packs, strategy)
        return new(_drawn(context, count, self.designs, database, model), seen)


def differ(schedules: Sequence[Schedule]) -> bool:
    """Return whether random schedules of a task differ; where none do, an evolution would look for
    others by the minute."""
    return len({hash_of(schedule.mod) for schedule in schedules}) > 1


def _until(count: int, more: Callable[[int, int], list[Schedule]]) -> list[Schedule]:
    """Return programs of a few attempts, ``more(missing, attempt)``, until there are ``count``."""
    programs: list[Schedule] = []
    for attempt in range(TRIES):
        if len(programs) < count:
            programs += more(count - len(programs), attempt)
    return programs


def _drawn(context: meta_schedule.TuneContext, count: int, *how: Any) -> list[Schedule]:
    """Return up to ``count`` schedules that a context makes up."""
    context.pre_tuning(count, count, *how)
    candidates = context.generate_measure_candidates()
    context.post_tuning()
    return [candidate.sch for candidate in candidates or ()]


def new(schedules: Sequence[Schedule], seen: set[str]) -> list[Schedule]:
    """Return the programs whose hashes are not in ``seen``; adds theirs to it."""
    programs = []
    for schedule in schedules:
        if (name := hash_of(schedule.mod)) not in seen:
            seen.add(name)
            programs.append(schedule)
    return programs


def decisions_of(schedule: Schedule) -> str:
    """Return JSON of a schedule's decisions: applied to its task, they give its program again."""
    return tvm.ir.save_json(schedule.trace.as_json(False))


def rebuilt(task: IRModule, trace: str) -> Schedule:
    """Return the schedule of a task that :func:`decisions_of` stands for."""
    schedule = Schedule(task)
    tvm.s_tir.schedule.Trace.apply_json_to_schedule(tvm.ir.load_json(trace), schedule)
    return schedule


def in_order(module: IRModule) -> IRModule:
    """Return a network whose programs, which have no schedules, take a fraction of their time.

    Of what it sums, each goes through neighbours first; every sum stays in its order.
    """
    functions = {}
    for variable, function in module.functions.items():
        functions[variable] = function
        if isinstance(function, tirx.PrimFunc):
            schedule = Schedule(IRModule({"main": function}))
            for block in schedule.get_child_blocks(schedule.get_sblock("root")):
                kinds = [int(variable.iter_type) for variable in schedule.get(block).iter_vars]
                loops = schedule.get_loops(block)
                if len(loops) == len(kinds) and REDUCES in kinds and SPATIAL in kinds:
                    own, summed = (
                        [loop for loop, kind in zip(loops, kinds, strict=True) if kind == which]
                        for which in (SPATIAL, REDUCES)
                    )
                    with suppress(tvm.s_tir.ScheduleError):
                        schedule.reorder(*own[:-1], *summed, own[-1])
                        schedule.decompose_reduction(block, summed[0])
            functions[variable] = schedule.mod["main"]
    return IRModule(functions, attrs=module.attrs)


def lowered(modules: Sequence[IRModule]) -> IRModule:
    """Return programs as functions ``f0``, ``f1``, ... of one module, ready for any of the targets.

    The checks of arguments, which cost LLVM more time than a small program, are left out.
    """
    functions = {
        f"f{k}": module["main"].with_attr("global_symbol", f"f{k}")
        for k, module in enumerate(modules)
    }
    target = target_of("sse2")
    module = tirx.transform.BindTarget(target.with_host(target))(IRModule(functions))
    pipeline, finalize, _ = tirx.get_default_tir_pipeline(target)
    return tirx.transform.SkipAssert()(finalize()(pipeline(module)))


def machine_program(module: IRModule, instructions: str) -> tvm.runtime.Module:
    """Compile the functions of :func:`lowered` to the end: generating code is lazy in LLVM."""
    library = codegen(module, target_of(instructions))
    for name in module.functions:
        library[name.name_hint]
    return library
