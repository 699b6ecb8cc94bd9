"""The identity of a training run."""

from __future__ import annotations

from lib.runs import provenance


def test_identity_follows_settings_and_code(monkeypatch):
    first = provenance.run_identity({"epochs": 3, "data": "x"})
    assert provenance.run_identity({"data": "x", "epochs": 3}) == first
    assert provenance.run_identity({"epochs": 4, "data": "x"}) != first
    monkeypatch.setattr(provenance, "PROGRAMS", ("02_train.py",))
    assert provenance.run_identity({"epochs": 3, "data": "x"}) != first


def test_versions():
    found = provenance.versions()
    assert {"python", "torch", "numpy"} <= set(found)
    assert all(text[0].isdigit() for text in found.values())
