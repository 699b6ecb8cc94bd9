"""Collections, the paper's values, overrides, and that nothing is set in vain."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib import settings
from lib.files.errors import DataError, UserError
from lib.models.tgraph_plus.settings import TGraphPlusSettings
from lib.models.tile.settings import TileSettings
from lib.runs.make import settings_of
from lib.settings import COLLECTIONS, MODELS, settings_for
from lib.settings.resolved import BUNDLED, BUNDLED_TPU
from lib.settings.tables import cache_of, check_trained_with
from lib.tpugraphs.dataset import LAYOUT_COLLECTIONS, TPUGRAPHS, WORDS, read_dataset
from lib.training.schedule import MOST_PASSES, STEPS, passes_of
from tests.builders import CPU_LAYOUTS
from tests.stages import REPOSITORY
from tests.synthetic import write_collection

EVERY = [one for models in MODELS.values() for one in models.values()]
CHOSEN = ("collection", "model")
FIELDS = {field.name for one in EVERY for field in dataclasses.fields(one)}


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
    }
    assert {name: getattr(found, name) for name in paper} == paper
    assert found.identifier == collection.replace("-", ":")
    assert found.folder == Path(collection.replace("-", "/"))


def test_the_papers_values_for_tiles():
    found = settings_for("tile-xla", TPUGRAPHS, overrides={})
    paper = {"epochs": 17.5, "learning_rate": 1e-3, "weight_decay": 1e-5, "folds_total": 20}
    paper |= {"kernels": 1}  # whose 100,000 steps are 17.5 passes over 5,709 kernels, one a step
    assert {name: getattr(found, name) for name in paper} == paper
    assert (found.identifier, found.folder) == ("tile:xla", Path("tile/xla"))
    bundled = settings_for("tile-xla", read_dataset(BUNDLED_TPU), {})
    assert bundled.folds_total < 20 and bundled.kernels == 8


@pytest.mark.parametrize("dataset", [TPUGRAPHS, CPU_LAYOUTS])
def test_models_of_one_name_have_the_values_of_their_kind(dataset):
    """Kernels have some forty nodes: what cuts graphs of hundreds would leave them whole."""

    def found(collection, model):
        return settings_for(collection, dataset, {"model": model})

    small = dataset.size == "small"
    assert found("tile-xla", "gst").segment_nodes == 16
    assert found("layout-xla-random", "gst").segment_nodes == (64 if small else 1024)
    assert found("tile-xla", "partitioning").trained_nodes == 16
    assert found("layout-xla-random", "partitioning").trained_nodes == (128 if small else 1024)
    for model in ("gst", "partitioning", "gat", "pooling"):
        tile = found("tile-xla", model)
        assert (tile.results, tile.cache) == (f"tile-xla@{model}", Path("tile-xla", "cache"))
        assert tile.metric == "tile_score"


@pytest.mark.parametrize(
    ("name", "value"), [("epochs", 0.0), ("kernels", 0), ("configurations", 1), ("channels", 20)]
)
def test_values_that_a_tile_collection_cannot_have(name, value):
    with pytest.raises(UserError, match=f"--{name} {value}"):
        settings_for("tile-xla", TPUGRAPHS, {name: value})


@pytest.mark.parametrize("collection", LAYOUT_COLLECTIONS)
def test_bundled_data_want_fewer_folds(collection):
    found = settings_for(collection, CPU_LAYOUTS, overrides={})
    assert found.folds_total < 20
    assert passes_of(found, 10) < 750
    assert found.score_training


def test_overrides_take_precedence():
    for dataset in (TPUGRAPHS, CPU_LAYOUTS):
        found = settings_for("layout-nlp-random", dataset, {"epochs": 3, "seed": 2})
        assert (found.epochs, found.seed) == (3, 2)


@pytest.mark.parametrize(
    ("wrong", "near"),
    [("layout-xla-defualt", "layout-xla-default"), ("nlp-random", "layout-nlp-random")],
)
def test_an_unknown_collection_suggests_the_nearest(wrong, near):
    with pytest.raises(UserError, match=f"did you mean {near}"):
        settings_for(wrong, TPUGRAPHS, {})


def test_an_unknown_collection_like_none_lists_them_all():
    with pytest.raises(UserError, match=", ".join(COLLECTIONS)) as error:
        settings_for("0123456789", TPUGRAPHS, {})
    assert "did you mean" not in str(error.value)


@pytest.mark.parametrize(
    "name",
    [
        "threads",
        "hops",
        "epochs",
        "configurations",
        "permutations",
        "best_folds",
        "channels",
        "opcode_channels",
        "layout_channels",
        "squeeze",
        "validate_every",
        "inference_configurations",
        "temperature",
    ],
)
def test_what_must_be_positive(name):
    with pytest.raises(UserError, match=f"--{name.replace('_', '-')} 0"):
        settings_for("layout-xla-default", TPUGRAPHS, {"model": "tgraph", name: 0})


def test_a_negative_seed():
    with pytest.raises(UserError, match="--seed -1"):
        settings_for("layout-xla-default", TPUGRAPHS, {"seed": -1})


def arguments(*flags: str, collection: str = "layout-xla-default"):
    return settings.parser("x").parse_args(["--collection", collection, *flags])


@pytest.mark.parametrize("chosen", EVERY)
def test_every_setting_is_a_flag(chosen):
    collection = {"layout": "layout-xla-default", "tile": "tile-xla", "programs": "programs-cpu"}[
        chosen.kind
    ]

    def parse(*flags):
        found = arguments("--model", chosen.model, *flags, collection=collection)
        assert found.model == chosen.model
        del found.model
        return argparse.Namespace(**{**vars(found), "model": chosen.model})

    def read(*flags):
        found = vars(parse(*flags))
        return {name: found[name] for name in found if name in fields.keys() - {*CHOSEN}}

    fields = {field.name: field for field in dataclasses.fields(chosen)}
    types = {name: field.type for name, field in fields.items()}
    samples = {"int": ("7", 7), "float": ("0.5", 0.5), "str": ("x", "x")}
    for name in types:
        if name in CHOSEN:
            continue
        flag = "--" + name.replace("_", "-")
        if types[name] == "bool":
            assert read(flag) == {name: True}
            assert read(flag.replace("--", "--no-")) == {name: False}
        elif types[name] == "int | str":
            for word in fields[name].metadata["words"]:
                assert read(flag, word) == {name: word}
            assert read(flag, "7") == {name: 7}
        else:
            text, value = samples[types[name]]
            assert read(flag, text) == {name: value}
    assert read() == {}


@given(steps=st.integers(1, 10**6), epochs=st.integers(1, 1000))
def test_of_many_graphs_fewer_passes(steps, epochs):
    chosen = settings_for("layout-xla-default", CPU_LAYOUTS, {})
    passes = passes_of(chosen, steps)
    assert 1 <= passes <= MOST_PASSES
    assert passes == MOST_PASSES or passes * steps >= STEPS - steps / 2
    assert passes == 1 or passes * steps <= STEPS + steps / 2
    assert passes_of(dataclasses.replace(chosen, epochs=epochs), steps) == epochs


@pytest.mark.parametrize(
    ("collection", "flag"),
    [
        ("tile-xla", "--hops"),
        ("layout-xla-default", "--kernels"),
        ("layout-xla-default", "--segment-nodes"),
    ],
)
def test_flags_of_another_kind_are_refused(collection, flag):
    with pytest.raises(UserError, match=f"unrecognized arguments: {flag} 2"):
        arguments(flag, "2", collection=collection)


@pytest.mark.parametrize(
    ("model", "flag"), [("gst", "--squeeze"), ("gst", "--temperature"), ("gat", "--cut")]
)
def test_flags_of_another_model_are_refused(model, flag):
    with pytest.raises(UserError, match=f"unrecognized arguments: {flag} 2"):
        arguments("--model", model, flag, "2")


@pytest.mark.parametrize("chosen", EVERY)
def test_flags_of_makes_variables_are_of_every_model(chosen):
    assert {"epochs", "seed", "permutations"} <= {one.name for one in dataclasses.fields(chosen)}


def test_an_unknown_model_is_refused():
    with pytest.raises(UserError, match="--model 'gts': not one of tgraph-plus, tgraph, gst"):
        arguments("--model", "gts")
    with pytest.raises(UserError, match=r"--model 'tgraph': not one of tile, gst, pooling, .*gat$"):
        arguments("--model", "tgraph", collection="tile-xla")


@pytest.mark.parametrize(
    ("model", "hops", "results", "cache"),
    [
        ("tgraph-plus", None, "", "cache"),
        ("tgraph-plus", "2", "", "cache-2"),
        ("tgraph", None, "@tgraph", "cache"),
        ("tgraph", "all", "@tgraph", "cache-all"),
        ("gst", None, "@gst", "cache-all"),
        ("gat", "1", "@gat", "cache"),
    ],
)
def test_models_lie_side_by_side_and_share_caches(model, hops, results, cache):
    flags = ["--model", model, *(["--hops", hops] if hops else [])]
    chosen = settings.resolve(arguments(*flags)).settings
    assert chosen.results == f"layout-xla-default{results}"
    assert chosen.cache == Path("layout-xla-default", cache)
    about = {**dataclasses.asdict(chosen)}
    assert cache_of(Path("out") / chosen.results, about) == Path("out") / chosen.cache


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--segment-dropout", "1"), "--segment-dropout 1"),
        (("--segment-dropout", "0.5", "--no-history"), "use --history"),
        (("--cut", "words"), "--cut 'words': must be one of length, splits"),
        (("--heads", "3"), "--channels 64: must be a multiple of 3"),
        (("--hops", "0"), "--hops 0: must be at least 1"),
    ],
)
def test_values_that_gst_cannot_have(flags, message):
    with pytest.raises(UserError, match=message):
        settings.resolve(arguments("--model", "gst", *flags))


CHOICES = {
    one.name: one.metadata["choices"]
    for one in dataclasses.fields(settings.PlusSettings)
    if one.metadata.get("choices")
}


@pytest.mark.parametrize("name", CHOICES)
def test_words_that_a_setting_does_not_know(name):
    known = ", ".join(CHOICES[name])
    flag = f"--{name.replace('_', '-')}"
    with pytest.raises(UserError, match=f"^{flag} 'x': must be one of {re.escape(known)}$"):
        settings.resolve(arguments(flag, "x"))


@pytest.mark.parametrize("part", ["channel_attention", "cross_attention", "edges"])
def test_weights_that_were_trained_with_another_network_are_refused(part):
    chosen, other = (
        settings_for("layout-xla-default", TPUGRAPHS, {"model": "tgraph", part: present})
        for present in (True, False)
    )
    about = {**settings.described(chosen), "fold": 0, "kept": chosen.weights}
    check_trained_with(Path("weights"), about, chosen, 0)
    with pytest.raises(DataError, match=part):
        check_trained_with(Path("weights"), about, other, 0)


def test_help_shows_the_flags_of_the_collections_kind(capsys):
    for collection, kind in (("tile-xla", TileSettings), ("layout-nlp-random", TGraphPlusSettings)):
        with pytest.raises(SystemExit):
            arguments("--help", collection=collection)
        shown = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
        own = {f"--{f.name.replace('_', '-')}" for f in dataclasses.fields(kind)}
        every = {f"--{name.replace('_', '-')}" for name in FIELDS}
        assert shown & every == own


def test_without_tile_data_it_says_how_to_get_some(tmp_path):
    with pytest.raises(UserError) as error:
        settings.resolve(arguments("--data", str(tmp_path), collection="tile-xla")).root()
    assert "make download COLLECTION=tile-xla" in str(error.value)
    assert f"tuning protobufs can be put into {tmp_path}/npz/tile/xla/train" in str(error.value)
    assert "\n" not in str(error.value)


def test_help_without_a_collection_names_the_models_and_no_settings(capsys):
    with pytest.raises(SystemExit):
        settings.parser("x").parse_args(["--help"])
    shown = "".join(capsys.readouterr().out.split())
    assert "--epochs" not in shown
    for models in MODELS.values():
        assert ",".join(models) in shown


def test_a_flag_is_told_wrong_in_one_line():
    with pytest.raises(UserError, match=r"unrecognized arguments: --no-such .*--help names"):
        arguments("--no-such", "3")
    with pytest.raises(UserError, match="--collection"):
        settings.parser("x").parse_args(["--collection"])


def official_form(root: Path) -> None:
    """No ``dataset.json``, and an official name."""
    (root / "dataset.json").unlink()
    graph = next(root.rglob("*.npz"))
    graph.rename(graph.with_name("bert_pretraining.4x4.fp16.npz"))


def test_resolve_finds_the_root_and_its_settings(tmp_path):
    write_collection(tmp_path, "layout-xla-default", train=1, valid=0, test=0)
    official_form(tmp_path)
    line = "--data", str(tmp_path), "--epochs", "9", "--folds-total", "20"
    found = settings.resolve(arguments(*line))
    chosen, root = found.settings, found.root()
    assert (chosen.model, chosen.epochs, chosen.folds_total) == ("tgraph-plus", 9, 20)
    assert (root.path, root.dataset) == (tmp_path, TPUGRAPHS)


@pytest.mark.parametrize(
    ("together", "folds", "told"),
    [
        ("graph", 4, "; 4 folds, not 5: no more graphs can be ranked"),
        ("family", 2, "; 2 folds, not 5: no more families can be ranked"),
    ],
)
def test_few_graphs_make_few_folds(tmp_path, together, folds, told):
    """Settings, make's plan and the first line of stage 2 have as many folds as can be filled."""
    write_collection(tmp_path, "layout-xla-default", train=3, valid=1, test=9)
    folder = tmp_path / "npz/layout/xla/default/train"
    for index in range(3):
        (folder / f"train_{index}.v1.0.npz").rename(folder / f"one.v{index}.npz")
    found = settings.resolve(arguments("--data", str(tmp_path), "--keep-together", together))
    assert found.settings.folds_total == folds
    assert found.choice().endswith(f"{tmp_path}{told}")
    assert settings_of("layout-xla-default", data=str(tmp_path)).folds_total == 2  # by family
    more = settings.resolve(arguments("--data", str(tmp_path), "--folds-total", "5"))
    assert more.settings.folds_total == 5
    assert more.choice().endswith(str(tmp_path))


