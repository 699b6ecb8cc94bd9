"""Schedules, features and timing with TVM itself; skipped where it is not installed.

``VENV-collect-programs/bin/python -m pytest tests/collect/tvm`` runs them, once pytest and
hypothesis are installed there.
"""

from __future__ import annotations

import argparse
import io

import numpy as np
import pytest

pytest.importorskip("tvm", reason="needs TVM, see lib/collect/tvm/requirements.txt")

import torch
import tvm
from torch import nn
from tvm import s_tir, te, tirx

from lib.collect.tvm import compiler, measure, raw, timing
from lib.collect.tvm.extract import extract
from lib.collect.tvm.features import Walked, disagreement, features
from lib.collect.tvm.graph import graph_of
from lib.collect.tvm.importing import imported
from lib.collect.tvm.networks import Network
from lib.collect.tvm.plain import unscheduled
from lib.collect.tvm.plan import bundled, eligible, tasks_of
from lib.collect.tvm.search import jobs_of
from lib.files.artifacts import read_json, write_json
from lib.programs.tensorir.accesses import COLUMNS, columns
from lib.programs.tensorir.features import FEATURES
from lib.programs.tensorir.tree import PARALLEL, UNROLLED, VECTORIZED, loop_nests, positions
from tests.collect.tvm.test_importing import Does


def product(size: int, name: str = "c"):
    """A product of two square matrices as a module."""
    a, b = te.placeholder((size, size), name="a"), te.placeholder((size, size), name="b")
    k = te.reduce_axis((0, size), name="k")
    total = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name=name)
    return s_tir.Schedule(te.create_prim_func([a, b, total])).mod


@pytest.fixture(scope="module")
def scheduled():
    """TVM's own example for its features: tiled, parallel, unrolled and vectorized."""
    schedule = s_tir.Schedule(product(512))
    i, j, k = schedule.get_loops(schedule.get_sblock("c"))
    (i_out, i_in), (j_out, j_in) = schedule.split(i, [None, 16]), schedule.split(j, [None, 8])
    schedule.reorder(i_out, j_out, k, j_in, i_in)
    schedule.vectorize(j_in)
    schedule.parallel(i_out)
    schedule.parallel(j_out)
    schedule.unroll(k)
    return schedule.mod


# Some of what TVM's tests publish for that example, of each group of features.
PUBLISHED = {
    "float_add_sub": 27,
    "int_mul": 29,
    "vectorized_prod": 3.169924,
    "unrolled_len": 9.002815,
    "parallel_len": 6.022368,
    "buffer0_unique_bytes": 20,
    "buffer0_reuse_iterations": 4.087463,
    "buffer0_reuse_bytes": 7.0552826,
    "buffer0_stride": 9.002815,
    "buffer1_lines_per_reuse": 18.0000057,
    "buffer2_unique_lines_per_reuse": 10.001408,
    "intensity9": 6.431846,
    "alloc_inner": 27,
    "loops_product": 27,
    "loops": 2.5849626,
}


def test_features_are_those_that_tvm_publishes(scheduled):
    (table,) = features([s_tir.Schedule(scheduled)])
    found = dict(zip(FEATURES, table[0].tolist(), strict=True))
    for name, value in PUBLISHED.items():
        assert found[name] == pytest.approx(value, rel=1e-5, abs=1e-5), name


def test_a_tree_is_the_loops_around_the_stores(scheduled):
    tree = Walked(scheduled).tree
    (table,) = features([s_tir.Schedule(scheduled)])
    assert disagreement(tree, table) is None
    # The initial store lies in the loops of the product: two leaves, one of them with features.
    (nest,) = loop_nests(tree)
    assert tree.extent[nest].tolist() == [32, 64, 512, 8, 16]
    assert tree.kind[nest].tolist() == [PARALLEL, PARALLEL, UNROLLED, VECTORIZED, 0]
    assert positions(tree).tolist() == [7]


