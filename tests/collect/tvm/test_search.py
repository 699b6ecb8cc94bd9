"""The half of a search that has TVM, and the tuning database that it keeps.

``VENV-collect-programs/bin/python -m pytest tests/collect/tvm`` runs these, once pytest and
hypothesis are installed there.
"""

from __future__ import annotations

import dataclasses
import io
import json
import mmap
import os
import re
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("tvm", reason="needs TVM, see lib/collect/tvm/requirements.txt")


from lib.collect.tvm import compiler, deployment, running, timing
from lib.collect.tvm import search as half
from lib.collect.tvm.agreement import same
from lib.collect.tvm.cache import Cache
from lib.collect.tvm.compiler import Sampler
from lib.collect.tvm.database import RECORDS, TuningDatabase
from lib.collect.tvm.graph import graph_of
from lib.collect.tvm.importing import imported
from lib.collect.tvm.library import LIBRARY
from lib.collect.tvm.networks import named
from lib.collect.tvm.plan import seed_of
from lib.files.errors import DataError, UserError
from lib.programs.messages import OURS, receive, send

MINE = """
import torch

def network(batch=2):
    inner = torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 32)
    return torch.nn.Sequential(*inner), (torch.randn(batch, 64),)
"""


NOTHING = {name: np.zeros(0) for name in ("rounds", "hashes", "seconds")}


@pytest.fixture(scope="module")
def mine(tmp_path_factory) -> str:
    """A network of one's own, by the name that it is asked for."""
    path = tmp_path_factory.mktemp("mine") / "mine.py"
    path.write_text(MINE)
    return f"{path}:network"


@pytest.fixture(scope="module")
def task(mine):
    return graph_of(imported(named(mine, None))).tasks[0]


def test_measurements_are_kept_in_their_order(task, tmp_path):
    database = TuningDatabase(tmp_path, "avx2")
    assert database.measured(task) == []
    for schedule, seconds in zip(Sampler(task, 1).draw(3), (3.0, 1.0, np.nan), strict=True):
        database.add(task, schedule, seconds)
    np.testing.assert_array_equal(database.measured(task), [3.0, 1.0, np.nan])
    assert [seconds for _, seconds in database.programs(task)] == [1.0, 3.0]
    noted = [json.loads(line)[1][1] for line in (tmp_path / RECORDS).read_text().splitlines()]
    assert noted == [[3.0], [1.0], None]  # no time in place of that of a program that has none
    again = TuningDatabase(tmp_path, "avx2")
    np.testing.assert_array_equal(again.measured(task), [3.0, 1.0, np.nan])
    assert [seconds for _, seconds in again.programs(task)] == [1.0, 3.0]


def test_records_that_link_code_are_refused(task, tmp_path):
    """As ``pragma_import_llvm`` does, whose constructors run in the process that compiles it."""
    theirs = TuningDatabase(tmp_path / "theirs", "avx2")
    good, bad = Sampler(task, 1).draw(2)
    theirs.add(task, good, 1.0)
    bad.annotate(bad.get_sblock(named_block(bad.mod)), "pragma_import_llvm", "code")
    theirs.add(task, bad, 0.5)
    with pytest.raises(DataError, match="pragma_import_llvm, expected what MetaSchedule"):
        TuningDatabase(tmp_path / "theirs", "avx2")


def named_block(module) -> str:
    """The name of a block of a program."""
    return re.search(r'sblock\("(\w+)"\)', module.script())[1]


