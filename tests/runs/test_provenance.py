"""The identity of a training run."""

from __future__ import annotations

from lib.runs import provenance
from lib.settings import settings_for
from lib.tpugraphs.dataset import TPUGRAPHS

SETTINGS = settings_for("tile-xla", TPUGRAPHS, {})


def test_identity_follows_settings_and_code():
    first = provenance.run_identity({"epochs": 3, "data": "x"}, SETTINGS)
    assert provenance.run_identity({"data": "x", "epochs": 3}, SETTINGS) == first
    assert provenance.run_identity({"epochs": 4, "data": "x"}, SETTINGS) != first
    more = provenance.run_identity({"epochs": 3, "data": "x"}, SETTINGS, "lib/compiler/tpu.py")
    assert more != first
