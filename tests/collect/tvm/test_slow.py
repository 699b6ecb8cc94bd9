"""Which jobs are timed once more, and that the better times are kept."""

from __future__ import annotations

import numpy as np
import pytest

from lib.collect.tvm import plan, raw
from lib.collect.tvm.slow import SLOWNESS, slow_jobs, usual_reference
from tests.collect.tvm.builders import REFERENCE, VISITS, write_raw, write_work

HERE = "AMD EPYC (family 26, model 2)"
SLOW = np.full(VISITS, REFERENCE * (1.01 + SLOWNESS))


@pytest.fixture
def work(tmp_path):
    """Two slow jobs here, a slow one on another processor, and one that was slow now and then."""
    names = write_work(tmp_path)
    other = "Intel Xeon (family 6, model 1)"
    write_raw(tmp_path, "main", 0, names[0], reference=SLOW)
    write_raw(tmp_path, "again", 1, names[3], reference=SLOW)
    write_raw(tmp_path, "main", 1, names[5], reference=2 * SLOW, processor=other)
    for k in (6, 7, 8):
        write_raw(tmp_path, "main", 0, names[k], processor=other, reference=SLOW)
    write_raw(
        tmp_path, "main", 0, names[4], reference=np.where(np.arange(VISITS) == 2, REFERENCE, SLOW)
    )
    return tmp_path, names


def test_a_job_is_slow_if_all_of_its_moments_were(work):
    folder, names = work
    assert usual_reference(folder)[HERE] == REFERENCE
    assert slow_jobs(folder, ["main", "again"], HERE) == {
        ("main", 0, names[0]),
        ("again", 1, names[3]),
    }
    assert slow_jobs(folder, ["again"], HERE) == {("again", 1, names[3])}
    assert slow_jobs(folder, ["main"], "Intel Xeon (family 6, model 1)") == {("main", 1, names[5])}


def test_slow_jobs_are_done_once_more_and_no_other(work):
    folder, names = work
    jobs = [("main", 0, name) for name in names[:-1]]
    slow = slow_jobs(folder, ["main"], HERE)
    assert plan.to_do(folder, jobs) == []
    assert plan.to_do(folder, jobs, slow) == [("main", 0, names[0])]
    raw.failed(folder, "main", 0, names[0]).touch()
    assert plan.to_do(folder, jobs, slow) == []
