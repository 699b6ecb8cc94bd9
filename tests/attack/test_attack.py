"""Some dozen cases end with success or with one line; and the attacker finds what is planted."""

from __future__ import annotations

import subprocess
import sys

from tests.attack.__main__ import COMMANDS
from tests.stages import LONGEST, REPOSITORY, environment

COUNT = 20


def test_hostile_files_and_flags_end_in_one_line_at_worst():
    done = subprocess.run(
        [sys.executable, "-m", "tests.attack", "--count", str(COUNT)],
        cwd=REPOSITORY,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LONGEST,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    *_, all_of_them = done.stdout.splitlines()
    success, one_line, worse = (int(word) for word in all_of_them.split() if word.isdecimal())
    assert (success + one_line, worse) == (COUNT, 0)
    assert min(success, one_line) > COUNT / 10
    assert all(f"\n{kind} " in f"\n{done.stdout}" for kind in COMMANDS)
