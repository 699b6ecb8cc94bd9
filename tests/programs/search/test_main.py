"""What a search hands to the half that has TVM, and what it says in the end."""

from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from lib.files.errors import UserError
from lib.programs.search import __main__ as search
from lib.programs.search.record import TaskSearch
from lib.programs.tensorir.records import table_path
from tests.commands import call
from tests.programs.builders import write_root
from tests.stages import script


def test_a_limit_and_variables_reach_the_half_with_tvm(tmp_path, monkeypatch):
    words = tmp_path / "words"
    text = f'#!/bin/sh\necho "$@" $GLIBC_TUNABLES $TVM_NUM_THREADS >{words}\n'
    tvm = script(tmp_path / "tvm", text)
    flags = ["--network", "net", "--limit", "7", "--tvm", str(tvm), "--threads", "2"]
    args = search.parser().parse_args(flags)
    for own, expected in ((None, "glibc.malloc.hugetlb=1"), ("mine", "mine")):
        if own:
            monkeypatch.setenv("GLIBC_TUNABLES", own)
        command = search.command_of(args, tmp_path, 0)
        with search.started(command, **search.environment_of(args)) as (child, _):
            child.wait()
        said = words.read_text()
        assert " --limit 7.0 " in said and said.endswith(f" {expected} 2\n")


def test_a_half_that_is_gone_before_it_is_answered_is_told(tmp_path):
    tvm = script(tmp_path / "tvm", "#!/bin/sh\nkill -9 $$\n")
    args = search.parser().parse_args(["--network", "net", "--tvm", str(tvm)])
    told = pytest.raises(UserError, match="the process that has TVM was ended by SIGKILL")
    with told, search.started(search.command_of(args, tmp_path, 0)) as (child, answer):
        child.wait()
        answer({"logs": np.zeros(1 << 16)})


def test_what_the_data_have_of_this_processor_is_known(monkeypatch, tmp_path):
    """As networks are deployed on it, with as many threads, and for no narrower instructions."""
    root = write_root(tmp_path / "root")
    path = root / "dataset.json"
    metadata = json.loads(path.read_text())
    metadata["devices"][1] |= {"processor": "mine", "deployed": True}
    path.write_text(json.dumps(metadata))
    monkeypatch.setattr(search, "processor", lambda: "mine")
    latencies = pl.read_parquet(table_path(root, "latencies")).filter(pl.col("device") == 1)

    def known(*flags: str) -> dict[str, np.ndarray]:
        args = search.parser().parse_args(["--network", "net", *flags])
        return search.measured_before(root, args)(f"{3:016x}")

    found = known()
    seconds = dict(latencies.select("program", "seconds").iter_rows())
    expected = sorted((seconds[k], f"{k:016x}") for k in range(30, 40) if k in seconds)
    assert [*zip(found["seconds"], found["hashes"], strict=True)] == expected
    assert found["rounds"].tolist() == [0] * 9
    assert not len(known("--threads", "2")["seconds"]) and not len(
        known("--device", "sse2")["seconds"]
    )


def test_tasks_that_lost_all_their_programs_are_told(monkeypatch, tmp_path):
    def follow(_child, _talk, record, *_):
        record.tasks = [TaskSearch("0b" * 8, 1, "conv2d_sqrt", 1e-3, [float("nan")] * 4)]

    monkeypatch.setattr(search, "follow", follow)
    monkeypatch.setattr(search, "started", lambda *_, **__: nullcontext((None, None)))
    monkeypatch.setattr(search, "only_on", lambda *_: nullcontext([0]))
    chosen = None, SimpleNamespace(results="r")
    monkeypatch.setattr(search, "predictor_settings", lambda *_: chosen)
    flags = ["--network", "net", "--cost-model", "random", "--outputs", tmp_path]
    said = call(search.main, *flags, "--tvm", tmp_path)
    assert said.returncode == 0
    assert said.stderr.startswith("warning: all measured programs of conv2d_sqrt 0b0b0b0b were ")
    assert said.stderr.count("\n") == 1
    call(search.main, *flags, "--tvm", tmp_path, "--batch", 4)
    folders = sorted(path.name for path in (tmp_path / "r" / "search").iterdir())
    assert folders == ["net.b4.native.random", "net.native.random"]