def test_a_statement_is_how_its_loops_move_its_buffers(scheduled):
    """c[i, j] += a[i, k] * b[k, j] under loops of 32 i, 64 j, 512 k, 8 j and 16 i."""
    found = Walked(scheduled).statement(0)
    assert found.extent.tolist() == [32, 64, 512, 8, 16]
    assert found.reduces.tolist() == [False, False, True, False, False]
    written, a, b = found.accesses
    assert written.span.tolist() == [[496, 0, 0, 0, 15], [0, 504, 0, 7, 0]]
    assert a.span.tolist() == [[496, 0, 0, 0, 15], [0, 0, 511, 0, 0]]
    assert b.span.tolist() == [[0, 0, 511, 0, 0], [0, 504, 0, 7, 0]]
    assert {(tuple(one.shape), one.bytes, one.inside) for one in found.accesses} == {
        ((512, 512), 4, -1)
    }
    assert found.domains[:2].tolist() == [512, 512] and found.domains[5] == 512
    assert (found.needed, found.conditions) == (512.0**3, 0)


def test_a_buffer_is_kept_inside_the_loops_around_all_that_uses_it():
    """An intermediate that is computed row by row; a condition of a padded load."""
    a = te.placeholder((16, 16), name="a")
    padded = te.compute(
        (18, 16), lambda i, j: tirx.if_then_else(tirx.all(i >= 1, i < 17), a[i - 1, j], 0.0), "p"
    )
    result = te.compute((16, 16), lambda i, j: padded[i, j] + padded[i + 2, j], "r")
    schedule = s_tir.Schedule(te.create_prim_func([a, result]))
    schedule.compute_at(schedule.get_sblock("p"), schedule.get_loops(schedule.get_sblock("r"))[0])
    walked = Walked(schedule.mod)
    pad, add = (walked.statement(row) for row in (0, 1))
    assert [one.inside for one in pad.accesses] == [1, -1]
    assert [one.inside for one in add.accesses] == [-1, 1]
    assert pad.conditions == 1 and add.conditions == 0
    assert pad.conditional.tolist() == [True, True, False]  # row, three rows around it, column
    assert pad.extent.tolist() == [16, 3, 16] and pad.needed == 18 * 16
    names = ("repeated", "output_bytes")
    found = columns([pad])[0][[COLUMNS.index(one) for one in names]]
    np.testing.assert_allclose(found, np.log2([768 / 288, 3 * 16 * 4]), rtol=1e-3)


def test_schedules_are_the_same_for_a_seed_and_are_rebuilt_from_their_traces():
    task = product(64)
    one, two = (compiler.Sampler(task, 5).distinct(6, set()) for _ in range(2))
    hashes = [compiler.hash_of(schedule.mod) for schedule in one]
    assert [compiler.hash_of(schedule.mod) for schedule in two] == hashes
    assert len(set(hashes)) == 6
    for schedule, name in zip(one, hashes, strict=True):
        again = compiler.rebuilt(task, compiler.decisions_of(schedule))
        assert compiler.hash_of(again.mod) == name
    seen = {*hashes}
    more = compiler.Sampler(task, 5).distinct(6, seen)
    assert not {compiler.hash_of(schedule.mod) for schedule in more} & {*hashes} and len(seen) == 12


class Largest(nn.Module):
    """The largest of a column."""

    def forward(self, table):
        return table.amax(1)


class Mean(nn.Module):
    """The mean of a column."""

    def forward(self, table):
        return table.mean(1)


class Joined(nn.Module):
    """Several tensors as lines of one."""

    def forward(self, *lines):
        return torch.cat(lines, -2)


class Across(nn.Module):
    """Several tensors as columns of one, which becomes lines."""

    def forward(self, *columns):
        return torch.cat(columns, -1).mT


class Turned(nn.Module):
    """A number times a tensor with two of its axes exchanged."""

    def __init__(self, *axes: int):
        super().__init__()
        self.axes, self.number = axes, nn.Parameter(torch.tensor(2.0))

    def forward(self, tensor):
        return tensor.transpose(*self.axes) * self.number


