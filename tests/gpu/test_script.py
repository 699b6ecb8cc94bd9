"""The scripts as far as they can be tried without a card."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from tests.gpu import __main__ as script


def test_without_a_card_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["tests.gpu"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match=str(script.NO_CARD)):
        script.main()
    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith("finds no GPU here; nothing was checked")


def test_a_row_says_whether_a_model_is_within_the_tolerance(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    script.write_data(tmp_path)
    given = tmp_path, torch.device("cpu"), script.LAYOUTS, "pooling", {}
    assert script.check(*given)
    assert "| ok" in capsys.readouterr().out
    monkeypatch.setattr(script, "differences", lambda *_: (0.0, 1.0, 0.0))
    assert not script.check(*given)
    assert "| FAILED: more than" in capsys.readouterr().out


def test_a_model_that_fails_has_a_row(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(script.VALUES, "channels", -1)
    script.write_data(tmp_path)
    assert not script.check(tmp_path, torch.device("cpu"), script.TILES, "tile", {})
    assert "FAILED: RuntimeError: preprocess: " in capsys.readouterr().out


def test_kernels_fit_the_card_that_the_paper_took(tmp_path):
    """An RTX 4090: products whose long side is up spill two kilobytes a thread."""
    pytest.importorskip("triton", reason="Triton compiles the kernels")
    command = [sys.executable, "-m", "tests.gpu.compiled", "--cards", "89", "--types", "bfloat16"]
    own = {"TRITON_CACHE_DIR": str(tmp_path), "TRITON_INTERPRET": "0"}
    done = subprocess.run(command, env=os.environ | own, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" ok") == 9
