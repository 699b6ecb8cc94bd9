"""Which process runs which test: a file's tests share what they set up."""

from __future__ import annotations

from tests.conftest import TOGETHER, ByFile, pytest_xdist_make_scheduler


def test_a_file_s_tests_are_one_process_s_and_a_folder_s_that_share_more(monkeypatch):
    monkeypatch.setattr(ByFile, "__init__", lambda *_: None)
    groups = pytest_xdist_make_scheduler(None, None)
    names = ("test_a.py", "sub/test_a.py", f"{TOGETHER}/test_c.py", f"{TOGETHER}/test_d.py")
    group = {name: groups._split_scope(f"tests/{name}::test_it[1::2]") for name in names}
    assert len(set(group.values())) == 3
    assert group[names[2]] == group[names[3]] == f"tests/{TOGETHER}"
    assert group["test_a.py"] == groups._split_scope("tests/test_a.py::TestAll::test_it")
