"""Find fast schedules of a network's programs for a device, with few measurements.

Reads   <outputs>/<collection>[@<model>]/fold_<k>/ and its cache, else data/weights/<collection>/
Writes  <outputs>/<collection>[@<model>]/search/<network>[.b<batch>].<device>/
            database_workload.json, database_tuning_record.json   TVM's own tuning database
            search.json                                           what was found, and when
        <outputs>/schedules/     what all searches have measured, see lib/collect/tvm/cache.py

    python -m lib.programs.search --network torchvision:resnet18 --device avx2 --budget 64

The predictor says which of the schedules that TVM's evolutionary search makes up are measured here;
what was measured corrects it. Kill it at any time: the same command goes on. TVM loads the database
with `relax.transform.MetaScheduleApplyDatabase`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import torch

from lib.files.artifacts import read_json, write_json
from lib.files.command_line import Parser
from lib.files.errors import one_line_errors
from lib.files.locks import only_on, only_writer
from lib.files.parquet import read_parquet
from lib.files.processor import LARGE_PAGES, check_has, processor
from lib.files.progress import Lines
from lib.programs.devices import known_devices, on_device, predicted_seconds, tell
from lib.programs.inputs import Programs, device_named
from lib.programs.latency.predictor import (
    check_flags,
    predictor_flags,
    predictor_in,
    predictor_settings,
)
from lib.programs.messages import (
    COST_MODELS,
    NATIVE,
    PREDICTOR,
    Message,
    file_name,
    receive,
    started,
)
from lib.programs.search.record import SearchRecord, TaskSearch, as_table, busy, summary, warning
from lib.programs.search.scorer import Scorer, learn, scores
from lib.programs.tensorir.records import ADVICE, TABLES, is_general, table_path
from lib.settings import Settings

PASSED = (
    "schedules",
    "batch",
    "shape",
    "budget",
    "device",
    "threads",
    "seed",
    "cost_model",
    "limit",
)


def main(arguments: list[str] | None = None) -> None:
    """Search the programs of a network."""
    args = parser().parse_args(arguments)
    check_flags(args, "search", batch=1, budget=0, threads=1, seed=0)
    check_has("--device", args.device)
    root, settings = predictor_settings(args.collection, args.data, args.model, args.experiment)
    torch.set_num_threads(1)
    predict, known = None, None
    if args.cost_model == PREDICTOR:  # others are compared with it, each from its own beginning
        args.schedules = (args.schedules or args.outputs / "schedules").resolve()
    kind = "" if args.cost_model == PREDICTOR else f".{args.cost_model}"
    name = file_name(args.network) + ("" if args.batch is None else f".b{args.batch}")
    name += f".{file_name(args.shape)}" * bool(args.shape)
    name += f".{args.device}" + ("" if args.threads == 1 else f".{args.threads}t") + kind
    folder = args.outputs / settings.results / "search" / name
    folder.mkdir(parents=True, exist_ok=True)
    record = SearchRecord(args.network, args.device, args.cost_model, args.budget)
    own = sorted(os.sched_getaffinity(0), reverse=True) if args.core is None else [args.core]
    threads = min(args.threads, len(own))
    with (
        only_writer(args.outputs, folder),
        only_on(own, threads) as cores,
        started(command_of(args, folder, cores[0]), **environment_of(args)) as (child, talk),
    ):
        if args.cost_model == PREDICTOR:
            predict, known = predictor(args, settings), measured_before(root.path, args)
        follow(child, talk, record, predict, args, folder, known)
    write_json(folder / "search.json", record.as_json())
    print(as_table(record.tasks))
    for text in filter(None, [warning(record.tasks), busy(record)]):
        print(text, file=sys.stderr)
    print(f"{summary(record)}; wrote {folder}/")


def environment_of(args: argparse.Namespace) -> dict[str, str]:
    """Return variables of the half that has TVM: its threads, and large pages unless somebody has
    set how memory is taken."""
    threads = dict.fromkeys(("TVM_NUM_THREADS", "OMP_NUM_THREADS"), str(args.threads))
    return {name: os.environ.get(name, value) for name, value in LARGE_PAGES.items()} | threads


def follow(
    child: subprocess.Popen,
    answer: Callable[[dict[str, np.ndarray]], None],
    record: SearchRecord,
    predict: Callable[[Programs], np.ndarray] | None,
    args: argparse.Namespace,
    folder: Path,
    known: Callable[[str], dict[str, np.ndarray]] | None,
) -> None:
    """Answer the search's messages until it ends, and note what it finds."""
    scorer, lines, began = None, None, time.monotonic()
    while message := receive(child.stdout):
        metadata, kind = message[0], message[0]["kind"]
        reply: dict[str, np.ndarray] = {}
        if kind == "begin":
            began = time.monotonic()
            scorer = Scorer(predict, args.update) if predict else None
        if kind == "known":
            reply = known(metadata["task"])
        elif kind == "damaged":
            print(f"warning: {metadata['folder']}: some records cannot be used", file=sys.stderr)
        elif kind == "predict":
            reply["logs"] = scores(scorer, message)
        elif kind == "measured" and scorer:
            learn(scorer, message)
        else:
            note(record, message, time.monotonic() - began)
        if kind == "plan":
            lines = Lines("search", len(record.tasks) * record.budget, "program")
        if lines and kind == "round":
            task = next(task for task in record.tasks if task.task == metadata["task"])
            lines.note(f"{task.operators[:30]} {1e3 * task.fastest:.3g} ms")
            lines.at(sum(len(task.seconds) for task in record.tasks))
        if kind in ("end", "whole"):
            write_json(folder / "search.json", record.as_json())
        answer(reply)


