"""Checksums of bytes, piece by piece and of files."""

from __future__ import annotations

import zlib

from hypothesis import given
from hypothesis import strategies as st

from lib.files import checksum
from lib.files.checksum import Checksum, checksum_of


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_pieces_add_up(pieces):
    found = Checksum()
    for piece in pieces:
        found.update(piece)
    assert found.digits == f"{zlib.crc32(b''.join(pieces)):08x}"


@given(st.binary(max_size=60), st.integers(0, 60), st.integers(0, 60))
def test_a_file_without_some_of_its_bytes(tmp_path_factory, content, first, last):
    first, last = sorted(min(place, len(content)) for place in (first, last))
    path = tmp_path_factory.mktemp("checksum") / "file"
    path.write_bytes(content)
    whole, chunk = checksum_of(path), checksum.CHUNK
    checksum.CHUNK = 7
    try:
        assert checksum_of(path) == whole == f"{zlib.crc32(content):08x}"
        left = content[:first] + content[last:]
        assert checksum_of(path, (first, last)) == f"{zlib.crc32(left):08x}"
    finally:
        checksum.CHUNK = chunk
