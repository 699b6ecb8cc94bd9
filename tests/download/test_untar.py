"""Archives that lie, and archives that are damaged."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lib.download.untar import extract
from lib.files.errors import DataError

PREFIX = PurePosixPath("npz/layout/xla/default/train")
FILES = {"a.npz": b"first" * 300, "b.4x4.npz": b"", "c-2.npz": bytes(512)}


def member(name: str, data: bytes = b"x", **fields) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def tar(*members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.GNU_FORMAT) -> bytes:
    """A tar archive; a member's declared size may differ from its data."""
    out = io.BytesIO()
    for info, data in members:
        padded = data + bytes(-len(data) % tarfile.BLOCKSIZE)
        out.write(info.tobuf(form, "utf-8", "surrogateescape") + padded)
    return out.getvalue() + bytes(2 * tarfile.BLOCKSIZE)


def good(prefix: PurePosixPath = PREFIX, files: dict[str, bytes] = FILES, **how) -> bytes:
    return tar(*(member(f"{prefix}/{name}", data) for name, data in files.items()), **how)


def folder(name: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, b"", type=tarfile.DIRTYPE)


def extracted(tmp_path: Path, archive: bytes) -> dict:
    path = tmp_path / "archive"
    path.write_bytes(archive)
    (tmp_path / "out").mkdir()
    return extract(path, "archive.tar", PREFIX, tmp_path / "out")


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_good_archives(tmp_path, form):
    found = extracted(tmp_path, good(form=form))
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == FILES
    assert found == {name: len(data) for name, data in FILES.items()}


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_and_folders(tmp_path, form):
    name = "n" * 200 + ".npz"
    folders = [folder(n) for n in ("./", "npz/", "npz/layout/xla/", f"{PREFIX}/")]
    archive = tar(*folders, member(f"./{PREFIX}/{name}"), form=form)
    assert list(extracted(tmp_path, archive)) == [name]


LINKS = [
    tarfile.SYMTYPE,
    tarfile.LNKTYPE,
    tarfile.CHRTYPE,
    tarfile.FIFOTYPE,
    tarfile.CONTTYPE,
    b"Z",
]


@pytest.mark.parametrize("type", LINKS)
def test_only_plain_files(tmp_path, type):
    fields = {"type": type, "linkname": "/etc/passwd"}
    with pytest.raises(DataError, match=r"found type b'.', expected files and folders only"):
        extracted(tmp_path, tar(member(f"{PREFIX}/a.npz", b"", **fields)))


