"""Graphs' names: what stage 1 takes survives to the submission, what would not is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from lib.files.errors import UserError
from lib.scoring.expected import Collection
from lib.scoring.merge import merge
from lib.scoring.submission import read_entries, write_submission
from lib.tpugraphs.roots import DataRoot, unusable_in

FOLDER = Path("layout/xla/default")
IDENTIFIER = "layout:xla:default"
FORBIDDEN = [*',:;"\n\r\t\v\f\x1c\x1d\x1e\x1f\x7f\x85\u2028\u2029', "\udcff", "\x80"]
# Of the official collections and of ours, and others that are odd and do no harm.
GOOD = [
    "resnet_v1.5.official.8x8.bf16",
    "a@b+c=d",
    "bert.w64_d2_h2_b8_l64_v512.forward",
    "e\u0301",
    "数据",
    "🙂",
    "a b",
    "#",
    "'",
    "<svg onload=alert(1)>",
    "%s",
    "-1",
    "a.npz",
    "$(x)",
    "|",
    "*",
    "\u200b",
    "\ufeff",
]
# As many as a file system has: 255 bytes with the suffix.
names = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=60)


def root_with(folder: Path, name: str) -> DataRoot:
    """A data root whose only raw file is called so."""
    place = folder / "npz" / FOLDER / "test"
    place.mkdir(parents=True, exist_ok=True)
    for old in place.iterdir():
        old.unlink()
    (place / f"{name}.npz").touch()
    return DataRoot(folder, folder / "npz")


@given(name=names | st.sampled_from(GOOD))
@example(name="a\u2028b")
def test_a_name_that_is_taken_survives_the_submission(tmp_path_factory, name):
    folder = tmp_path_factory.getbasetemp() / "names"
    hidden = name.startswith(".")
    try:
        files = root_with(folder, name).files(FOLDER, "test")
    except UserError as error:
        assert unusable_in(name)
        assert set(name) & set(FORBIDDEN) or any(ord(one) < 160 for one in name)
        assert str(error).isprintable()
        return
    assert len(files) == (not hidden)
    counts = {name: 3}
    file = folder / "submission.csv"
    one = Collection("layout-xla-default", IDENTIFIER, file, None, counts)
    write_submission(file, [(f"{IDENTIFIER}:{name}", "2;0;1")])
    assert list(read_entries(file)) == [f"{IDENTIFIER}:{name}"]
    merged = merge([one])
    assert not merged.missing
    assert list(merged.entries) == [f"{IDENTIFIER}:{name}"]
    assert np.array_equal(merged.entries[f"{IDENTIFIER}:{name}"], [2, 0, 1])
