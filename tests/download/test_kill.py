"""The download killed (SIGKILL) at the moments that matter, and run again."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.download.test_download import ARCHIVE, XLA, contents, names, root, run, site, whole
from tests.download.test_site import Site, half_then_wait

REPOSITORY = Path(__file__).parents[2]
__all__ = ["root", "site"]  # fixtures, used by name


def start(site: Site, root: Path, before: str = "") -> subprocess.Popen:
    """The command in a process of its own; ``before`` is run in it first."""
    code = f"import os, signal\nimport lib.download.download as d\n{before}\nd.main()"
    arguments = ["--collection", "layout-xla-default", "--splits", "train", "--to", str(root)]
    command = [sys.executable, "-c", code, *arguments, "--base-url", site.url]
    return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.DEVNULL)


def test_killed_midway_and_run_again(site, root):
    site.script = [half_then_wait]
    process = start(site, root)
    part = root / f".partial-{ARCHIVE[1:]}"
    deadline = time.monotonic() + 60
    while not (part.exists() and part.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    came = part.stat().st_size
    assert 0 < came < len(site.files[ARCHIVE])
    assert contents(root) == {}
    run(site, root)
    assert site.log == [(ARCHIVE, None), (ARCHIVE, f"bytes={came}-")]
    assert contents(root) == whole()
    assert names(root) == {f"{XLA}.manifest.json", "dataset.json"}


KILL = "os.kill(os.getpid(), signal.SIGKILL)"
MOMENTS = {
    "in the extraction": "import lib.download.untar as u\nold = u._copy\n"
    f"u._copy = lambda f, s, t: {KILL} if t.name == '7.npz' else old(f, s, t)",
    "before the manifest": f"d.write_json = lambda *a: {KILL}",
    "after the manifest": f"d.discard = lambda *a: {KILL}",
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_later_and_run_again(site, root, moment):
    assert start(site, root, MOMENTS[moment]).wait(60) == -signal.SIGKILL
    final = {name: data for name, data in contents(root).items() if name.startswith(f"{XLA}/")}
    assert final in ({}, whole())
    assert not (root / f"{XLA}.manifest.json").exists() or moment == "after the manifest"
    run(site, root)
    assert len(site.log) == 1  # the archive was there already
    assert contents(root) == whole()
    assert names(root) == {f"{XLA}.manifest.json", "dataset.json"}
