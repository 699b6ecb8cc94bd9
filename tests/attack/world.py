"""A tree of data and outputs, small and whole, for cases to copy and to damage.

The real stages make it, once, from generated files: every kind of input trained and scored, a
training state beside each finished fold, a program to rank in each form that is read.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from lib.files import tensor_file
from lib.files.parquet import write_parquet
from lib.tpugraphs.dataset import TPUGRAPHS, write_dataset
from lib.tpugraphs.npz import write_layout
from lib.tpugraphs.schema_pb2 import HloModuleProto, ModuleTuningData, TuningData
from lib.training.checkpoint import Checkpoint
from tests import kernels, synthetic
from tests.attack import runner
from tests.attack.commands import (
    DATA,
    LAYOUT,
    MODELS,
    OUTPUTS,
    PROGRAMS,
    TENSORS,
    TILE,
    VENV,
    Command,
    all_commands,
)
from tests.programs.builders import write_root
from tests.tpugraphs.builders import computation, instruction, layout_run, module, tile_run, tuning

SPLITS = {"train": 3, "valid": 1, "test": 2}
CONFIGURATIONS = 9
F32, SIDE = 11, 8  # XLA's number of float32, and the sides of the protobufs' matrices
TIMES = (
    "seconds",
    "validation_seconds",
    "configurations_per_second",
    "finished",
    "peak_memory_bytes",
)


def build(folder: Path) -> set[str]:
    """Make the tree; the same code makes the same bytes, but for the files of reports.

    Returns:
        the names of the commands whose results lie in it.

    Raises:
        RuntimeError: if a command does not succeed on undamaged files.
    """
    runner.call(lambda: write_data(folder))
    commands = all_commands()
    for model in MODELS:
        succeed(commands[f"preprocess {model}"], folder)
        for fold in range(2):
            for name in ("train", "infer"):
                succeed(_of_fold(commands[f"{name} {model}"], fold), folder)
        runner.call(lambda name=f"train {model}": interrupt(commands[name], folder))
        succeed(commands[f"ensemble {model}"], folder)
    runner.call(lambda: write_rest(folder))
    succeed(commands["merge"], folder)
    runner.call(lambda: settle(folder))
    stages = ("preprocess", "train", "infer")  # stage 4 tells of times, which are settled now
    return {"merge", *(f"{stage} {model}" for stage in stages for model in MODELS)}


def write_data(folder: Path) -> None:
    """Raw files of a layout and of a tile collection, one protobuf each, and programs to rank."""
    seed = 0
    for split, count in SPLITS.items():
        layout, tile = (folder / DATA / "npz" / c.replace("-", "/") / split for c in (LAYOUT, TILE))
        for index in range(count):
            seed += 1
            sizes = {"nodes": 14, "configurable": 3, "configurations": CONFIGURATIONS}
            graph = synthetic.layout_graph(f"{split}_{index}.v1", seed, **sizes)
            if split == "test":
                graph.config_runtime[:] = 0
            write_layout(layout / f"{graph.name}.npz", graph)
            made = kernels.tile_kernel(f"{split}_{index}.v1", seed, 5, CONFIGURATIONS)
            kernels.write_kernels(tile, [made], labelled=split != "test")
        if split == "train":
            (layout / "tuned.pb").write_bytes(layout_message().SerializeToString())
            (tile / "tuned.pb").write_bytes(tile_message().SerializeToString())
    write_dataset(folder / DATA, TPUGRAPHS)
    write_programs(folder / PROGRAMS)
    write_root(folder / TENSORS, tasks=6, programs=4)
    for name in (VENV, f"{VENV}-collect"):
        python = folder / name / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text("#!/bin/sh\n")
        python.chmod(0o755)


def write_programs(folder: Path) -> None:
    """A program in each form, and candidates in both of theirs."""
    graph = synthetic.layout_graph("program", 99, 14, 3, CONFIGURATIONS)
    write_layout(folder / "program.npz", graph)
    (folder / "tuning.pb").write_bytes(layout_message().SerializeToString())
    (folder / "module.pb").write_bytes(hlo_module("module").SerializeToString())
    ids = {"node_config_ids": graph.node_config_ids}
    np.savez(folder / "candidates.npz", node_config_feat=graph.node_config_feat, **ids)
    sites = [{"dot.3": {"output": "{0,1}"}}, {"dot.3": {"kernel": [1, 0]}, "reshape.4": {}}, {}]
    (folder / "candidates.jsonl").write_text("".join(json.dumps(one) + "\n" for one in sites))


def hlo_module(name: str) -> HloModuleProto:
    """Two parameters, their product, a reshape of it, and a sum, all of matrices."""

    def made(number: int, opcode: str, *operands: int, **fields: object):
        one = instruction(number, opcode, operand_ids=operands, **fields)
        one.shape.element_type = F32
        one.shape.dimensions.extend([SIDE, SIDE])
        one.shape.layout.minor_to_major.extend([1, 0])
        return one

    first, second = made(1, "parameter"), made(2, "parameter", parameter_number=1)
    rest = made(3, "dot", 1, 2), made(4, "reshape", 3), made(5, "add", 4, 1)
    return module(computation("main", 1, first, second, *rest), name=name)


def layout_message() -> ModuleTuningData:
    """The module, measured under a few layouts of its product and its reshape."""
    orders = [[], [1, 0], [0, 1]]
    runs = [
        layout_run(1000 + 7 * i, [[orders[i % 3]], [orders[i // 3], orders[i % 2]]], default=not i)
        for i in range(CONFIGURATIONS)
    ]
    return tuning(hlo_module("tuned"), *runs, nodes=(2, 3))


def tile_message() -> TuningData:
    """Two kernels of the module, measured with a few tile sizes."""
    runs = [
        tile_run(100 + 3 * i, output_bounds=[i + 1, 8], kernel_bounds=[2], default=not i)
        for i in range(CONFIGURATIONS)
    ]
    return TuningData(modules=[tuning(hlo_module(f"tuned_{i}"), *runs) for i in range(2)])


def write_rest(folder: Path) -> None:
    """What lies apart: true runtimes and families of the test split, Kaggle's sample."""
    names = [f"test_{index}.v1" for index in range(SPLITS["test"])]
    rows = [
        {
            "collection": LAYOUT,
            "split": "test",
            "graph": name,
            "config": config,
            "runtime": 1000 + 10 * config,
            "rounds": [1000 + 10 * config, 1001 + 10 * config],
        }
        for name in names
        for config in range(CONFIGURATIONS)
    ]
    pl.DataFrame(rows).write_parquet(folder / DATA / "measurements.parquet")
    families = [
        {"collection": LAYOUT, "graph": name, "family": name[:4], "family_in_training": False}
        for name in names
    ]
    pl.DataFrame(families).write_parquet(folder / DATA / "programs.parquet")
    lines = ["ID,TopConfigs", *(f"layout:xla:default:{name},0" for name in names)]
    lines += [f"tile:xla:{name},0" for name in names]
    (folder / "sample.csv").write_text("\n".join(lines) + "\n")


