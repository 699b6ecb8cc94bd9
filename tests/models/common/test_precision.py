"""Which device a network may be told to run on."""

from __future__ import annotations

import pytest
import torch

from lib.files.errors import UserError
from lib.models.common.precision import resolve_device


@pytest.mark.parametrize("name", ["meta", "mps", "xpu", "hpu:1", "cuda:99", "avx2", "", "cpu cpu"])
def test_a_device_that_is_not_there_or_that_nothing_is_written_for(name):
    """Torch knows many names, and fails later with a traceback of its own."""
    with pytest.raises(UserError, match=f"--device '?{name}'?: "):
        resolve_device(name)


def test_a_device_that_is_there():
    assert resolve_device("cpu") == torch.device("cpu")
    assert resolve_device("auto").type in ("cpu", "cuda")
