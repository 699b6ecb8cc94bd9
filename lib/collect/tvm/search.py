"""The half of ``make search`` that has TVM: draws schedules, measures them, notes the times.

    python -m lib.collect.tvm.search FOLDER torchvision:resnet18 --device avx2

Started by :mod:`lib.programs.search`, which predicts for it over standard input and output, see
:mod:`lib.programs.messages`. MetaSchedule's evolutionary search proposes schedules of one task
after the other, a few a round; a cost model says which of those that it makes up are measured. All
that is measured is in TVM's tuning database in the folder, so that a killed search goes on.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tvm
from onnx import ModelProto
from torch.export import ExportedProgram
from tvm import relax
from tvm.ir import IRModule
from tvm.s_tir import Schedule, meta_schedule

from lib.collect.tvm import compiler
from lib.collect.tvm.agreement import agree, difference, same, varied
from lib.collect.tvm.cache import Cache
from lib.collect.tvm.cost_model import PredictorModel, Talk, standard
from lib.collect.tvm.database import TuningDatabase, trace_of
from lib.collect.tvm.graph import Graph, graph_of, read_between
from lib.collect.tvm.importing import Imported, arrays_of, imported
from lib.collect.tvm.library import compiled, exported, runner, write
from lib.collect.tvm.networks import named
from lib.collect.tvm.onnx_files import session
from lib.collect.tvm.plain import as_it_is, begun, unscheduled
from lib.collect.tvm.plan import seed_of
from lib.collect.tvm.running import LIMIT_SECONDS, Batch, fastest, time_programs
from lib.collect.tvm.tiles import lanes_of, tilings
from lib.files.command_line import Parser
from lib.files.errors import UserError, one_line_errors
from lib.programs.messages import COST_MODELS, NATIVE, OURS, PREDICTOR

FEW = 4  # random schedules, by which it is seen whether a task has several
ROUND = 8  # programs that are measured before the next are drawn
TILED = 36  # of tiles that registers hold, of which a round is measured
# TVM's own cost models: their names there, and how they are made. XGBoost learns from the first
# round on; by itself it would wait for 100 measurements and leave all before them to chance. (TVM's
# perceptron holds out a fifth of the tasks that it learns from, and fails if there is only one.)
TVM_MODELS: dict[str, tuple[str, dict[str, int]]] = {
    "xgboost": ("xgb", {"num_tuning_cores": 1, "num_warmup_samples": ROUND}),
    "random": ("random", {}),
}


@dataclass
class Search:
    """The command line and the database, the same for all tasks."""

    args: argparse.Namespace
    database: TuningDatabase
    talk: Talk
    footprints: dict[str, int]  # of each task: bytes of weights that are read between its calls
    cache: Cache | None  # of what other searches have measured

    def task(self, module: IRModule, name: str, values: Sequence[np.ndarray]) -> None:
        """Search one task until its budget is used up, or nothing new is found.

        Args:
            module: the task.
            name: what it computes.
            values: of its arguments in the network; none for numbers drawn at random.
        """
        task, device = compiler.hash_of(module), self.args.device
        talk = replace(self.talk, task=task)
        cached, bundled = self.taken(module, talk)
        before = self.database.measured(module)
        searched = np.isfinite(before).any() and not bundled
        left = max(self.args.budget - len(before), int(not searched))
        fastest = np.nan
        if left:
            values = varied(values, int(task, 16))
            sampler = compiler.Sampler(module, self.args.seed)
            tiled = None if searched else self.tiles(sampler)
            once = bool(tiled) or searched  # its results are needed, and others are faster
            right = bundled or as_it_is(module)  # what is bundled was compared when it was measured
            plain = [right] if once else unscheduled(module, self.args.threads)
            modules, footprint = [schedule.mod for schedule in plain], self.footprints[task]
            batch = Batch(task, modules, device, values, footprint=footprint, once=once)
            seconds, checks = time_programs(batch)
            if np.isnan(seconds[0]):
                raise UserError(f"{name}: TVM cannot compile or run it without a schedule")
            seconds = np.where(same(checks, checks[0]), seconds, np.nan)
            fastest = np.nan if once and bundled else np.nanmin(seconds)

        def measure(schedules: Sequence[Schedule]) -> list[float]:
            """Measure schedules and note their seconds, NaN of those that are of no use."""
            modules = [schedule.mod for schedule in schedules]
            batch = Batch(task, modules, device, values, self.args.limit, footprint)
            seconds, found = time_programs(batch)
            seconds = np.where(same(found, checks[0]), seconds, np.nan)
            for schedule, taken in zip(schedules, seconds.tolist(), strict=True):
                self.database.add(module, schedule, taken)
            talk.tell("round", {}, {"seconds": seconds})
            return seconds.tolist()

        metadata = {"operators": name, "unscheduled": float(fastest)}
        talk.tell("begin", metadata, {"seconds": np.array(before, np.float64)})
        if left:
            self.rounds(sampler, talk, left, measure, tiled)
            if fastest < np.nanmin(self.database.measured(module), initial=np.inf):
                self.database.add(module, plain[np.nanargmin(seconds)], float(fastest))
        if self.cache:
            new = [r for r in self.database.records(module) if trace_of(r) not in cached]
            self.cache.add(task, new)
        talk.tell("end", {}, {})

    def taken(self, module: IRModule, talk: Talk) -> tuple[set[str], Schedule | None]:
        """Take what was measured of a task before.

        Returns:
            The schedules that are cached, and the only one that there is, if the bundled data
            have it.
        """
        if not self.cache:
            return set(), None
        records = self.cache.records(talk.task)
        damaged, cached = self.database.take(module, records, max(1, self.args.budget))
        if damaged:
            talk.tell("damaged", {"folder": str(self.cache.folder / talk.task)}, {})
        if cached or self.database.records(module):
            return cached, None
        found = drawn_again(module, talk.task, self.args.device, talk.tell("known", {}, {}))
        if not found:
            return cached, None
        self.database.add(module, *found)
        return cached, found[0]

    def tiles(self, sampler: compiler.Sampler) -> list[Schedule]:
        """Return the tiles, which registers hold, that a search by the predictor begins with."""
        asks = self.args.cost_model == PREDICTOR
        return tilings(sampler, lanes_of(self.args.device), TILED) if asks else []

    def rounds(
        self,
        sampler: compiler.Sampler,
        talk: Talk,
        left: int,
        measure: Callable[[Sequence[Schedule]], list[float]],
        tiled: Sequence[Schedule] | None,
    ) -> None:
        """Measure so many more.

        A search begins with tiles, if there are some: in turns the fastest as predicted, which may
        not know the processor, and those that load least. One that goes on has None.
        """
        model, module = self.model(talk), sampler.task
        if tiled:
            order = np.argsort(model.logs(talk.task, tiled)).tolist()
            turns = (k for place, best in enumerate(order) for k in (best, place))
            first = list(dict.fromkeys(turns))[: min(ROUND, left)]
            measure([tiled[k] for k in first])
            left -= len(first)
        if not left:
            return
        if not compiler.differ(few := sampler.draw(FEW)):
            if tiled is not None:
                measure(few[:1])
            return
        seed = self.args.seed + len(self.database.measured(module))
        strategy = compiler.evolution(compiler.GENERATIONS)
        context = compiler.context_of(module, seed, sampler.packs, strategy)
        if earlier := self.database.programs(module):
            arguments = meta_schedule.arg_info.ArgInfo.from_prim_func(module["main"])
            again = [meta_schedule.MeasureCandidate(schedule, arguments) for schedule, _ in earlier]
            model.update(context, again, results_of([seconds for _, seconds in earlier]))
        context.pre_tuning(left, min(ROUND, left), sampler.designs, self.database.tvm, model)
        while candidates := context.generate_measure_candidates():
            schedules = [candidate.sch for candidate in candidates]
            results = results_of(measure(schedules))
            context.notify_runner_results(candidates, results)
            model.update(context, candidates, results)
        context.post_tuning()

    def model(self, talk: Talk) -> Any:
        """Return a new cost model."""
        kind = self.args.cost_model
        if kind == PREDICTOR:
            return PredictorModel(talk)
        try:
            name, settings = TVM_MODELS[kind]
            return meta_schedule.cost_model.CostModel.create(name, **settings)
        except ImportError as error:
            raise UserError(f"--cost-model {kind}: {error}; install it with TVM") from None


def drawn_again(
    module: IRModule, task: str, device: str, known: Mapping[str, np.ndarray]
) -> tuple[Schedule, float] | None:
    """Return the fastest program of a task that the bundled data have, and its seconds.

    The data name schedules by their hashes: those of first rounds are made once more.

    Args:
        module: the task.
        task: its hash.
        device: instruction set that programs are compiled for.
        known: ``rounds``, ``hashes`` and ``seconds`` of its programs, the fastest first.
    """
    found = None
    for turn in dict.fromkeys(known["rounds"].tolist()):
        of_turn = known["rounds"] == turn
        seconds = dict(zip(known["hashes"][of_turn], known["seconds"][of_turn], strict=True))
        if not found or min(seconds.values()) < found[1]:
            sampler = compiler.Sampler(module, seed_of("main", turn, task))
            first = [] if turn else begun(sampler, device)
            for schedule in [*first, *sampler.draw(ROUND)]:
                taken = float(seconds.get(compiler.hash_of(schedule.mod), np.inf))
                if taken < (found[1] if found else np.inf):
                    found = schedule, taken
    return found


def results_of(seconds: Sequence[float]) -> list[meta_schedule.runner.RunnerResult]:
    """Return times as MetaSchedule has them; NaN is of a program that is of no use."""
    why = "does not run in time, or computes something else"
    return [
        meta_schedule.runner.RunnerResult(*(([taken], None) if taken == taken else (None, why)))
        for taken in seconds
    ]


def best_of(module: IRModule, database: TuningDatabase) -> IRModule:
    """Return a network whose functions have the fastest schedules of the database."""
    change = relax.transform
    with database.target, database.tvm:
        module = change.MetaScheduleApplyDatabase()(module)
    return change.LiftTransformParams()(change.SplitLayoutRewritePreproc()(module))


def by_original(network: Imported) -> dict[str, Callable[[], Any]]:
    """Return a run of a network by PyTorch, or of a file by ONNX Runtime with as many threads, by
    its name."""
    module, inputs = network.built
    if isinstance(module, ModelProto):
        run = session(module, torch.get_num_threads()).run
        feeds = dict(zip((tensor.name for tensor in module.graph.input), inputs, strict=True))
        return {"ONNX Runtime": lambda: run(None, feeds)}
    called = module.module() if isinstance(module, ExportedProgram) else module
    return {"PyTorch": torch.inference_mode()(lambda: called(*inputs))}


def whole(network: Imported, search: Search) -> dict[str, Any]:
    """Write a network with the fastest programs of the database, and time it and the original.

    Raises:
        UserError: it computes something else than the original.
    """
    folder, device, threads = search.args.folder, search.args.device, search.args.threads
    try:
        fastest_of = best_of(network.module, search.database)
    except RuntimeError:
        raise UserError(f"{folder}: its schedules are not of {network.name}; delete it") from None
    library = compiled(fastest_of, network.values, device, threads)
    with exported(folder, library):
        run = runner(library, network.inputs)
        computed = arrays_of(run())
        if not agree(computed, network.expected):
            raise UserError(f"{network.name}: under the fastest schedules, its results are wrong")
        torch.set_num_threads(threads)
        seconds, waited = fastest({OURS: run, **by_original(network)})
    off = max(map(difference, computed, network.expected))
    metadata = {"seconds": seconds, "difference": off, "waited": waited}
    made = {"network": network.name, "mcpu": compiler.mcpu_of(device), "threads": threads}
    metadata |= {**made, "tvm": tvm.__version__}
    write(folder, network, metadata)
    return metadata


def main() -> None:
    """Search a network's tasks, and time the whole network."""
    args = arguments()
    talk = standard()
    network = imported(named(args.network, args.batch, args.shape))
    graph = graph_of(network)
    jobs = jobs_of(network, graph)
    rows = [{"task": compiler.hash_of(module), "calls": calls} for module, _, calls, _ in jobs]
    between = zip(graph.tasks, read_between(graph, network.footprint), strict=True)
    footprints = {compiler.hash_of(module): number for module, number in between}
    talk.tell("plan", {"network": args.network, "tasks": rows}, {})
    database = TuningDatabase(args.folder, args.device)
    cache = args.schedules and Cache(args.schedules, args.device, args.threads)
    search = Search(args, database, talk, footprints, cache)
    for module, name, _, values in jobs:
        search.task(module, name, values)
    talk.tell("whole", whole(network, search), {})