NAMES = [
    f"/{PREFIX}/a.npz",
    "/etc/a.npz",
    "../a.npz",
    f"{PREFIX}/../train/a.npz",
    f"{PREFIX}/../a.npz",
    f"{PREFIX}/sub/a.npz",
    f"{PREFIX}//a.npz",
    f".//{PREFIX}/a.npz",
    "npz/layout/xla/default/valid/a.npz",
    "a.npz",
    f"{PREFIX}/a.txt",
    f"{PREFIX}/a.npz.py",
    f"{PREFIX}/a.NPZ",
    f"{PREFIX}/.npz",
    f"{PREFIX}/.hidden.npz",
    f"{PREFIX}/a\nb.npz",
    f"{PREFIX}/a\\b.npz",
    f"{PREFIX}/a:b.npz",
    f"{PREFIX}/a\udcff.npz",
    f"{PREFIX}/{'n' * 300}.npz",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_only_expected_names(tmp_path, name, form):
    with pytest.raises(DataError, match=r"archive\.tar: member.*expected npz/layout") as caught:
        extracted(tmp_path, tar(member(name), form=form))
    assert "\n" not in str(caught.value)
    assert [p.name for p in tmp_path.rglob("*")].count("a.npz") == 0


@pytest.mark.parametrize("name", ["..", "etc", f"{PREFIX}/sub", "/npz", f"{PREFIX}/../train"])
def test_folders_are_not_made(tmp_path, name):
    extracted(tmp_path, tar(folder(name), member(f"{PREFIX}/a.npz")))
    assert {path.name for path in tmp_path.rglob("*")} == {"archive", "out", "a.npz"}


def test_no_name_comes_twice(tmp_path):
    with pytest.raises(DataError, match="found twice"):
        extracted(tmp_path, tar(*2 * [member(f"{PREFIX}/a.npz")]))


@pytest.mark.parametrize("size", [513, 2**30, 2**62, -1, -512])
def test_sizes_are_within_the_archive(tmp_path, size):
    with pytest.raises(DataError, match=r"archive\.tar: (member|tar)"):
        extracted(tmp_path, tar(member(f"{PREFIX}/a.npz", b"x" * 400, size=size))[:-1024])


@pytest.mark.parametrize("size", ["-1024", str(2**62), "9" * 5000, "x", "1e3"])
def test_sizes_in_extended_headers(tmp_path, size):
    info = member(f"{PREFIX}/a.npz", pax_headers={"size": size})
    with pytest.raises(DataError):
        extracted(tmp_path, tar(info, member(f"{PREFIX}/b.npz"), form=tarfile.PAX_FORMAT))


@pytest.mark.parametrize(("size", "found"), [(1, "type b'0'"), (2**40, "1099511627776 bytes")])
def test_sparse_files_are_refused(tmp_path, size, found):
    sparse = {"GNU.sparse.map": "0,1", "GNU.sparse.size": str(size)}
    info = member(f"{PREFIX}/a.npz", pax_headers=sparse)
    with pytest.raises(DataError, match=found):
        extracted(tmp_path, tar(info, form=tarfile.PAX_FORMAT))


@pytest.mark.parametrize("type", [b"L", b"K", b"x", b"g"])
def test_huge_headers_are_not_read(tmp_path, type):
    archive = tar(member("././@LongLink", b"n" * 2**21, type=type), member("a"))
    with pytest.raises(DataError, match="a header of"):
        extracted(tmp_path, archive)


def test_headers_without_end(tmp_path):
    name = f"{PREFIX}/a.npz".encode() + b"\0"
    with pytest.raises(DataError):
        extracted(tmp_path, tar(*5000 * [member("././@LongLink", name, type=b"L")]))


@pytest.mark.parametrize("keep", range(0, len(good()) - 1024, 256))
def test_truncated_archives(tmp_path, keep):
    with pytest.raises(DataError):
        extracted(tmp_path, good()[:keep])


@pytest.mark.parametrize("junk", [b"", b"x", b"<html>404</html>", b"\x1f\x8b" * 600, bytes(10240)])
def test_garbage(tmp_path, junk):
    with pytest.raises(DataError, match=r"archive\.tar: (tar|members)"):
        extracted(tmp_path, junk)


def test_a_damaged_header_is_not_the_end(tmp_path):
    archive = bytearray(good())
    archive[512 + 1536 + 10] ^= 255  # in the second member's name
    with pytest.raises(DataError, match="byte 2048 on: found no tar header"):
        extracted(tmp_path, bytes(archive))


def test_nothing_hides_behind_the_end(tmp_path):
    with pytest.raises(DataError, match="found no tar header"):
        extracted(tmp_path, good() + bytes(2**20) + good())


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data(), form=st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))
def test_mutations_end_well(tmp_path_factory, data, form):
    archive = bytearray(good(form=form))
    for _ in range(data.draw(st.integers(1, 4))):
        archive[data.draw(st.integers(0, len(archive) - 1))] = data.draw(st.integers(0, 255))
    tmp_path = tmp_path_factory.mktemp("mutation")
    try:
        found = extracted(tmp_path, bytes(archive[: data.draw(st.integers(0, len(archive)))]))
    except DataError as error:
        assert "\n" not in str(error)
    else:
        assert set(found) == {path.name for path in (tmp_path / "out").iterdir()}
    assert {path.name for path in tmp_path.iterdir()} == {"archive", "out"}
