"""``python -m lib.download.download`` against a server on loopback."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from lib.download import download as module
from lib.download import transfer
from lib.download.download import download, main
from lib.files.errors import UserError
from lib.settings import COLLECTIONS
from lib.tpugraphs.dataset import TPUGRAPHS, read_dataset
from tests.download.test_site import Site, loopback_only, serving, spoiled, status
from tests.download.test_untar import FILES, good, member, tar

XLA = "npz/layout/xla/default/train"
ARCHIVE = "/npz_layout_xla_default_train.tar"
BIG = {f"{index}.npz": os.urandom(30_000) for index in range(10)}


@pytest.fixture
def site(monkeypatch) -> Iterator[Site]:
    loopback_only(monkeypatch)
    with serving() as site:
        for split in ("train", "valid", "test"):
            prefix = PurePosixPath(XLA).with_name(split)
            site.files[f"/npz_layout_xla_default_{split}.tar"] = good(prefix, BIG)
        yield site


@pytest.fixture
def root(tmp_path) -> Path:
    return tmp_path / "root"


def run(site: Site, root: Path, **how) -> list[str]:
    how = {"splits": ["train"], **how}
    return list(download("layout-xla-default", root, site.url, **how))


def contents(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file() and path.suffix == ".npz")
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def whole(split: str = "train") -> dict[str, bytes]:
    return {f"{PurePosixPath(XLA).with_name(split)}/{n}": data for n, data in BIG.items()}


def names(root: Path) -> set[str]:
    """Every file but the npz, and every folder that is not on the way to them."""
    found = {str(path.relative_to(root)) for path in root.rglob("*") if path.suffix != ".npz"}
    way = {str(parent) for parent in (PurePosixPath(XLA), *PurePosixPath(XLA).parents)}
    return found - way - {".make"}  # for locks, and empty


def test_all_splits_train_last(site, root):
    lines = run(site, root, splits=("train", "valid", "test"))
    assert [path for path, _ in site.log][-1] == ARCHIVE
    assert contents(root) == whole("train") | whole("valid") | whole("test")
    assert len(lines) == 3
    assert lines[-1].endswith("train: 10 files, 0.3 MB, downloaded")


def test_the_manifest_tells_what_came(site, root):
    run(site, root)
    assert names(root) == {f"{XLA}.manifest.json", "dataset.json"}  # no archive, nothing temporary
    assert read_dataset(root) == TPUGRAPHS
    manifest = json.loads((root / f"{XLA}.manifest.json").read_text())
    archive = site.files[ARCHIVE]
    assert manifest["archive"] == {
        "url": site.url + ARCHIVE,
        "size": len(archive),
    }
    assert manifest["files"] == {name: {"size": len(data)} for name, data in BIG.items()}


@pytest.mark.parametrize("collection", [c for c, kind in COLLECTIONS.items() if kind != "programs"])
def test_every_collection(site, root, collection):
    folder = PurePosixPath("npz", *collection.split("-"), "valid")
    site.files[f"/npz_{collection.replace('-', '_')}_valid.tar"] = good(folder)
    list(download(collection, root, site.url + "/", ["valid"]))
    assert contents(root) == {f"{folder}/{name}": data for name, data in FILES.items()}
    assert folder.parent == "npz" / Path(*collection.split("-"))


def test_what_nobody_offers_is_told(root):
    with pytest.raises(UserError, match=r"programs-cpu: nobody offers .* measures some"):
        list(download("programs-cpu", root, "http://localhost:1", ["valid"]))


def test_a_second_run_does_nothing(site, root):
    run(site, root)
    assert run(site, root)[0].endswith("already there")
    assert len(site.log) == 1


def test_damage_is_mended(site, root, capsys):
    run(site, root)
    (root / XLA / "3.npz").write_bytes(b"short")
    run(site, root)
    assert "3.npz has 5 bytes, not 30000" in capsys.readouterr().out
    (root / XLA / "4.npz").unlink()
    run(site, root)
    assert contents(root) == whole()
    assert len(site.log) == 3


def test_damage_stays_readable_until_it_is_mended(site, root):
    run(site, root)
    (root / XLA / "4.npz").unlink()
    site.script = [status(404)]
    with pytest.raises(UserError, match="404"):
        run(site, root)
    assert len(contents(root)) == 9


def test_files_of_the_users_are_not_touched(site, root):
    mine = root / XLA / "mine.npz"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(b"mine")
    with pytest.raises(UserError, match="no download of ours put there"):
        run(site, root)
    mine.unlink()
    run(site, root)
    mine.write_bytes(b"mine")
    with pytest.raises(UserError, match=r"mine\.npz: not from the archive"):
        run(site, root)
    assert mine.read_bytes() == b"mine"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"files": {"a": {"size": "1"}}}', "null"])
def test_a_damaged_manifest_is_told(site, root, text):
    run(site, root)
    (root / f"{XLA}.manifest.json").write_text(text)
    with pytest.raises(UserError, match=r"train\.manifest\.json: "):
        run(site, root)


HOSTILE = {
    "absolute": tar(member("/tmp/tgraph-evil.npz")),
    "parent": tar(member(f"{XLA}/../../../../../../evil.npz")),
    "prefix": good(PurePosixPath("npz/layout/xla/default/valid")),
    "symlink": tar(member(f"{XLA}/a.npz", b"", type=b"2", linkname="/etc/passwd")),
    "hardlink": tar(member(f"{XLA}/a.npz", b"", type=b"1", linkname="/etc/passwd")),
    "device": tar(member(f"{XLA}/a.npz", b"", type=b"3")),
    "huge": tar(member(f"{XLA}/a.npz", size=2**40)),
    "twice": tar(*2 * [member(f"{XLA}/a.npz")]),
    "text": tar(member(f"{XLA}/ok.npz"), member(f"{XLA}/a.py")),
    "truncated": good(PurePosixPath(XLA), BIG)[:100_000],
    "garbage": os.urandom(20_000),
    "html": b"<!DOCTYPE html><title>Sign in</title>",
    "empty": b"",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_archive_leaves_nothing(site, root, kind, capsys):
    site.files[ARCHIVE] = HOSTILE[kind]
    arguments = ["--collection", "layout-xla-default", "--splits", "train", "--to", str(root)]
    with pytest.raises(SystemExit) as caught:
        main([*arguments, "--base-url", site.url])
    error = capsys.readouterr().err
    assert caught.value.code == 2
    assert error.startswith(f"error: {ARCHIVE[1:]}: ")
    assert error.count("\n") == 1
    assert [path for path in root.parent.rglob("*") if path.is_file()] == []
    site.files[ARCHIVE] = good(PurePosixPath(XLA), BIG)
    run(site, root)
    assert contents(root) == whole()


def test_a_declared_length_that_is_too_small_is_noticed(site, root):
    site.script = [spoiled(Content_Length=150_000)]
    with pytest.raises(UserError, match=r"npz_layout_xla_default_train\.tar: "):
        run(site, root)
    assert contents(root) == {}
    run(site, root)
    assert contents(root) == whole()


def test_a_declared_length_that_is_too_large_keeps_what_came(site, root):
    length = len(site.files[ARCHIVE])
    site.script = 6 * [spoiled(ranges=False, Content_Length=length + 1000)]
    with pytest.raises(UserError, match=rf"IncompleteRead\({length} bytes read, 1000 more"):
        run(site, root)
    run(site, root)
    assert contents(root) == whole()


def test_the_disk_is_checked_first(site, root, monkeypatch):
    length = len(site.files[ARCHIVE])
    needed = int(2.1 * length) + module.DISK_MARGIN
    usage = shutil.disk_usage(root.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=needed - 1))
    with pytest.raises(UserError, match=r"0\.3 GB free, 0\.3 GB needed"):
        run(site, root)
    assert contents(root) == {}
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=needed))
    run(site, root)
    assert contents(root) == whole()


def test_a_full_disk_is_one_line_and_keeps_the_archive(site, root, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("lib.download.untar._copy", full)
        with pytest.raises(UserError, match="No space left on device"):
            run(site, root)
    assert contents(root) == {}
    run(site, root)
    assert contents(root) == whole()
    assert len(site.log) == 1


def test_the_disk_may_fill_up_meanwhile(site, root, monkeypatch):
    usage, asked = shutil.disk_usage(root.parent), []

    def shrinking(path):
        asked.append(path)
        return usage._replace(free=2**40 if len(asked) == 1 else 0)

    monkeypatch.setattr(shutil, "disk_usage", shrinking)
    with pytest.raises(UserError, match=r"0\.0 GB free"):
        run(site, root)
    assert (root / f".partial-{ARCHIVE[1:]}").read_bytes() == site.files[ARCHIVE]


def test_no_manifest_stands_beside_files_that_it_does_not_mean(site, root, monkeypatch):
    run(site, root)
    (root / XLA / "4.npz").unlink()

    def fails(*args):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_json", fails)
        with pytest.raises(UserError, match="Input/output error"):
            run(site, root)
    assert contents(root) == whole()
    assert not (root / f"{XLA}.manifest.json").exists()
    run(site, root)
    assert len(site.log) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--collection", "layout-xla-defualt"], "did you mean layout-xla-default?"),
        (["--collection", "../../x"], "not one of"),
        (["--collection", "tile-xla", "--splits", "train,val"], "some of train,valid,test"),
        (["--collection", "tile-xla", "--splits", ","], "some of train,valid,test"),
        (["--collection", "tile-xla", "--base-url", "file:///tmp"], "No connection adapters"),
        (["--collection", "tile-xla", "--to", "/dev/null/x"], "Not a directory"),
    ],
)
def test_wrong_arguments_are_one_line(arguments, message, tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--to", str(tmp_path), *arguments])
    error = capsys.readouterr().err
    assert (caught.value.code, error.count("\n")) == (2, 1)
    assert message in error


def test_a_proxy_of_the_environment_is_used(site, root, monkeypatch):
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("http_proxy", site.url)
    monkeypatch.setattr(transfer, "TRIES", 1)
    with pytest.raises(UserError, match="404"):
        list(download("layout-xla-default", root, "http://tgraph.invalid/v0", ["train"]))
    assert site.log[0][0] == f"http://tgraph.invalid/v0{ARCHIVE}"