def jobs_of(
    network: Imported, graph: Graph
) -> list[tuple[IRModule, str, int, Sequence[np.ndarray]]]:
    """Return what there is to search of a network, most work first.

    Args:
        network: as it is deployed.
        graph: its own.

    Returns:
        Tasks, what each computes, how often it is called, and the values of its first call.
    """
    work = [tvm.s_tir.analysis.estimate_tir_flops(program) for program in graph.tasks]
    calls = np.bincount([call.task for call in graph.calls], minlength=len(graph.tasks)).tolist()
    jobs = []
    for k in sorted(range(len(graph.tasks)), key=lambda k: -work[k] * calls[k]):
        functions = (name for name, number in graph.functions.items() if number == k)
        jobs.append((graph.tasks[k], graph.names[k], calls[k], network.arguments(functions)))
    return jobs


def arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = Parser(prog="python -m lib.collect.tvm.search", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of the tuning database")
    parser.add_argument("network", help="its name, as NETWORK= of make takes it")
    parser.add_argument("--batch", type=int, help="examples at a time")
    parser.add_argument("--shape", default="", help="free dimensions of an ONNX file: name=128,...")
    parser.add_argument("--budget", type=int, default=64, help="programs to measure of each task")
    devices = (*compiler.MCPU, NATIVE)
    parser.add_argument("--device", default=NATIVE, choices=devices)
    parser.add_argument("--threads", type=int, default=1, help="that run a program")
    parser.add_argument("--seed", type=int, default=0)
    limit = "seconds to compile a program, and for a reading of it"
    parser.add_argument("--limit", type=float, default=LIMIT_SECONDS, help=limit)
    parser.add_argument("--schedules", type=Path, help="folder of what other searches have found")
    parser.add_argument("--cost-model", default=PREDICTOR, choices=COST_MODELS)
    return parser.parse_args()


if __name__ == "__main__":
    with one_line_errors():
        main()
