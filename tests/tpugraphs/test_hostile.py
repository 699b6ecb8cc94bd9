"""Files that cannot be believed, each refused with an error that names the file and the key."""

from __future__ import annotations

import pickle
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest
from google.protobuf.message import DecodeError

from lib.files.errors import DataError
from lib.tpugraphs.messages import MESSAGES, detect_kind
from lib.tpugraphs.npz import read_layout, read_tile
from tests.tpugraphs.builders import (
    header,
    layout_graph,
    members,
    npy,
    rezip,
    tile_kernel,
)

LAYOUT, TILE = layout_graph(), tile_kernel()
INFINITE = np.where(np.arange(700).reshape(5, 140) == 7, np.inf, 0).astype(np.float32)
HUGE_TIME = np.array([2**63] * 6, np.uint64)


class Bomb:
    """Unpickling one of these fails the test."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was loaded",))


def with_nan(codes: np.ndarray) -> np.ndarray:
    codes = codes.astype(np.float32)
    codes[3, 1, 4] = np.nan
    return codes


BAD_LAYOUT = {
    "node_feat: dtype": ("node_feat", npy(LAYOUT.node_feat.astype(int))),
    "node_feat: scalar": ("node_feat", npy(np.float32(1))),
    "node_feat: infinite": ("node_feat", npy(INFINITE)),
    "node_feat: too large": ("node_feat", npy(np.full((5, 140), 1e300))),
    "node_feat: not npy": ("node_feat", b"hello"),
    "node_feat: header says more": ("node_feat", header((2**31, 140), data=bytes(99))),
    "node_feat: overflowing": ("node_feat", header((2**62, 0, 2**62))),
    "node_feat: booleans": ("node_feat", header((True, 140), data=bytes(560))),
    "node_feat: data too short": ("node_feat", npy(LAYOUT.node_feat)[:-1]),
    "node_opcode: range": ("node_opcode", npy(LAYOUT.node_opcode + 100)),
    "node_config_ids: twice": ("node_config_ids", npy(np.array([1, 1]))),
    "node_config_feat: k": ("node_config_feat", npy(np.zeros((6, 3, 18), "f4"))),
    "node_config_feat: nan": ("node_config_feat", npy(with_nan(LAYOUT.node_config_feat))),
    "node_config_feat: 6": ("node_config_feat", npy(np.full((6, 2, 18), 6.0))),
    "config_runtime: mix": ("config_runtime", npy(np.arange(6))),
    "config_runtime: too large": ("config_runtime", npy(HUGE_TIME)),
    "node_splits: decrease": ("node_splits", npy(np.array([0, 4, 3]))),
    "node_splits: overflowing": ("node_splits", header((0, 2**31, 2**31))),
    "node_splits: many axes": ("node_splits", header((1,) * 65, "<i8", data=bytes(8))),
    "node_splits: no width": ("node_splits", header((5,), "|S0")),
}


@pytest.mark.parametrize("case", BAD_LAYOUT)
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_bad_layout_array_is_named(folder, case, method):
    key, data = BAD_LAYOUT[case]
    blamed = "node_config_feat" if case == "node_config_feat: k" else key
    parts = members(folder / "layout.npz")
    path = rezip(folder / "bad.npz", parts | {key: data}, method)
    with pytest.raises(DataError) as caught:
        read_layout(path)
    assert str(caught.value).startswith(f"{path}: {blamed}: found ")
    assert "\n" not in str(caught.value)
    assert caught.value.field == blamed


BAD_TILE = {
    "config_runtime: mix": ("config_runtime", npy(np.arange(4))),
    "config_runtime_normalizers: negative": ("config_runtime_normalizers", npy(np.arange(4) - 1)),
    "config_runtime_normalizers: length": ("config_runtime_normalizers", npy(np.ones(3, int))),
}


@pytest.mark.parametrize("case", BAD_TILE)
def test_bad_tile_array_is_named(folder, case):
    key, data = BAD_TILE[case]
    path = rezip(folder / "bad.npz", members(folder / "tile.npz") | {key: data})
    with pytest.raises(DataError) as caught:
        read_tile(path)
    assert caught.value.field == key


@pytest.mark.parametrize("kind", ["layout", "tile"])
def test_missing_key_is_named(folder, kind):
    read = {"layout": read_layout, "tile": read_tile}[kind]
    parts = members(folder / f"{kind}.npz")
    for key in set(parts) - {"node_splits", "config_runtime_normalizers"}:
        rest = {name: data for name, data in parts.items() if name != key}
        with pytest.raises(DataError, match=rf"bad\.npz: {key}: found no such key"):
            read(rezip(folder / "bad.npz", rest))


def test_pickles_are_refused_unloaded(folder):
    parts = members(folder / "layout.npz")
    objects = npy(np.array([Bomb()] * 5, object), allow_pickle=True)
    for data in (objects, pickle.dumps(Bomb())):
        path = rezip(folder / "bad.npz", parts | {"node_opcode": data})
        with pytest.raises(DataError, match=r"bad\.npz: node_opcode"):
            read_layout(path)
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(DataError, match=r"bad\.npz: file"):
        read_layout(path)


def test_entries_that_are_odd(folder):
    path = folder / "bad.npz"
    parts = members(folder / "layout.npz")
    with pytest.raises(DataError, match="compression method"):
        read_layout(rezip(path, parts, zipfile.ZIP_BZIP2))
    rezip(path, parts)
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("node_feat.npy", parts["node_feat"])
    with pytest.raises(DataError, match=r"node_feat: found two entries"):
        read_layout(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_declared_sizes_that_lie_cost_no_memory(folder, method):
    nodes = 2**24
    head = header((nodes, 140))
    path = rezip(folder / "bad.npz", {"node_feat": head, "x": b""}, method)
    data = bytearray(path.read_bytes())
    directory = data.index(b"PK\x01\x02")
    struct.pack_into("<I", data, directory + 24, (len(head) + nodes * 560) % 2**32)
    path.write_bytes(data)
    tracemalloc.start()
    with pytest.raises(DataError, match=r"node_feat: found \d+ bytes, expected at most"):
        read_layout(path)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


class Full:
    """A message type, when there is no memory."""

    @staticmethod
    def FromString(data: bytes):
        raise DecodeError("Error parsing message with type 'm': Arena alloc failed")


def test_a_lack_of_memory_is_not_the_content(folder, monkeypatch):
    """As zlib and protobuf tell it."""
    monkeypatch.setitem(MESSAGES, "layout", Full)
    (folder / "x.pb").write_bytes(b"x")
    with pytest.raises(MemoryError):
        detect_kind(folder / "x.pb")

    def full(*_: object) -> None:
        raise zlib.error("Error -4 while decompressing data: insufficient memory")

    monkeypatch.setattr(zipfile.ZipExtFile, "read", full)
    with pytest.raises(MemoryError):
        read_layout(folder / "layout.npz")


def test_a_header_that_is_nested_too_deeply_is_content(folder):
    """Python's parser calls it a lack of memory."""
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"-" * 7000 + b"1,)}"
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text
    path = rezip(folder / "bad.npz", members(folder / "layout.npz") | {"node_opcode": data})
    with pytest.raises(DataError, match=r"bad\.npz: node_opcode: found ValueError a header"):
        read_layout(path)


def test_a_directory_of_many_members_is_not_held(folder):
    path = folder / "bad.npz"
    with zipfile.ZipFile(path, "w") as file:
        for number in range(25_000):
            file.writestr(str(number), b"")
    with pytest.raises(DataError, match=r"file: found BadZipFile a directory of 1\d+ bytes"):
        read_layout(path)