@pytest.mark.parametrize("flag", ["--mod", "--epoch", "--collect"])
def test_a_shortened_flag_is_refused(flag):
    with pytest.raises(UserError, match="unrecognized arguments"):
        arguments(flag, "9")


def test_show_prints_every_setting_and_where_it_comes_from(capsys):
    with pytest.raises(SystemExit) as done:
        settings.resolve(arguments("--data", str(BUNDLED), "--channels", "8", "--show"))
    assert not done.value.code
    rows = [re.split("  +", line) for line in capsys.readouterr().out.splitlines()]
    shown = {row[0]: tuple(row[1:]) for row in rows}
    assert shown["channels"] == ("8", "command line")
    assert shown["learning-rate"] == ("0.002", "this data root")
    assert shown["members"] == ("2", "default")
    assert len(shown) == len(dataclasses.fields(settings.PlusSettings)) + 2  # head, data root


def test_show_tells_official_values_from_defaults(tmp_path, capsys):
    write_collection(tmp_path, "layout-nlp-default", train=1, valid=0, test=0)
    official_form(tmp_path)
    line = ("--data", str(tmp_path), "--model", "tgraph", "--show")
    with pytest.raises(SystemExit):
        settings.resolve(arguments(*line, collection="layout-nlp-default"))
    assert re.search(r"epochs +1000 +official\n", capsys.readouterr().out)