def run(
    monkeypatch, mine: str, folder: Path, budget: int, known=None, device: str = "avx2"
) -> list[tuple[dict, dict]]:
    """A search; what it says. It is answered that all programs are equally fast.

    Args:
        known: what is bundled of a task; nothing by default.
    """
    heard = []
    writing = io.BytesIO()

    def tell(self, kind, about, arrays):
        send(writing, {"kind": kind, "task": self.task, **about}, arrays)
        writing.seek(0)
        heard.append(receive(writing))
        writing.seek(0)
        writing.truncate()
        if kind == "known":
            return (known or {}).get(self.task, NOTHING)
        return {"logs": np.zeros(len(arrays.get("joined", ())))}

    monkeypatch.setattr(half.Talk, "tell", tell)
    words = [str(folder), mine, "--budget", str(budget), "--device", device]
    words += ["--schedules", str(folder.parent / "schedules")]
    monkeypatch.setattr(sys, "argv", ["search", *words])
    monkeypatch.setattr(half, "standard", lambda: half.Talk(None, None))
    half.main()
    return heard


def test_programs_run_on_the_networks_numbers_and_what_computes_otherwise_is_discarded(
    monkeypatch, mine, tmp_path
):
    given = []

    def timed(batch):
        given.append(batch)
        checks = np.ones((len(batch.modules), 2))
        checks[1:2] = 2  # of the second program
        return np.full(len(checks), 1e-3), checks

    monkeypatch.setattr(half, "time_programs", timed)
    monkeypatch.setattr(half, "whole", lambda *_: {})
    heard = run(monkeypatch, mine, tmp_path / "first", 8)
    found = imported(named(mine, None))
    graph = graph_of(found)
    hashes = [compiler.hash_of(task) for task in graph.tasks]
    for batch in given:
        number = hashes.index(batch.task)
        wanted = found.arguments(f for f, k in graph.functions.items() if k == number)
        np.testing.assert_array_equal(batch.values[0], wanted[0])
        assert batch.footprint == found.footprint and batch.limit in (0, half.LIMIT_SECONDS)
    assert found.footprint == 4 * (64 * 128 + 128 + 128 * 32 + 32)
    assert sum(batch.limit > 0 for batch in given) == 2  # a round a task, each with a limit
    # Of products, the program without a schedule only says what is right.
    assert [(len(one.modules), one.once) for one in given if not one.limit] == [(1, True)] * 2
    rounds = [arrays["seconds"] for about, arrays in heard if about["kind"] == "round"]
    assert [np.isnan(one).tolist() for one in rounds] == [[False, True, *[False] * 6]] * 2


def test_a_first_run_counts_if_there_are_no_readings(task):
    batch = running.Batch(compiler.hash_of(task), [task], "sse2", once=True)
    assert batch.visit()
    seconds, checks = batch.best()
    assert seconds[0] > 0 and np.isfinite(checks).all()
    assert np.isnan(batch.readings.seconds[:, 1:]).all()


def test_what_has_no_schedule_is_deployed_if_none_is_faster(monkeypatch, mine, tmp_path):
    def timed(batch):
        seconds = [1e-3] * len(batch.modules) if batch.limit else [1e-4, 2e-4]
        return np.array(seconds), np.ones((len(seconds), 2))

    monkeypatch.setattr(half, "time_programs", timed)
    monkeypatch.setattr(half, "whole", lambda *_: {})
    run(monkeypatch, mine, tmp_path, 8)
    database = TuningDatabase(tmp_path, "avx2")
    for task in graph_of(imported(named(mine, None))).tasks:
        (schedule, seconds), *others = database.programs(task)
        assert seconds == 1e-4 and len(others) == 8
        assert [step.kind.name for step in schedule.trace.insts] == ["GetSBlock"]


def test_a_search_measures_its_budget_and_goes_on(monkeypatch, mine, tmp_path):
    first = run(monkeypatch, mine, tmp_path / "first", 8)
    kinds = [about["kind"] for about, _ in first]
    assert kinds[0] == "plan" and kinds[-1] == "whole" and kinds.count("begin") == 2
    for kind, count in (("begin", 0), ("round", 8)):
        for about, arrays in first:
            if about["kind"] == kind:
                assert len(arrays["seconds"]) == count
    again = run(monkeypatch, mine, tmp_path / "first", 16)
    begins = {a["task"]: x["seconds"] for a, x in again if a["kind"] == "begin"}
    rounds = {a["task"]: x["seconds"] for a, x in again if a["kind"] == "round"}
    before = {a["task"]: x["seconds"] for a, x in first if a["kind"] == "round"}
    for name in begins:
        np.testing.assert_array_equal(begins[name], before[name])
        assert len(rounds[name]) == 8
    whole = first[-1][0]
    assert whole["seconds"].keys() >= {OURS, "PyTorch"} and min(whole["seconds"].values()) > 0
    assert whole["difference"] < 1e-5 and (tmp_path / "first" / LIBRARY).exists()


