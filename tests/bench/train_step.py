"""A training step and an inference batch against the plain implementation, side by side.

    .venv/bin/python -m tests.bench.train_step [--shapes 0 1 2] [--threads 1 2] [--repeats 10]

Rival: ``tests.bench.reference``, the same network on PyTorch Geometric with the same weights,
eager, every (configuration, node) cell written out. In each round every contestant does one step
(or one batch); reported are medians of the rounds and their ratio to the rival's in float32. The
rival under bfloat16 autocast is told beside it.

What the profile of a step at 800 x 150 x 64, one thread, taught (AMD EPYC 9004, 2.6 GHz):
* The rival spends 40 % in matrix products; the rest is about twenty passes over tensors of 52 MB,
  which no cache holds, and page faults of tensors that are allocated anew in every step.
* The products that remain in ours (instance norm scales every configuration differently, so that
  even nodes that no configuration changes need a product for each of them) are 60 % of a step in
  float32 and 55 % in bfloat16, at 97 and 205 of the core's 118 and 237 GFLOP/s.
* Fresh memory for the intermediates cost 15 % before lib/native kept its blocks; the narrow gate
  of channel attention 10 % while its weights were read once a row.
* Optimizer, clipping, loss and the batch's assembly are under 3 % together.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from lib.models.tgraph.inputs import GraphTensors, graph_tensors
from lib.models.tgraph.network import TGraph
from lib.training.loss import pairwise_hinge
from tests.bench.case import SHAPES, Shape, program_graph
from tests.bench.reference import Reference, dense_batch, load_weights

TOTAL = 1000  # configurations of each graph
NOTHING = ("empty", "detach", "_unsafe_view", "profiler")  # operators that compute nothing
CONTESTANTS = ("rival", "rival bf16", "float32", "bfloat16")


def main() -> None:
    """Measure and print, a row a line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.memory_of:
        print(peak_of_step(args.memory_of, SHAPES[args.shapes[0]]))
        return
    device = torch.device(args.device)
    print(f"{processor(device)}, torch {torch.__version__}, medians of {args.repeats}")
    print("| shape | threads | what | rival | rival bf16 | ours float32 | ours bfloat16 |")
    print("|---|--:|---|--:|--:|--:|--:|")
    for shape in (SHAPES[index] for index in args.shapes):
        for threads in args.threads:
            torch.set_num_threads(threads)
            case = Case(shape, device)
            row(shape, threads, "step, s", median_times(case.steps(), args.repeats, device))
            row(shape, threads, "batch, s", median_times(case.batches(), args.repeats, device))
        if device.type == "cpu":
            index = str(SHAPES.index(shape))
            peaks = {name: float(in_own_process(name, index)) for name in CONTESTANTS}
        else:
            peaks = {name: peak_on_card(step) for name, step in case.steps().items()}
        row(shape, 1, "peak memory of a step, MB", peaks)
        row(shape, 1, "operators of a step", {n: operators(s) for n, s in case.steps().items()})


class Case:
    """Both networks with the same weights, and their batches of one graph."""

    def __init__(self, shape: Shape, device: torch.device):
        torch.manual_seed(0)
        self.device = device
        self.graph: GraphTensors = graph_tensors(program_graph(shape, TOTAL))
        self.generator = np.random.default_rng(0)
        self.size = shape.configurations
        rows = self.sample()
        self.ours = TGraph()
        self.ours.inputs.standardize.fit(self.graph.features)
        self.rival = Reference()
        load_weights(self.rival, self.ours.state_dict())
        self.ours.to(device)
        self.rival.to(device)
        self.batch = self.graph.batch(rows).to(device)
        dense = dense_batch(self.graph, rows)
        self.dense = type(dense)(**{k: v.to(device) for k, v in vars(dense).items()})
        self.runtimes = torch.from_numpy(self.generator.permutation(self.size)).to(device)

    def sample(self) -> np.ndarray:
        """Rows of a batch, drawn as training draws them."""
        return np.sort(self.generator.choice(TOTAL, self.size, replace=False))

    def contestants(self) -> dict[str, tuple[nn.Module, Any, torch.dtype]]:
        """Network, its input and its precision, by name."""
        types = (torch.float32, torch.bfloat16)
        rivals = [(self.rival, self.dense, kind) for kind in types]
        ours = [(self.ours, self.batch, kind) for kind in types]
        return dict(zip(CONTESTANTS, rivals + ours, strict=True))

    def steps(self) -> dict[str, Callable[[], None]]:
        """A training step of each contestant."""
        made = {}
        for name, (network, batch, precision) in self.contestants().items():
            optimizer = torch.optim.AdamW(network.parameters(), fused=network is self.ours)
            made[name] = lambda n=network, b=batch, p=precision, o=optimizer: self.step(n, b, p, o)
        return made

    def step(self, network: nn.Module, batch: Any, precision: torch.dtype, optimizer: Any) -> None:
        """Forward, loss, backward, clipping and optimizer."""
        loss = pairwise_hinge(self.scores(network, batch, precision), self.runtimes)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()

    def batches(self) -> dict[str, Callable[[], None]]:
        """Inference of one batch by each contestant."""

        def infer(network, batch, precision):
            with torch.inference_mode():
                self.scores(network, batch, precision)

        return {n: lambda one=one: infer(*one) for n, one in self.contestants().items()}

    def scores(self, network: nn.Module, batch: Any, precision: torch.dtype) -> torch.Tensor:
        """(b,) float32."""
        if network is self.ours:
            network.precision = precision
            return network(batch)
        enabled = precision == torch.bfloat16
        with torch.autocast(self.device.type, torch.bfloat16, enabled=enabled):
            return network(batch).float()


