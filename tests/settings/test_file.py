"""Settings from a file: what is written is read, and nothing else is believed."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from lib import settings
from lib.files.errors import DataError, UserError
from lib.models.tgraph_plus.settings import TGraphPlusSettings
from lib.settings import MODELS
from lib.settings.file import read_settings, write_settings

EVERY = [one for models in MODELS.values() for one in models.values()]
COLLECTION = "layout-xla-default"


def values_of(one: dataclasses.Field) -> st.SearchStrategy:
    """What a setting can be, in a file."""
    least, most = (one.metadata.get(bound) for bound in ("least", "most"))
    if isinstance(one.default, bool):
        return st.booleans()
    if isinstance(one.default, int) or one.metadata.get("words"):
        return st.integers(int(least), int(most)) | st.sampled_from(
            one.metadata["words"] or (int(least),)
        )
    if isinstance(one.default, float):
        return st.floats(least, most)
    return st.text(st.characters(exclude_categories=["Cs"]))


@st.composite
def files(draw) -> tuple[type, dict]:
    """A model's settings, and values for some of them."""
    kind = draw(st.sampled_from(EVERY))
    by_flag = ("model", "experiment", *kind.cache_depends_on, *kind.others_depend_on)
    fields = dataclasses.fields(kind)
    named = [one for one in fields if "help" in one.metadata and one.name not in by_flag]
    chosen = draw(st.lists(st.sampled_from(named), unique=True))
    return kind, {one.name: draw(values_of(one)) for one in chosen}


@hypothesis_settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(made=files(), comment=st.text(st.characters(categories=["L", "Zs"])))
def test_what_is_written_is_read(tmp_path, made, comment):
    kind, values = made
    path = tmp_path / "settings.toml"
    write_settings(
        path, {"collection": "any", "model": kind.model, **values}, [comment, "two lines"]
    )
    found = read_settings(path, "any", kind)
    assert found == values
    assert {name: type(value) for name, value in found.items()} == {
        name: type(value) for name, value in values.items()
    }


def test_names_are_those_of_the_flags_and_a_whole_number_may_stand_for_another(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("# ours\nlearning-rate = 1\nvalidate_every = 2\n")
    found = read_settings(path, COLLECTION, TGraphPlusSettings)
    assert found == {"learning_rate": 1.0, "validate_every": 2}
    assert isinstance(found["learning_rate"], float)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("learning_rate = 2", "learning_rate: found 2.0, expected from 0 to 1"),
        ("learning_rate = '1'", "learning_rate: found '1', expected a finite number"),
        ("channels = 0", "channels: found 0, expected at least 1"),
        ("channels = 8.0", "channels: found 8.0, expected a whole number"),
        ("channels = true", "channels: found True, expected a whole number"),
        ("[channels]\na = 1", "channels: found {'a': 1}, expected a whole number"),
        (
            "chanels = 8",
            "'chanels': found no such setting, expected one of tgraph-plus, such as ch",
        ),
        ("'\\u0000' = 8", r"found no such setting, expected one of tgraph-plus; 02_train.py --mod"),
        ("hops = 2", r"hops: found what paths of files go by, expected --hops \(HOPS of make\)"),
        ("warmup = 0.1\nwarm-up = 1", "found no such setting, expected one of .*, such as warmup"),
        ("folds_total = 3\nfolds-total = 3", "folds-total: found it twice"),
        ("model = 'gst'", "model: found 'gst', expected 'tgraph-plus', the run's, or MODEL=gst of"),
        ("collection = 'x'", f"collection: found 'x', expected '{COLLECTION}', the run's"),
        ("channels = 8\nchannels = 8", "TOML: found .*expected a TOML file of settings"),
        (f"a = {'[' * 9999}", "TOML: found .*expected a TOML file of settings"),
        ("\ud800", "TOML: found .*expected a TOML file of settings"),
    ],
)
def test_what_a_setting_cannot_be_is_told(tmp_path, text, said):
    path = tmp_path / "a.toml"
    path.write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(DataError, match=said) as error:
        read_settings(path, COLLECTION, TGraphPlusSettings)
    assert str(error.value).startswith(f"{path}: ")


def test_what_is_no_file_of_settings(tmp_path):
    large = tmp_path / "large.toml"
    large.write_text("#" * (1 << 21))
    for path in (tmp_path, tmp_path / "missing", large):
        with pytest.raises(DataError, match=f"{path}: .*expected a TOML file"):
            read_settings(path, COLLECTION, TGraphPlusSettings)


def given_by(*flags: str, model: str = "tgraph-plus"):
    words = ["--collection", COLLECTION, "--model", model, *flags]
    parsed = settings.parser("x").parse_args(words)
    return settings.resolve(parsed).settings


def test_flags_beat_the_file_and_the_file_beats_defaults(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("channels = 8\nlearning_rate = 0.004\n")
    found = given_by("--settings", str(path), "--channels", "4")
    assert (found.channels, found.learning_rate) == (4, 0.004)
    assert found.epochs == given_by().epochs


def test_values_that_do_not_go_together_are_the_fault_of_who_gave_them(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("heads = 3\n")
    with pytest.raises(UserError, match=f"^{path}: --channels 64: must be a multiple of 3"):
        given_by("--settings", str(path), model="gst")
    assert given_by("--settings", str(path), "--channels", "9", model="gst").heads == 3
    with pytest.raises(UserError, match=r"^--segment-dropout 2"):
        given_by("--settings", str(path), "--segment-dropout", "2", model="gst")
    path.write_text("loss = 'x'\n")
    with pytest.raises(UserError, match=f"^{path}: --loss 'x': must be one of hinge"):
        given_by("--settings", str(path))