WIDER = """
import torch

def network(batch=2):
    inner = torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 48)
    return torch.nn.Sequential(*inner), (torch.randn(batch, 64),)
"""


@pytest.fixture
def timed(monkeypatch) -> list:
    """Batches that would have been timed: every program is a microsecond slower than the last.

    Those without a schedule take a second longer.
    """
    batches = []

    def time_programs(batch):
        batches.append(batch)
        slower = 1e-6 * (1 + sum(len(one.modules) for one in batches))
        count = len(batch.modules)
        first = slower + (1e-3 if batch.limit else 1)
        return first + 1e-6 * np.arange(count), np.ones((count, 2))

    monkeypatch.setattr(half, "time_programs", time_programs)
    monkeypatch.setattr(half, "whole", lambda *_: {})
    return batches


def seconds_of(heard: list[tuple[dict, dict]], kind: str) -> dict[str, list[float]]:
    return {a["task"]: x["seconds"].tolist() for a, x in heard if a["kind"] == kind}


def test_what_another_network_has_measured_is_not_measured_again(
    monkeypatch, mine, timed, tmp_path
):
    """Unless it is for another device; a larger budget measures what is missing."""
    first = seconds_of(run(monkeypatch, mine, tmp_path / "first", 8), "round")
    (tmp_path / "wider.py").write_text(WIDER)
    wider = f"{tmp_path / 'wider.py'}:network"
    timed.clear()
    heard = run(monkeypatch, wider, tmp_path / "second", 8)
    begun, measured = (seconds_of(heard, kind) for kind in ("begin", "round"))
    (shared,) = first.keys() & begun.keys()
    assert begun[shared] == pytest.approx(sorted(first[shared]))
    assert len(begun) == 2 and begun.keys() - {shared} == measured.keys()
    assert shared not in {batch.task for batch in timed}
    assert (
        seconds_of(run(monkeypatch, wider, tmp_path / "third", 0), "begin").keys() == begun.keys()
    )
    again = run(monkeypatch, wider, tmp_path / "third", 12)
    assert {len(seconds) for seconds in seconds_of(again, "round").values()} == {4}
    timed.clear()
    run(monkeypatch, wider, tmp_path / "narrow", 1, device="sse2")
    assert {batch.task for batch in timed} == begun.keys()


def test_a_record_that_is_damaged_costs_itself_alone(monkeypatch, mine, task, timed, tmp_path):
    run(monkeypatch, mine, tmp_path / "first", 4)
    (path,) = (tmp_path / "schedules").glob(f"*/{compiler.hash_of(task)}/*.jsonl")
    lines = path.read_text().splitlines()
    linking = lines[2].replace("meta_schedule.parallel", "pragma_import_llvm")
    path.write_text(
        "\n".join([lines[0][:-9], lines[1], linking, "[[[[]]], [1.0], 3, 4]", lines[3]])
    )
    heard = run(monkeypatch, mine, tmp_path / "second", 2)
    assert len(seconds_of(heard, "begin")[compiler.hash_of(task)]) == 2
    damaged = [about["folder"] for about, _ in heard if about["kind"] == "damaged"]
    assert damaged == [str(path.parent)]


def test_two_that_search_at_once_both_add_what_they_have_measured(tmp_path):
    one, two = (Cache(tmp_path, "avx2", 1) for _ in range(2))
    one.add("a", ["[1]", "[2]"])
    two.add("a", ["[2]", "[3]"])
    two.add("a", ["[2]", "[3]"])
    two.add("a", [])
    assert sorted(one.records("a")) == ["[1]", "[2]", "[3]"]
    assert not Cache(tmp_path, "avx2", 2).records("a") and not one.records("b")