def test_what_nobody_searches_has_schedules_by_lines_rows_columns_and_blocks():
    networks = {
        "softmax": (nn.Softmax(-1), torch.randn(3, 5, 48)),
        "norm": (nn.LayerNorm(32), torch.randn(3, 5, 32)),
        "one vector": (nn.Softmax(-1), torch.randn(3, 5, 16)),
        "part of a vector": (nn.Softmax(-1), torch.randn(3, 5, 40)),
        "product": (nn.Linear(32, 32), torch.randn(3, 32)),
        "columns": (Largest(), torch.randn(3, 5, 48)),
        "one of each column": (Mean(), torch.randn(3, 1, 48)),
        "few columns": (Largest(), torch.randn(3, 5, 7)),
        "last axis before": (Turned(1, 2), torch.randn(3, 17, 21)),
        "last of few": (Turned(0, 2), torch.randn(5, 1, 37)),
        "last stays": (Turned(0, 1), torch.randn(3, 17, 21)),
        "across lines": (Across(), torch.randn(3, 30, 16), torch.randn(3, 30, 8)),
        "lines": (Joined(), torch.randn(2, 48), torch.randn(1, 48)),
        "many lines": (Joined(), torch.randn(90, 48), torch.randn(90, 48)),
        "many short lines": (Joined(), torch.randn(90, 4), torch.randn(90, 4)),
        "some of each": (Joined(), torch.randn(90, 2, 32), torch.randn(90, 1, 32)),
    }
    found = {}
    for name, (module, *inputs) in networks.items():
        network = imported(Network(name, lambda m=module, i=inputs: (m, tuple(i))))
        ((task, _, _, (*values, result)),) = jobs_of(network, graph_of(network))
        alone, shared = unscheduled(task), unscheduled(task, threads=2)
        plain, _, *rows = alone
        found[name] = bool(rows)
        texts = [schedule.mod.script() for schedule in shared]
        assert texts[: len(alone)] == [schedule.mod.script() for schedule in alone]
        assert name != "across lines" or not any("T.unroll" in text for text in texts)
        parallel = ["T.parallel" in text for text in texts]
        assert not any(parallel[: len(alone)]) and all(parallel[len(alone) :])
        for schedule in (*rows, *shared[len(alone) :]):
            results = []
            for module in (plain.mod, schedule.mod):
                arguments = [*map(tvm.runtime.tensor, (*values, np.zeros_like(result)))]
                tvm.compile(module, compiler.target_of("sse2"))["main"](*arguments)
                results.append(arguments[-1].numpy())
            assert np.allclose(*results, atol=1e-6) and results[0].any()
            rebuilt = compiler.rebuilt(task, compiler.decisions_of(schedule))
            assert compiler.hash_of(rebuilt.mod) == compiler.hash_of(schedule.mod)
    assert [name for name in found if found[name]] == [
        "softmax",
        "norm",
        "columns",
        "last axis before",
        "last of few",
        "across lines",
        "lines",
        "many lines",
        "some of each",
    ]
    assert not compiler.differ(compiler.Sampler(task, 0).draw(4))  # of the lines


def test_arguments_are_the_same_everywhere_and_packed():
    kinds = [{"shape": [3, 5], "dtype": "float32"}, {"shape": [7], "dtype": "int64"}]
    first, second = (timing.tensors_of("12ab", kinds) for _ in range(2))
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(np.from_dlpack(one), np.from_dlpack(two))
    starts = [np.from_dlpack(tensor).ctypes.data for tensor in first]
    assert starts[0] % timing.HUGE_PAGE == 0 and starts[1] - starts[0] == timing.ALIGNMENT
    numbers = np.from_dlpack(first[0])
    assert numbers.std() > 0 and numbers.min() >= 0.1  # of which roots and logarithms are numbers
    assert not np.from_dlpack(first[1]).any()


def benched(work) -> measure.Bench:
    return measure.Bench(argparse.Namespace(work=work, device="avx2", programs=3))


