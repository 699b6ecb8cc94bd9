"""Which process runs which test: a file's tests share what they set up."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import HERE, TOGETHER
from tests.stages import environment

SHARED = """
import os, pathlib, pytest

@pytest.fixture(scope="module")
def made():
    with open({log!r}, "a") as file:
        file.write(f"{{pathlib.Path(__file__).parent.name}} {{os.getpid()}}\\n")

@pytest.mark.parametrize("number", range(4))
def test_it(made, number):
    pass
"""


def test_a_file_s_tests_are_one_process_s_and_a_folder_s_that_share_more(tmp_path):
    log = tmp_path / "log"
    (tmp_path / "conftest.py").write_text((HERE / "conftest.py").read_text())
    for name in ("test_a.py", "test_b.py", f"{TOGETHER}/test_c.py", f"{TOGETHER}/test_d.py"):
        path = tmp_path / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SHARED.format(log=str(log)))
    flags = ("-q", "-n2", "--no-loadscope-reorder", "-pno:cacheprovider", "--rootdir", tmp_path)
    command = [sys.executable, "-m", "pytest", *map(str, flags), str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = log.read_text().splitlines()
    assert len(rows) == 4  # each file's fixture was made once
    assert len({row for row in rows if row.startswith(TOGETHER)}) == 1
