"""A process that is not to outlive the one that started it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

STARTS = """
import subprocess, sys, time
from lib.files.children import end_with_parent
child = subprocess.Popen(["sleep", "60"], preexec_fn=end_with_parent)
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can")
def test_it_ends_with_its_parent():
    with subprocess.Popen([sys.executable, "-c", STARTS], stdout=subprocess.PIPE) as parent:
        stat = Path("/proc", parent.stdout.readline().decode().strip(), "stat")
        assert stat.exists()
        parent.kill()
        parent.wait()
        until = time.monotonic() + 10
        while stat.exists() and " Z " not in stat.read_text():  # whoever adopts it may be slow
            assert time.monotonic() < until
            time.sleep(0.05)
