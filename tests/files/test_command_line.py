"""Every command tells a wrong flag in one line."""

from __future__ import annotations

import runpy
import subprocess
import sys

import pytest

from lib.files.command_line import Parser
from lib.files.errors import UserError
from tests.stages import REPOSITORY, SCRIPTS, environment

MODULES = (
    "lib.scoring.score",
    "lib.scoring.merge",
    "lib.report.reproduce",
    "lib.collect.xla.export",
    "lib.report.compare",
    "lib.report.status",
    "lib.collect.tvm",
    "lib.collect.tvm.export",
)


def test_flags_are_taken_as_they_are_written():
    parser = Parser(prog="it")
    parser.add_argument("--model")
    assert parser.parse_args(["--model", "gst"]).model == "gst"
    with pytest.raises(UserError, match="unrecognized arguments: --mod gst; it --help names"):
        parser.parse_args(["--mod", "gst"])


def test_a_stage_finds_the_code_whatever_pythonsafepath_says(tmp_path):
    environ = environment() | {"PYTHONSAFEPATH": "1"}
    del environ["PYTHONPATH"]
    command = [sys.executable, REPOSITORY / SCRIPTS[3], "--help"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    texts = [(REPOSITORY / script).read_text() for script in SCRIPTS]
    line = "sys.path.insert(0, str(Path(__file__).parent))  # where PYTHONSAFEPATH has left it out"
    assert [text.index(line) < text.index("\nfrom lib.") for text in texts] == [True] * 4


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("command", [*SCRIPTS, *MODULES])
@pytest.mark.parametrize("flags", [["--no-such-flag"], ["--outputs"]])
def test_a_wrong_flag_is_one_line(monkeypatch, capsys, tmp_path, command, flags):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [command, *flags])
    with pytest.raises(SystemExit) as stopped:
        if command in SCRIPTS:
            runpy.run_path(str(REPOSITORY / command), run_name="__main__")
        else:
            runpy.run_module(command, run_name="__main__")
    said = capsys.readouterr()
    assert (stopped.value.code, said.out) == (2, "")
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