def done(bench: measure.Bench, phase: str, turn: int, task: str) -> raw.Measured:
    """What a job leaves."""
    pending = [bench.prepare(phase, turn, task)]
    while pending:
        pending = bench.visit(pending)
    return raw.read(raw.path(bench.work, phase, turn, task))


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A work folder with the tasks of a small network, and a job of each kind done."""
    work = tmp_path_factory.mktemp("programs")
    layers = nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()
    network = nn.Sequential(*layers), (torch.randn(4, 256),)
    extract(Network("mine.py:network", lambda: network), work)
    (task,) = (t for t, a in tasks_of(work).items() if eligible(a))
    bench = benched(work)
    for job in (("main", 0), ("main", 1), ("again", 0)):
        done(bench, *job, task)
    return work, task


@pytest.mark.parametrize(("read", "packed"), [(58, False), (64, True)])
def test_weights_of_which_a_part_is_read_are_not_packed(read, packed):
    def part(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return layer(x)[:, :read].relu()  # TVM would write the others over the first

    built = Does(part, nn.Linear(64, 64)), (torch.randn(30, 64),)
    (task,) = graph_of(imported(Network("part", lambda: built))).tasks
    assert compiler.packable(task) == packed


def test_bundled_tasks_are_those_that_were_measured():
    """Their modules have the hashes that data/programs-cpu knows them by."""
    networks, tasks = bundled()
    assert len(networks) == 308 and {r["task"] for n in networks.values() for r in n["tasks"]} == {
        *tasks
    }
    for name in sorted(tasks)[::200]:
        module = tvm.ir.load_json(tasks[name]["module"])
        assert compiler.hash_of(module) == name
        shapes = [[int(x) for x in p.shape] for p in module["main"].params]
        assert shapes == [argument["shape"] for argument in tasks[name]["arguments"]]


def test_jobs_leave_complete_files(work):
    root, task = work
    one, two = (raw.read(raw.path(root, "main", turn, task)) for turn in range(2))
    assert one.metadata["devices"] == [["avx2", "core-avx2"]]
    assert len(set(one.hash) | set(two.hash)) == 6
    assert one.arrays["joined"].all()
    check = one.arrays["check"]
    np.testing.assert_allclose(check, np.broadcast_to(check[0, 0], check.shape), rtol=1e-4)
    again = raw.read(raw.path(root, "again", 0, task))
    assert again.hash.tolist() == one.hash.tolist()


def test_some_of_a_later_round_descend_from_the_fastest_before(work):
    """Those differ from their parents in few decisions; programs drawn at random in nearly all."""
    module, _ = measure.load(*work)
    drawn = compiler.Sampler(module, 1).distinct(6, set())
    parents = [(one, 1.0 + k) for k, one in enumerate(drawn)]
    seen = {compiler.hash_of(one.mod) for one in drawn}
    bred = compiler.Sampler(module, 2).bred(parents, 6, seen)
    assert len(bred) == 6 > compiler.PARENTS and len(seen) == 12
    fastest = [decisions(schedule) for schedule, _ in parents[: compiler.PARENTS]]
    for one in bred:
        rebuilt = compiler.rebuilt(module, compiler.decisions_of(one))
        assert compiler.hash_of(rebuilt.mod) == compiler.hash_of(one.mod)
        own = decisions(rebuilt)
        changed = [sum(own[k] != x.get(k) for k in own) for x in fastest]
        assert 1 <= min(changed) <= compiler.BRED


def decisions(schedule: s_tir.Schedule) -> dict[str, str]:
    """What a schedule leaves to chance, step by step, and how much of it is parallel."""
    steps, drawn = schedule.trace.as_json(False)
    noted = [(str(about), inputs) for name, inputs, about, _ in steps if str(name) == "Annotate"]
    parallel = [inputs[1] for about, inputs in noted if "meta_schedule.parallel" in about]
    found = {str(step): str(decision) for step, decision in drawn}
    return found | {f"parallel {k}": str(extent) for k, extent in enumerate(parallel)}


def test_a_job_that_cannot_be_done_says_so_and_the_next_goes_on(work, monkeypatch):
    root, task = work
    broken = {**read_json(root / "tasks" / f"{task}.json"), "module": "{}"}
    write_json(root / "tasks" / "00000000000000ff.json", broken)
    jobs = io.StringIO(f"main 0 00000000000000ff\nmain 2 {task}\n")
    monkeypatch.setattr("sys.stdin", jobs)
    flags = ["--device", "sse2", "--programs", "1"]
    monkeypatch.setattr("sys.argv", ["measure", str(root), *flags])
    measure.main()
    assert raw.failed(root, "main", 0, "00000000000000ff").exists()
    assert raw.path(root, "main", 2, task).exists()
