"""How the compiled loops are built. (What they compute is compared in tests/models.)"""

from __future__ import annotations

import shlex

import pytest
import torch
from torch.utils import cpp_extension

from lib import native
from tests.stages import script


def test_an_environment_whose_path_has_blanks_and_quotes(tmp_path, monkeypatch):
    """torch hands the folder of its libraries to the linker through a shell, as it stands."""
    seen = []
    path = f"{tmp_path}/it's my environment/torch/lib"
    monkeypatch.setattr(cpp_extension, "TORCH_LIB_PATH", path)
    monkeypatch.setattr(
        cpp_extension, "load", lambda *_, **__: seen.append(cpp_extension.TORCH_LIB_PATH)
    )
    native._compile(tmp_path, ["c++"])
    assert [shlex.split(f"-L{text}") for text in seen] == [[f"-L{path}"]]


@pytest.fixture
def built(tmp_path, monkeypatch):
    """A library's path, what was compiled and loaded so far, and a folder of compilers."""
    path, programs, done = tmp_path / "native.so", tmp_path / "bin", []
    programs.mkdir()

    def compile(folder, words):
        done.append("compiled")
        (folder / "tgraph_native.so").write_bytes(b"code" * 5000)
        return folder / "tgraph_native.so"

    def load(name):
        assert path.read_bytes() == b"code" * 5000, "a part of one ends in a bus error"
        done.append("loaded")

    monkeypatch.setattr(native, "library", lambda: path)
    monkeypatch.setattr(native, "_compile", compile)
    monkeypatch.setattr(torch.ops, "load_library", load)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    for name in ("ccache", "g++"):
        line = 'exec "$@"' if name == "ccache" else "echo g++ 12.2.0"
        script(programs / name, f"#!/bin/sh\n{line}\n")
    monkeypatch.setenv("CXX", "g++")
    return path, done, programs


def _available() -> bool:
    return native.available.__wrapped__()


def test_a_library_is_compiled_once(built):
    _, done, _ = built
    assert _available() and _available()
    assert done == ["compiled", "loaded", "loaded"]


@pytest.mark.parametrize("variables", [{"PATH": "/nowhere"}, {"CXX": "clang++"}, {"CXX": ""}])
def test_the_library_that_is_there_is_used_whatever_compiler_there_is(
    built, monkeypatch, capfd, variables
):
    _, done, _ = built
    assert _available()
    done.clear()
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    capfd.readouterr()
    assert _available() and done == ["loaded"]
    assert capfd.readouterr().err == "" and native.compiler() == "g++ 12.2.0"


def test_without_a_compiler_and_a_library_it_is_told(built, monkeypatch, capfd):
    monkeypatch.setenv("CXX", "no-such-compiler -O1")
    assert not _available()
    told = capfd.readouterr().err
    assert "torch alone" in told and "no C++ compiler, no-such-compiler is not in PATH" in told
