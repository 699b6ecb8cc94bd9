"""Stage 1 on files that cannot be believed: one line, exit 2, and the cache of before stays."""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import struct
import sys
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lib.runs.asked import parser_of

from lib.cache.reader import Cache
from lib.files.errors import one_line_errors
from lib.settings import resolve
from lib.tpugraphs.dataset import write_dataset
from lib.tpugraphs.npz import write_layout
from tests.builders import COLLECTION
from tests.stages import REPOSITORY
from tests.synthetic import OWN, layout_graph
from tests.tpugraphs.builders import chain, header, layout_run, members, npy, rezip, tuning
from tests.tpugraphs.test_mutations import arrays, cuts, flips, headers, mutate, names

STAGE = runpy.run_path(str(REPOSITORY / "01_preprocess.py"), run_name="stage_1")
TRAIN = Path("npz/layout/xla/default/train")
SECONDS = 10  # of CPU; a good file takes a hundredth of one
few = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@dataclass
class Stage:
    """A data root with a good graph and a victim, and a way to run stage 1 on it."""

    folder: Path

    @property
    def victim(self) -> Path:
        return self.folder / "data" / TRAIN / "victim.npz"

    @property
    def cache(self) -> Path:
        return self.folder / "outputs" / COLLECTION / "cache"

    def __call__(self, *flags: str) -> tuple[int, str, str]:
        """Run ``main`` as the script does; returns its exit code, stdout and stderr."""
        line = ["01_preprocess.py", "--collection", COLLECTION, "--jobs", "1", *flags]
        line += ["--data", str(self.folder / "data"), "--outputs", str(self.folder / "outputs")]
        out, err, code = io.StringIO(), io.StringIO(), 0
        with (
            mock.patch.object(sys, "argv", line),
            mock.patch.dict("os.environ", WANDB_MODE="disabled"),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                with one_line_errors(), STAGE["Stage"]() as stage:
                    args = parser_of("preprocess", "").parse_args()
                    STAGE["main"](stage, args, resolve(args))
            except SystemExit as exit:
                code = exit.code
        return code, out.getvalue(), err.getvalue()

    def files(self) -> dict[str, bytes]:
        """Everything in the outputs, by its path."""
        found = (self.folder / "outputs").rglob("*")
        return {str(path): path.read_bytes() for path in found if path.is_file()}


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> dict[str, bytes]:
    """The victim as it was, whole and by its members."""
    path = tmp_path_factory.mktemp("good") / "victim.npz"
    write_layout(path, layout_graph("victim", 2, nodes=12, configurable=3, configurations=8))
    return {"whole": path.read_bytes(), **members(path)}


@pytest.fixture(scope="module")
def stage(tmp_path_factory, good) -> Stage:
    made = Stage(tmp_path_factory.mktemp("hostile"))
    (made.folder / "data").mkdir()
    write_dataset(made.folder / "data", OWN)
    write_layout(made.folder / "data" / TRAIN / "good.npz", layout_graph("good", 1))
    made.victim.write_bytes(good["whole"])
    assert made()[0] == 0
    return made


def check(stage: Stage) -> None:
    """Stage 1 on the victim as it is: success, or one line and nothing changed."""
    before, started = stage.files(), time.process_time()
    code, out, err = stage()
    if code == 0:
        assert err == ""
        graph = Cache(stage.cache).graph("victim")
        assert len(graph.original) == len(graph.cells[graph.original])
    else:
        assert code == 2
        assert err.startswith(f"error: {stage.victim}: "), err
        assert err.count("\n") == 1
        assert ": found " in err
        assert ", expected " in err
        assert out == ""
        assert stage.files() == before
    assert not list(stage.folder.glob("outputs/*/.partial*"))
    assert time.process_time() - started < SECONDS


@few
@given(changes=flips, cut=cuts)
def test_flipped_and_cut_bytes(stage, good, changes, cut):
    stage.victim.write_bytes(mutate(good["whole"], changes, cut))
    check(stage)


@few
@given(changes=flips, back=st.integers(1, 700))
def test_flips_in_the_directory(stage, good, changes, back):
    data = good["whole"]
    stage.victim.write_bytes(data[:-back] + mutate(data[-back:], changes, None))
    check(stage)


@few
@given(draw=st.data())
def test_members_of_another_kind(stage, good, draw):
    parts = {key: data for key, data in good.items() if key != "whole"}
    key = draw.draw(st.sampled_from(sorted(parts)))
    action = draw.draw(st.sampled_from(["bytes", "header", "array", "rename", "swap", "drop"]))
    if action == "bytes":
        parts[key] = mutate(parts[key], draw.draw(flips), draw.draw(cuts))
    elif action == "header":
        parts[key] = mutate(parts[key][:128], draw.draw(flips), None) + parts[key][128:]
    elif action == "array":
        parts[key] = draw.draw(arrays | headers)
    elif action == "rename":
        parts[draw.draw(names)] = parts.pop(key)
    elif action == "swap":
        other = draw.draw(st.sampled_from(sorted(parts)))
        parts[key], parts[other] = parts[other], parts[key]
    else:
        del parts[key]
    rezip(stage.victim, parts, draw.draw(st.sampled_from([0, 8])))
    check(stage)


VALUES = [np.nan, np.inf, -1e300, -2, -1, 0, 0.5, 5, 6, 12, 121, 2**31, 2**62, 2**63 - 1]


@few
@given(draw=st.data())
def test_a_value_or_a_shape_that_cannot_be(stage, good, draw):
    parts = {key: data for key, data in good.items() if key != "whole"}
    key = draw.draw(st.sampled_from(sorted(parts)))
    array = np.lib.format.read_array(io.BytesIO(parts[key])).copy()
    with np.errstate(all="ignore"):
        value = np.array(draw.draw(st.sampled_from(VALUES))).astype(array.dtype)
    array.reshape(-1)[draw.draw(st.integers(0, array.size - 1))] = value
    action = draw.draw(st.sampled_from(["as it is", "shorter", "longer", "turned", "flat", "F"]))
    if action == "shorter":
        array = array[: draw.draw(st.integers(0, len(array) - 1))]
    elif action == "longer":
        array = np.concatenate([array, array])
    elif action in ("turned", "F"):
        array = array.T if action == "turned" else np.asfortranarray(array)
    elif action == "flat":
        array = array.reshape(-1)
    rezip(stage.victim, parts | {key: npy(array)})
    check(stage)


@few
@given(draw=st.data())
def test_tricks_with_the_directory(stage, good, draw):
    """Fields of a member's entry in the directory, and of its local header, set to anything."""
    data = bytearray(good["whole"])
    entries = [at for at in range(len(data)) if data[at : at + 4] in (b"PK\1\2", b"PK\3\4")]
    for _ in range(draw.draw(st.integers(1, 3))):
        at = draw.draw(st.sampled_from(entries))
        width, letter = draw.draw(st.sampled_from([(2, "H"), (4, "I")]))
        field = draw.draw(st.integers(4, 46 - width))
        value = draw.draw(st.sampled_from([0, 1, 8, 9, 12, 99, 2**16 - 1, 2**32 - 1, 2**31]))
        struct.pack_into(f"<{letter}", data, at + field, value % 2 ** (8 * width))
    extra = draw.draw(st.sampled_from([b"", b"PK", b"\0" * 50, bytes(good["whole"])]))
    stage.victim.write_bytes(bytes(data) + extra if draw.draw(st.booleans()) else extra + data)
    check(stage)


@few
@given(changes=flips, cut=cuts)
def test_protobufs(stage, changes, cut):
    run = layout_run(9, [[[0]], []], default=True), layout_run(8, [[], [[1]]])
    message = tuning(chain(), *run, nodes=(1, 2)).SerializeToString()
    victim = stage.victim.with_suffix(".pb")
    stage.victim.unlink(missing_ok=True)
    victim.write_bytes(mutate(message, changes, cut))
    try:
        with mock.patch.object(Stage, "victim", victim):
            check(stage)
    finally:
        victim.unlink()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("key", ["edge_index", "node_feat", "node_config_feat"])
def test_an_array_that_goes_on_where_the_directory_ends_it(stage, good, key, method):
    """The declared size fits the header; there is more."""
    shapes = {"edge_index": (0, 2), "node_feat": (12, 140), "node_config_feat": (8, 3, 18)}
    head = header(shapes[key], "<i8" if key == "edge_index" else "<f4")
    size = len(head) + int(np.prod(shapes[key])) * 4
    parts = {name: data for name, data in good.items() if name != "whole"}
    rezip(stage.victim, parts | {key: head + bytes(10**6)}, method)
    data = bytearray(stage.victim.read_bytes())
    name = f"{key}.npy".encode()
    struct.pack_into("<I", data, data.index(name) - 30 + 22, size)
    struct.pack_into("<I", data, data.rindex(name) - 46 + 24, size)
    stage.victim.write_bytes(bytes(data))
    before = stage.files()
    assert stage()[0] == 2
    check(stage)
    assert stage.files() == before


def test_keep_going_names_and_skips(stage, good):
    stage.victim.write_bytes(b"no zip")
    empty = stage.victim.with_name("empty.npz")
    parts = {key: data for key, data in good.items() if key != "whole"}
    nothing = {"node_config_feat": header((0, 3, 18)), "config_runtime": header((0,), "<i8")}
    rezip(empty, parts | nothing)
    try:
        code, out, err = stage("--keep-going")
        assert stage()[0] == 2  # and without the flag?
    finally:
        empty.unlink()
    assert code == 0
    lines = err.splitlines()
    assert [line.split(": ")[:3] for line in lines] == [
        ["skipped", str(empty), "node_config_feat"],
        ["skipped", str(stage.victim), "file"],
    ]
    assert out.splitlines()[-1].endswith("1 graphs in " + f"{stage.cache}/, 2 bad files skipped")
    cache = Cache(stage.cache)
    assert cache.names("train") == ["good"]
    assert cache.manifest["skipped"][0] == {
        "split": "train",
        "file": "empty.npz",
        "why": "node_config_feat: found no configurations, expected at least one",
    }
    assert "file: found" in cache.manifest["skipped"][1]["why"]


def test_nothing_but_bad_files(tmp_path):
    other = Stage(tmp_path)
    other.victim.parent.mkdir(parents=True)
    other.victim.write_bytes(b"no zip")
    write_dataset(tmp_path / "data", OWN)
    code, out, err = other("--keep-going")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {other.victim}: file: found ")
    assert other.files() == {}


def test_bad_files_in_workers(stage):
    """The same line from a worker process, and every bad file named."""
    stage.victim.write_bytes(b"no zip")
    code, out, err = stage("--jobs", "2")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {stage.victim}: file: found ")
    code, out, err = stage("--jobs", "2", "--keep-going")
    assert (code, err.count("\n")) == (0, 1)
    assert json.loads((stage.cache / "manifest.json").read_text())["skipped"]


def test_no_workers(stage):
    assert stage("--jobs", "0") == (2, "", "error: --jobs 0: at least 1\n")