def median_times(
    runs: dict[str, Callable[[], Any]], repeats: int, device: torch.device
) -> dict[str, float]:
    """Seconds of each, measured in turn, after one round that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for repeat in range(repeats + 1):
        for name, run in runs.items():
            started = time.perf_counter()
            run()
            if device.type == "cuda":
                torch.cuda.synchronize()
            if repeat:
                seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in seconds.items()}


def row(shape: Shape, threads: int, what: str, values: dict[str, float], ratios=True) -> None:
    """One line of the table; ratios are the rival's value over a contestant's."""
    cells = []
    for name in CONTESTANTS:
        cell = f"{values[name]:.4g}" if name in values else ""
        if ratios and name != "rival":
            cell += f" ({values['rival'] / values[name]:.1f}x)"
        cells.append(cell)
    print(f"| {shape} | {threads} | {what} | {' | '.join(cells)} |", flush=True)


def operators(step: Callable[[], None]) -> float:
    """Count a step's operators that compute, each of which is a kernel or some on a GPU.

    (``TGRAPH_NATIVE=0`` counts on a CPU what runs on a GPU.)
    """
    step()  # the first one makes the optimizer's moments
    count = 0

    class Counting(TorchDispatchMode):
        """Count all but views, and tensors that nothing is written to."""

        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            nonlocal count
            count += not (op.is_view or any(name in op.name() for name in NOTHING))
            return op(*args, **(kwargs or {}))

    with Counting():
        step()
    return count


def peak_on_card(step: Callable[[], None]) -> float:
    """Megabytes that a step adds at most to what lies on the card: weights, batch, moments."""
    step()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step()
    return (torch.cuda.max_memory_allocated() - before) / 1e6


def peak_of_step(name: str, shape: Shape) -> float:
    """Megabytes that two steps add to the process at most, in this process."""
    torch.set_num_threads(1)
    case = Case(shape, torch.device("cpu"))
    step = case.steps()[name]
    if name.startswith("rival"):
        case.batch = None
    else:
        case.dense = None
        case.ours.runs_native(case.ours.first.weight)  # loads the library
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")  # forget the peak so far
    before = _memory("VmRSS")
    step()
    step()
    return (_memory("VmHWM") - before) / 1024


def _memory(field: str) -> float:
    """Kilobytes that this process holds now (``VmRSS``) or held at most (``VmHWM``)."""
    with open("/proc/self/status") as status:
        return float(next(line.split()[1] for line in status if line.startswith(field)))


def in_own_process(name: str, shape: str) -> str:
    """:func:`peak_of_step` in a fresh process."""
    command = [sys.executable, "-m", "tests.bench.train_step", "--memory-of", name]
    done = subprocess.run([*command, "--shapes", shape], capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[-1]


def processor(device: torch.device) -> str:
    """What the figures were measured on."""
    if device.type == "cuda":
        return torch.cuda.get_device_name()
    with open("/proc/cpuinfo") as lines:
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))


if __name__ == "__main__":
    main()
