"""Which instruction sets a collection measures."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lib.collect.tvm.__main__ import check_devices, remember
from lib.files import processor
from lib.files.errors import UserError
from tests.stages import REPOSITORY


@pytest.fixture
def older(tmp_path, monkeypatch):
    """A processor without AVX-512."""
    path = tmp_path / "cpuinfo"
    path.write_text("flags\t\t: fpu sse sse2 avx avx2 fma\n")
    monkeypatch.setattr(processor, "CPUINFO", path)


def test_those_that_are_asked_for(older, tmp_path):
    check_devices(["native", "sse2", "avx2"])
    with pytest.raises(UserError, match="--devices avx512: this processor has no avx512"):
        check_devices(["sse2", "avx512"])
    with pytest.raises(UserError, match="--devices neon: choose from native, sse2, avx2, avx512"):
        check_devices(["neon"])
    (tmp_path / "cpuinfo").write_text("flags: sse2 avx2 avx512f avx512vl\n")
    check_devices(["avx512"])
    (tmp_path / "cpuinfo").unlink()  # who knows
    check_devices(["avx512"])


def test_a_folder_is_for_the_devices_that_it_began_with(tmp_path):
    for _ in range(2):
        remember(tmp_path / "work" / "devices.json", "native")
    with pytest.raises(UserError, match=r"--devices avx2: .*work measures native; another"):
        remember(tmp_path / "work" / "devices.json", "avx2")


def test_a_collection_needs_nothing_that_its_environment_lacks():
    """Among what it does not list is polars, which the tables of a dataset are read by."""
    code = "import sys; sys.modules['polars'] = None; import lib.collect.tvm.__main__"
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)