def interrupt(command: Command, folder: Path) -> None:
    """Train once more, and leave beside the finished fold what a kill leaves in its midst."""
    save, saved = Checkpoint.save_if_due, []

    def save_once(state: Checkpoint) -> None:
        if not saved:
            saved.append(save(state))

    Checkpoint.save_if_due, Checkpoint.delete = save_once, lambda state: None
    runner.become((*command.words, "--save-seconds", "0"), folder)
    if not saved:
        raise RuntimeError(f"{command.name}: no state was saved")


def settle(folder: Path) -> None:
    """Give all times one value: another build has the same bytes."""
    outputs = folder / OUTPUTS
    for path in outputs.glob("*/stages/*.json"):
        record = json.loads(path.read_text())
        text = json.dumps(record | {key: 1 for key in TIMES if key in record}, indent=2)
        path.write_text(text)
    for path in outputs.glob("*/fold_*/history.parquet"):
        frame = pl.read_parquet(path)
        same = [pl.lit(1.0).alias(key) for key in TIMES if key in frame.columns]
        write_parquet(frame.with_columns(same), path)
    for path in outputs.glob("*/fold_*/state.safetensors"):
        tensors, about = tensor_file.load(path)
        for row in about["progress"]["history"]:
            row |= {key: 1.0 for key in TIMES if key in row}
        tensor_file.save(path, tensors, about)


def succeed(command: Command, folder: Path) -> runner.Outcome:
    """Run a command that must succeed.

    Raises:
        RuntimeError: if it does not.
    """
    outcome = runner.run(command.words, folder)
    if outcome.code or outcome.stderr:
        raise RuntimeError(f"{command.name} fails on undamaged files: {outcome}")
    return outcome


def _of_fold(command: Command, fold: int) -> Command:
    words = list(command.words)
    words[words.index("--fold") + 1] = str(fold)
    return replace(command, words=tuple(words))
