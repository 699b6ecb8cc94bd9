"""`make download`: official archives by curl and tar, each split whole or absent."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

from tests.stages import run_make

CONTENT = {"train": ["unet_3d.4x4.bf16.npz", "b.npz"], "valid": ["c.npz"], "test": ["d.npz"]}


@pytest.fixture
def site(tmp_path) -> Path:
    """A folder of archives in the official form, which curl reads as it reads a server's."""
    site = tmp_path / "it's"
    for collection in ("layout-xla-default", "tile-xla"):
        for split, names in CONTENT.items():
            folder = site / "source" / "npz" / Path(*collection.split("-")) / split
            folder.mkdir(parents=True)
            for name in names:
                (folder / name).write_text(f"{collection} {name} " * 1000)
            name = f"npz_{collection.replace('-', '_')}_{split}.tar"
            with tarfile.open(site / name, "w") as archive:
                archive.add(folder, folder.relative_to(site / "source"))
    return site


def download(site: Path, **variables: object):
    given = {"DATA": site.parent / "root", "BASE_URL": f"file://{site}", **variables}
    return run_make("download", **given)


def files_in(site: Path) -> list[str]:
    return sorted(
        str(p.relative_to(site.parent / "root")) for p in (site.parent / "root").rglob("*.*")
    )


@pytest.mark.parametrize("collection", ["layout-xla-default", "tile-xla"])
def test_all_splits_come_to_the_data_root_once(site, collection):
    done = download(site, COLLECTION=collection)
    assert done.returncode == 0, done.stderr
    folder = f"npz/{collection.replace('-', '/')}"
    expected = [f"{folder}/{split}/{name}" for split, all_ in CONTENT.items() for name in all_]
    assert files_in(site) == sorted(expected)
    assert done.stdout.index("_valid.tar") < done.stdout.index("_train.tar")
    assert "Nothing to be done" in download(site, COLLECTION=collection).stdout


def test_a_transfer_that_broke_off_goes_on(site):
    (archive,) = site.glob("npz_layout*valid.tar")
    whole, partial = archive.read_bytes(), site.parent / "root" / f".partial-{archive.name}"
    partial.parent.mkdir()
    partial.write_bytes(whole[:600])
    archive.write_bytes(b"\0" * 600 + whole[600:])  # what is there already is not fetched
    assert download(site, SPLITS="valid").returncode == 0
    assert (site.parent / "root/npz/layout/xla/default/valid/c.npz").read_text().endswith("c.npz ")
    assert not partial.exists()


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_an_archive_that_is_no_good_leaves_no_split(site, damage):
    (archive,) = site.glob("npz_layout*train.tar")
    if damage == "missing":
        archive.unlink()
    else:
        archive.write_bytes(archive.read_bytes()[:20_000])
    done = download(site)
    assert done.returncode == 2 and archive.name in done.stderr
    folder = site.parent / "root/npz/layout/xla/default"
    assert sorted(path.name for path in folder.iterdir()) == ["test", "valid"]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"SPLITS": "train,tests"}, "*** SPLITS=train,tests: must be some of train,valid,test. "),
        ({"COLLECTION": "programs-cpu"}, "*** COLLECTION=programs-cpu: there is no archive of it"),
        ({"environ": {"PATH": ""}}, "*** make download needs curl and tar; fetch the archives"),
    ],
)
def test_what_cannot_be_fetched_is_one_line(site, tmp_path, given, line):
    if "environ" in given:  # of this machine's programs only what make itself asks
        (tmp_path / "bin").mkdir()
        for name in ("sh", "make", "seq", "nproc", "sed", "env"):
            (tmp_path / "bin" / name).symlink_to(shutil.which(name))
        given = {"environ": {"PATH": str(tmp_path / "bin")}}
    done = download(site, **given)
    assert (done.returncode, done.stdout) == (2, "")
    assert line in done.stderr and done.stderr.count("\n") == 1
    assert not (site.parent / "root").exists()
