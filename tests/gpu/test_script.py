"""The script as far as it can be tried without a card."""

from __future__ import annotations

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
