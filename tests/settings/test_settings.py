"""Collections, the paper's values, defaults that follow from the data, flags and refusals."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib import settings
from lib.files.errors import UserError
from lib.models.tgraph_plus.settings import TGraphPlusSettings
from lib.models.tile.settings import TileSettings
from lib.settings import MODELS, settings_for
from lib.settings.resolved import BUNDLED, BUNDLED_TPU
from lib.tpugraphs.dataset import TPUGRAPHS, WORDS
from lib.training.schedule import MOST_PASSES, STEPS, passes_of
from tests.builders import COLLECTION, CPU_LAYOUTS
from tests.synthetic import write_collection

EVERY = [one for models in MODELS.values() for one in models.values()]
TRAINED = [one for one in EVERY if one.model != "prices"]
FIELDS = {field.name for one in EVERY for field in dataclasses.fields(one)}
OF_KIND = {"layout": COLLECTION, "tile": "tile-xla", "programs": "programs-cpu"}
TPU_LAYOUTS = dataclasses.replace(CPU_LAYOUTS, hardware="tpu")


@pytest.mark.parametrize(
    ("collection", "epochs", "configurations"),
    [
        ("layout-xla-random", 750, 128),
        ("layout-xla-default", 750, 64),
        ("layout-nlp-random", 1000, 128),
        ("layout-nlp-default", 1000, 64),
    ],
)
def test_the_papers_values_for_official_data(collection, epochs, configurations):
    found = settings_for(collection, TPUGRAPHS, overrides={"model": "tgraph"})
    paper = {
        "epochs": epochs,
        "configurations": configurations,
        "hops": 1,
        "channels": 256,
        "blocks": 2,
        "opcode_channels": 16,
        "layout_channels": 4,
        "squeeze": 8,
        "learning_rate": 1e-3,
        "weight_decay": 1e-5,
        "warmup": 0.05,
        "gradient_clip": 1.0,
        "folds_total": 20,
        "inference_configurations": 128,
        "permutations": 10,
        "best_folds": 4,
        "also": "none",
    }
    assert {name: getattr(found, name) for name in paper} == paper
    assert found.identifier == collection.replace("-", ":")
    assert found.folder == Path(collection.replace("-", "/"))


# The default model.


def official_form(root: Path) -> None:
    """Leave no ``dataset.json``, and an official name."""
    (root / "dataset.json").unlink()
    graph = next(root.rglob("*.npz"))
    graph.rename(graph.with_name("bert_pretraining.4x4.fp16.npz"))


@pytest.mark.parametrize(
    ("programs", "model"), [(2, "prices"), (3, "prices"), (19, "prices"), (25, "tgraph")]
)
def test_official_data_of_few_programs_are_no_networks(tmp_path, programs, model):
    write_collection(tmp_path, COLLECTION, train=programs - 1, valid=1, test=2)
    official_form(tmp_path)
    found = settings.resolve(arguments("--data", str(tmp_path)))
    assert (found.settings.model, found.dataset) == (model, TPUGRAPHS)
    why = type(found.settings).evidence.format(programs=f"{programs} programs")
    assert found.choice().startswith(f"{model} ({why}) on {COLLECTION} ")
    named = settings.resolve(arguments("--data", str(tmp_path), "--model", "tgraph"))
    assert named.settings.model == "tgraph"
    assert named.choice().startswith("tgraph (as --model says) on")


def test_a_model_that_cannot_read_the_hardware_is_refused_in_a_line():
    line = (
        r"^--model tgraph-plus: it reads what the compiler does on cpu, and these programs are of "
        r"tpu; use another --model \(MODEL of make\)$"
    )
    with pytest.raises(UserError, match=line):
        settings_for(COLLECTION, TPU_LAYOUTS, {"model": "tgraph-plus"})
    with pytest.raises(UserError, match=r"^--model prices: .* of cpu; use another"):
        settings_for(COLLECTION, CPU_LAYOUTS, {"model": "prices"})


def test_hardware_that_is_given_decides_as_that_of_the_data_does():
    given = settings_for(COLLECTION, TPU_LAYOUTS, {"hardware": "cpu"})
    assert given == settings_for(COLLECTION, CPU_LAYOUTS, {})
    assert settings_for(COLLECTION, TPU_LAYOUTS, {}).model != given.model


@pytest.mark.parametrize("kind", EVERY)
def test_what_must_be_positive(kind):
    dataset = dataclasses.replace(CPU_LAYOUTS, hardware=kind.hardware_of[0])
    counted = [
        one.name for one in dataclasses.fields(kind) if one.metadata.get("least", 0) in (1, 1e-3)
    ]
    assert len(counted) >= 3
    for name in counted:
        with pytest.raises(UserError, match=f"--{name.replace('_', '-')} -1"):
            settings_for(OF_KIND[kind.kind], dataset, {"model": kind.model, name: -1})


@pytest.mark.parametrize("kind", EVERY)
def test_what_fits_data_are_settings_that_there_are(kind):
    for base in kind.__mro__:
        for word, values in vars(base).get("fits", {}).items():
            assert word in (*WORDS["size"], *WORDS["hardware"])
            assert values.keys() <= {one.name for one in dataclasses.fields(kind)}


@given(steps=st.integers(1, 10**6), epochs=st.integers(1, 1000))
def test_of_many_graphs_fewer_passes(steps, epochs):
    found = settings_for(COLLECTION, CPU_LAYOUTS, {})
    passes = passes_of(found, steps)
    assert 1 <= passes <= MOST_PASSES
    assert passes == MOST_PASSES or passes * steps >= STEPS - steps / 2
    assert passes == 1 or passes * steps <= STEPS + steps / 2
    assert passes_of(dataclasses.replace(found, epochs=epochs), steps) == epochs


# The command line.


def arguments(*flags: str, collection: str = COLLECTION):
    return settings.parser("x").parse_args(["--collection", collection, *flags])


@pytest.mark.parametrize("kind", EVERY)
def test_every_setting_is_a_flag(kind):
    def read(*flags):
        found = vars(arguments("--model", kind.model, *flags, collection=OF_KIND[kind.kind]))
        return {name: found[name] for name in found if name in fields.keys() - {"model"}}

    fields = {one.name: one for one in dataclasses.fields(kind) if "help" in one.metadata}
    samples = {"int": ("7", 7), "float": ("0.5", 0.5), "str": ("x", "x")}
    for name in fields.keys() - {"model"}:
        flag, type_name = "--" + name.replace("_", "-"), fields[name].type
        if type_name == "bool":
            assert read(flag) == {name: True}
            assert read(flag.replace("--", "--no-")) == {name: False}
        elif type_name == "int | str":
            for word in fields[name].metadata["words"]:
                assert read(flag, word) == {name: word}
            assert read(flag, "7") == {name: 7}
        else:
            text, value = samples[type_name]
            assert read(flag, text) == {name: value}
    assert read() == {}


@pytest.mark.parametrize(
    ("collection", "model", "flag", "line"),
    [
        ("tile-xla", "tile", "--hops", "unrecognized arguments: --hops 2"),
        (COLLECTION, "tgraph", "--kernels", "unrecognized arguments: --kernels 2"),
        (COLLECTION, "tgraph", "--no-such", "unrecognized arguments: --no-such .*--help names"),
        (COLLECTION, "tgraph", "--epoch", "unrecognized arguments: --epoch 2"),  # shortened
        (COLLECTION, "gst", "--squeeze", "^--squeeze: gst has no such setting; it is .*tgraph"),
        (COLLECTION, "prices", "--channels=2", "^--channels: prices has no such setting; it is"),
        (COLLECTION, "gat", "--no-history", "^--no-history: gat has no such .* it is of gst$"),
    ],
)
def test_flags_that_the_model_does_not_read_are_refused(collection, model, flag, line):
    with pytest.raises(UserError, match=line) as error:
        arguments("--model", model, *flag.partition("=")[:1], "2", collection=collection)
    assert "\n" not in str(error.value)


def test_an_unknown_model_is_refused():
    with pytest.raises(UserError, match="--model 'gts': not one of tgraph-plus, tgraph, prices, "):
        arguments("--model", "gts")
    with pytest.raises(UserError, match=r"--model 'tgraph': not one of tile$"):
        arguments("--model", "tgraph", collection="tile-xla")


@pytest.mark.parametrize(
    ("model", "hops", "results", "cache"),
    [
        ("tgraph-plus", None, "", "cache"),
        ("tgraph-plus", "2", "", "cache-2"),
        ("tgraph", "all", "@tgraph", "cache-all"),
        ("gst", None, "@gst", "cache-all"),
        ("gat", "1", "@gat", "cache"),
    ],
)
def test_models_lie_side_by_side_and_share_caches(model, hops, results, cache):
    flags = ["--model", model, *(["--hops", hops] if hops else [])]
    found = settings.resolve(arguments(*flags)).settings
    assert found.results == f"{COLLECTION}{results}"
    assert found.cache == Path(COLLECTION, cache)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--segment-dropout", "1"), "--segment-dropout 1"),
        (("--segment-dropout", "0.5", "--no-history"), "use --history"),
        (("--hardware", "gpu"), "--hardware 'gpu': must be one of cpu, tpu"),
        (("--hops", "0"), "--hops 0: must be at least 1"),
        (("--channels", "9" * 20), "--channels 9{20}: must be from . to "),
        (("--save-seconds", "-1"), "--save-seconds -1"),
    ],
)
def test_values_that_gst_cannot_have(flags, message):
    with pytest.raises(UserError, match=message):
        settings.resolve(arguments("--model", "gst", *flags))


def test_help_shows_the_flags_of_the_collections_kind(capsys):
    data = str(BUNDLED)
    for flags, kind in (
        (("--collection", "tile-xla"), TileSettings),
        (("--collection", "layout-nlp-random", "--data", data), TGraphPlusSettings),
    ):
        with pytest.raises(SystemExit):
            settings.parser("x").parse_args([*flags, "--help"])
        shown = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
        own = {f"--{f.name.replace('_', '-')}" for f in dataclasses.fields(kind)}
        every = {f"--{name.replace('_', '-')}" for name in FIELDS}
        assert shown & every == own


@pytest.mark.parametrize(
    ("together", "folds", "line"),
    [
        ("graph", 4, "; 4 folds, not 5: no more graphs can be ranked"),
        ("family", 2, "; 2 folds, not 5: no more families can be ranked"),
    ],
)
def test_few_graphs_make_few_folds(tmp_path, together, folds, line):
    """Settings, make and the first line of stage 2 have as many folds as can be filled."""
    write_collection(tmp_path, COLLECTION, train=3, valid=1, test=9)
    folder = tmp_path / "npz/layout/xla/default/train"
    for index in range(3):
        (folder / f"train_{index}.v1.0.npz").rename(folder / f"one.v{index}.npz")
    found = settings.resolve(arguments("--data", str(tmp_path), "--keep-together", together))
    assert found.settings.folds_total == folds
    assert found.choice().endswith(f"{tmp_path}{line}")
    more = settings.resolve(arguments("--data", str(tmp_path), "--folds-total", "5"))
    assert more.settings.folds_total == 5
    assert more.choice().endswith(str(tmp_path))


def test_show_prints_every_setting(capsys):
    with pytest.raises(SystemExit) as done:
        settings.resolve(arguments("--data", str(BUNDLED), "--channels", "8", "--show"))
    assert not done.value.code
    rows = [re.split("  +", line) for line in capsys.readouterr().out.splitlines()]
    shown = {row[0]: tuple(row[1:]) for row in rows}
    assert shown["channels"] == ("8",)
    assert shown["learning-rate"] == ("0.002",)
    assert shown["members"] == ("2",)
    assert len(shown) == len(dataclasses.fields(TGraphPlusSettings)) + 2  # head, and why


@pytest.mark.parametrize("kind", TRAINED)
def test_when_training_is_saved_makes_no_other_run(kind):
    one, other = (kind(OF_KIND[kind.kind], save_seconds=seconds) for seconds in (0.0, 60.0))
    assert settings.described(one) == settings.described(other)
    fields = {field.name for field in dataclasses.fields(kind)}
    assert set(settings.described(one)) == fields - {"save_seconds", "experiment"}


def test_a_switch_implies_settings_that_a_flag_beats():
    flags = ["--model", "cdmpp", "--paper", "--batch", "32"]
    found = settings.resolve(arguments(*flags, collection="programs-cpu")).settings
    assert (found.learning_rate, found.weight_decay, found.batch) == (1.68e-5, 1.3e-3, 32)
    assert (found.optimizer, found.schedule) == ("adam", "cyclic")
    assert (found.warmup, found.gradient_clip) == (0, 2)
    plain = settings.resolve(arguments("--model", "cdmpp", collection="programs-cpu")).settings
    assert (plain.learning_rate, plain.optimizer) == (1e-3, "adamw")


def test_a_folder_without_a_collection_says_which_it_has():
    with pytest.raises(UserError) as error:
        settings.root_of("layout-xla-random", BUNDLED_TPU)
    assert str(error.value).endswith(
        "; it has COLLECTION=layout-xla-default and COLLECTION=tile-xla"
    )