def note(record: SearchRecord, message: Message, taken: float) -> None:
    """Keep what a message says of the search, ``taken`` seconds after its task's began."""
    metadata, arrays = message
    kind = metadata["kind"]
    if kind == "plan":
        record.tasks = [TaskSearch(task["task"], task["calls"]) for task in metadata["tasks"]]
    elif kind == "whole":
        record.whole, record.difference = metadata["seconds"], metadata["difference"]
        record.waited = metadata["waited"]
    else:
        search = next(search for search in record.tasks if search.task == metadata["task"])
        if kind == "begin":
            search.operators, search.unscheduled = metadata["operators"], metadata["unscheduled"]
        if kind in ("begin", "round"):
            search.seconds += arrays["seconds"].tolist()
            search.known_at += [round(taken, 3)] * len(arrays["seconds"])


def predictor(args: argparse.Namespace, settings: Settings) -> Callable[[Programs], np.ndarray]:
    """Return a function that predicts logarithms of seconds on the device."""
    results = args.outputs / settings.results
    ensemble, learned, weights = predictor_in(args.outputs, settings)
    devices = known_devices(learned, results, weights)
    device = devices[device_named(args.device, devices, processor())] | {"threads": args.threads}
    tell(device)
    ensemble = on_device(ensemble, device, results)
    return lambda programs: np.log(predicted_seconds(ensemble, programs, device))


def measured_before(data: Path, args: argparse.Namespace) -> Callable[[str], dict[str, np.ndarray]]:
    """Return a function of a task that returns what a collection's data have of its programs, as
    deployed on this processor: ``rounds``, ``hashes`` and ``seconds``, the fastest first."""
    devices = read_json(data / "dataset.json")["devices"] if args.device == NATIVE else []
    this = processor(), args.threads
    here = [
        number
        for number, device in enumerate(devices)
        if (device["processor"], device["threads"]) == this and not is_general(device)
    ]
    tasks, programs, latencies = (
        read_parquet(table_path(data, name), TABLES[name], ADVICE)
        for name in ("tasks", "programs", "latencies")
    )
    rows = latencies.filter(pl.col("device").is_in(here)).sort("seconds", "program")
    rows = rows.with_columns(programs[rows["program"]]).with_columns(
        tasks["task"].gather(programs["task"][rows["program"]])
    )

    def of_task(task: str) -> dict[str, np.ndarray]:
        """Return what there is of a task."""
        found = rows.filter(pl.col("task") == task)
        return {
            "rounds": found["round"].to_numpy(),
            "hashes": found["schedule"].to_numpy().astype("U16"),
            "seconds": found["seconds"].to_numpy().astype(np.float64),
        }

    return of_task


def command_of(args: argparse.Namespace, folder: Path, core: int) -> list[str]:
    """Return the command of the half that has TVM."""
    command = [str(args.tvm), "-m", "lib.collect.tvm.search", str(folder.resolve()), args.network]
    if args.threads == 1:
        command = ["taskset", "-c", str(core), *command]
    for name in PASSED:
        if getattr(args, name) is not None:
            command += [f"--{name.replace('_', '-')}", str(getattr(args, name))]
    return command


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = Parser(prog="python -m lib.programs.search", description=__doc__.splitlines()[0])
    network = "a name, file.py:function, file.onnx or file.pt2"
    line.add_argument("--network", required=True, help=network)
    line.add_argument("--batch", type=int, help="examples at a time")
    line.add_argument("--shape", default="", help="free dimensions of an ONNX file: name=128,...")
    line.add_argument("--device", default=NATIVE, help="this processor, or an instruction set")
    line.add_argument("--budget", type=int, default=64, help="programs to measure of each task")
    line.add_argument(
        "--cost-model", default=PREDICTOR, choices=COST_MODELS, help="says what is measured"
    )
    line.add_argument(
        "--update",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="correct the predictor by what was measured",
    )
    schedules = "folder of what all searches have found, which people can share"
    line.add_argument("--schedules", type=Path, help=f"{schedules}; by default below --outputs")
    line.add_argument("--seed", type=int, default=0)
    line.add_argument("--core", type=int, help="to time on; the last one without another search")
    line.add_argument("--threads", type=int, default=1, help="to run it on, not on one core")
    line.add_argument("--limit", type=float, help="seconds to compile a program, or run it once")
    predictor_flags(line)
    return line


if __name__ == "__main__":
    with one_line_errors():
        main()
