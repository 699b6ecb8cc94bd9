"""The memory that a process may take, in a container as well."""

from __future__ import annotations

import pytest

from lib.runs.memory import _free_in_groups, free_memory

GIGABYTE = 10**9


@pytest.mark.parametrize(
    ("line", "folder", "limit", "used"),
    [
        ("0::/app", "sys/fs/cgroup/app", "memory.max", "memory.current"),
        ("0::/app/job", "sys/fs/cgroup/app", "memory.max", "memory.current"),
        ("0::/", "sys/fs/cgroup", "memory.max", "memory.current"),
        (
            "5:cpu,memory:/app",
            "sys/fs/cgroup/memory/app",
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
        ),
    ],
)
def test_control_groups_of_both_versions_bound_it(tmp_path, line, folder, limit, used):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"12:cpuset:/\n{line}\n")
    group = tmp_path / folder
    group.mkdir(parents=True)
    (group / limit).write_text(f"{3 * GIGABYTE}\n")
    (group / used).write_text(f"{2 * GIGABYTE}\n")
    (group / "memory.stat").write_text(f"anon 1\ninactive_file {GIGABYTE // 2}\n")
    assert list(_free_in_groups(tmp_path)) == [3 * GIGABYTE // 2]


def test_a_group_without_a_limit_bounds_nothing(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/app\n")
    (tmp_path / "sys/fs/cgroup/app").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/app/memory.max").write_text("max\n")
    assert list(_free_in_groups(tmp_path)) == []
    assert free_memory() > 0