def test_what_is_bundled_of_a_task_is_drawn_again(monkeypatch, mine, task, timed, tmp_path):
    name = compiler.hash_of(task)
    programs = {k: Sampler(task, seed_of("main", k, name)).distinct(2, set()) for k in (0, 3)}
    later, first = (compiler.hash_of(one.mod) for one in (programs[3][1], programs[0][0]))
    rows = [(3, "f" * 16, 1.0), (3, later, 2.0), (0, first, 3.0)]
    rounds, hashes, seconds = map(np.array, zip(*rows, strict=True))
    known = {"rounds": rounds, "hashes": hashes, "seconds": seconds}
    heard = run(monkeypatch, mine, tmp_path / "first", 0, {name: known})
    assert seconds_of(heard, "begin")[name] == [2.0]
    measured = seconds_of(heard, "round")  # what is predicted to be fastest, of either task
    assert [len(seconds) for seconds in measured.values()] == [1, 1]
    (_, seconds), (schedule, bundled) = TuningDatabase(tmp_path / "first", "avx2").programs(task)
    assert (seconds, bundled) == (measured[name][0], 2.0)
    one, two = (str(one).replace("True", "1") for one in (schedule.mod, programs[3][1].mod))
    assert one == two  # apart from what a record has True for
    right = timed[0].modules  # so it says what is right
    assert [compiler.hash_of(module) for module in right] == [later]


def test_a_network_that_its_schedules_change_is_refused(mine, tmp_path):
    found = imported(named(mine, None))
    search = SimpleNamespace(
        args=SimpleNamespace(device="sse2", folder=tmp_path, threads=2),
        database=TuningDatabase(tmp_path, "sse2"),
    )
    assert half.whole(found, search)["seconds"][OURS] > 0
    other = dataclasses.replace(found, expected=(found.expected[0] + 1,))
    with pytest.raises(UserError, match="under the fastest schedules, its results are wro"):
        half.whole(other, search)


LEFT = np.frombuffer(mmap.mmap(-1, 8), np.float64)  # seconds, as a child has seen them
AT = {"running": 1, "reading": 2}  # which turn of a program is the bad one


def out_of_time() -> None:
    """Do nothing until the limit, which is told to be near."""
    LEFT[0] = signal.getitimer(signal.ITIMER_REAL)[0]
    signal.setitimer(signal.ITIMER_REAL, 1e-3)
    time.sleep(600)


@pytest.mark.parametrize("at", ["compiling", "running", "reading"])
@pytest.mark.parametrize("fault", [out_of_time, lambda: os.kill(os.getpid(), signal.SIGSEGV)])
def test_a_program_that_never_ends_or_kills_its_process_costs_itself_alone(
    monkeypatch, task, at, fault
):
    modules = [one.mod for one in Sampler(task, 1).draw(3)]
    faulty = compiler.hash_of(deployment.packed(modules[1]).program)
    lowered, ran = compiler.lowered, timing.Stopwatch.first

    def compiling(given):
        if at == "compiling" and compiler.hash_of(given[0]) == faulty:
            fault()
        return lowered(given)

    def first(self):
        begin, turns = self.begin, []

        def noticed(k: int) -> None:
            begin(k)
            turns.append(k)
            if len(self.runs) == 3 and k == 1 and turns.count(1) == AT.get(at):
                fault()

        self.begin = noticed
        ran(self)

    monkeypatch.setattr(compiler, "lowered", compiling)
    monkeypatch.setattr(timing.Stopwatch, "first", first)
    LEFT[0] = 0
    seconds, checks = running.time_programs(running.Batch("0", modules, "sse2", limit=60))
    assert np.isfinite(seconds).tolist() == [True, False, True]
    assert same(checks, checks[0]).tolist() == [True, False, True]
    assert fault is not out_of_time or 0 < LEFT[0] <= 60