@pytest.mark.parametrize("flag", ["--channels", "--epochs", "--seed", "--threads"])
def test_numbers_that_no_machine_has_are_refused(flag):
    with pytest.raises(UserError, match=f"{flag} 9{{20}}: must be from . to "):
        settings.resolve(arguments(flag, "9" * 20))


def test_show_needs_no_fold():
    parsed = settings.parser("x")
    parsed.add_argument("--fold", required=True)
    assert parsed.parse_args(["--collection", "tile-xla", "--show"]).fold is None


@pytest.mark.parametrize("chosen", EVERY)
def test_when_training_is_saved_makes_no_other_run(chosen):
    collection = next(name for name, kind in COLLECTIONS.items() if kind == chosen.kind)
    one, other = (chosen(collection, save_seconds=seconds) for seconds in (0.0, 60.0))
    assert settings.described(one) == settings.described(other)
    fields = {field.name for field in dataclasses.fields(chosen)}
    assert set(settings.described(one)) == fields - {"save_seconds", "experiment"}
    with pytest.raises(UserError, match="--save-seconds -1"):
        chosen(collection, save_seconds=-1.0).check()


def test_every_setting_is_read_somewhere():
    read = set()
    for path in (*REPOSITORY.glob("0*.py"), *(REPOSITORY / "lib").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and _holds_settings(node.value, path):
                read.add(node.attr)
            elif isinstance(node, ast.Subscript) and _holds_settings(node.value, path):
                read.add(getattr(node.slice, "value", None))  # stage 1 has them as a dictionary
    assert FIELDS - read == set()


def _holds_settings(node: ast.expr, path: Path) -> bool:
    """Whether an expression is called what settings are called: s, chosen, [self.]settings."""
    if isinstance(node, ast.Attribute):
        return node.attr == "settings"
    names = {"settings", "chosen", "s"} | ({"self"} if path.parent.name == "settings" else set())
    return isinstance(node, ast.Name) and node.id in names


@pytest.mark.parametrize("chosen", EVERY)
def test_what_fits_data_are_settings_that_there_are(chosen):
    for base in chosen.__mro__:
        for word, values in vars(base).get("fits", {}).items():
            assert word in (*WORDS["size"], *WORDS["hardware"])
            assert values.keys() <= {one.name for one in dataclasses.fields(chosen)}


def test_a_switch_implies_settings_that_a_flag_beats():
    about = ["--model", "cdmpp", "--paper", "--batch", "32"]
    resolved = settings.resolve(arguments(*about, collection="programs-cpu"))
    found, origins = resolved.settings, resolved.origins
    assert (found.learning_rate, found.weight_decay, found.batch) == (1.68e-5, 1.3e-3, 32)
    assert (found.optimizer, found.schedule) == ("adam", "cyclic")
    assert (found.warmup, found.gradient_clip) == (0, 2)
    assert origins["learning_rate"] == "--paper" and origins["batch"] == "command line"
    plain = settings.resolve(arguments("--model", "cdmpp", collection="programs-cpu")).settings
    assert (plain.learning_rate, plain.optimizer) == (1e-3, "adamw")


def test_hardware_that_is_given_decides_as_that_of_the_data_does():
    small = dataclasses.replace(CPU_LAYOUTS, hardware="tpu")
    given = settings_for("layout-xla-default", small, {"hardware": "cpu"})
    assert given == settings_for("layout-xla-default", CPU_LAYOUTS, {})
    assert given.learning_rate > 0 == settings_for("layout-xla-default", small, {}).learning_rate
