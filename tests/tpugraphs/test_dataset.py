"""What a data root says of itself, and what is made of one that says little or nothing."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from pathlib import Path

import pytest

from lib import settings
from lib.files.errors import DataError, UserError
from lib.settings.resolved import dataset_for
from lib.tpugraphs.dataset import SAID, TPUGRAPHS, read_dataset
from tests.stages import REPOSITORY

FOLDER = Path("npz", "layout", "xla", "default")


def root_of(folder: Path, *names: str) -> Path:
    """A root whose files have names alone, which are all that is looked at."""
    for name in names:
        (folder / FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / FOLDER / name).touch()
    return folder


@pytest.mark.parametrize("names", [["train/a.npz", "test/b.v1.npz"], ["train/resnet_batch_32.npz"]])
def test_a_root_that_says_nothing_is_asked(tmp_path, names):
    """With an example that is good as it stands, in every command that asks for defaults."""
    root = root_of(tmp_path, *names)
    with pytest.raises(UserError) as error:
        dataset_for("layout-xla-default", root)
    told = str(error.value)
    assert told.startswith(f"{root}: no dataset.json")
    assert "\n" not in told
    example = told.partition("echo '")[2].partition("'")[0]
    (root / "dataset.json").write_text(example)
    assert read_dataset(root).guessed == ()


@pytest.mark.parametrize(
    "name",
    [
        "test/cd708819d3f5103afd6460b15e74eaf3.npz",
        "valid/bert_pretraining.4x4.fp16.npz",
        "valid/mlperf_bert_batch_24_2x2.pb",
        "train/unet3d.npz",
        "train/small_bert_bert_en_uncased_L-10_H-128_A-2_batch_size_32_test.npz",
        "train/retinanet.2x2.fp32_-342c949e14733d96.npz",
    ],
)
def test_official_names_tell_official_data(tmp_path, name):
    assert read_dataset(root_of(tmp_path, "train/a.npz", name)) == TPUGRAPHS


@pytest.mark.parametrize(
    ("said", "hardware"),
    [
        ({}, "tpu"),
        ({"hardware": "cpu"}, "cpu"),
    ],
)
def test_the_size_is_enough_and_what_is_guessed_is_said(tmp_path, said, hardware, capsys):
    root = root_of(tmp_path / "mine", "train/a.npz")
    (root / "dataset.json").write_text(json.dumps({"size": "small", **said}))
    found = read_dataset(root)
    assert found.hardware == hardware
    assert (found.name, found.processor) == ("mine", hardware.upper())
    args = Namespace(collection="layout-xla-default", data=root, folds_total=5)
    told = settings.resolve(args).choice()
    assert told.endswith(f"hardware {hardware}") == ("guessed" in told) == ("hardware" not in said)
    with pytest.raises(SystemExit):
        settings.resolve(Namespace(**vars(args), show=True))
    assert told in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({}, "size: found nothing"),
        ({"size": "large"}, "size: found 'large', expected one of official, small"),
        (
            {"size": "small", "hardwear": "cpu"},
            "'hardwear': found no such key, expected one of name",
        ),
        ({"size": "small", "hardware": "gpu"}, "hardware: found 'gpu', expected one of tpu, cpu"),
        ({"size": "small", "labels": 3}, "labels: found 3"),
    ],
)
def test_what_it_cannot_say(tmp_path, said, told):
    root = root_of(tmp_path, "train/a.npz")
    (root / "dataset.json").write_text(json.dumps(said))
    with pytest.raises(DataError) as error:
        read_dataset(root)
    assert told in str(error.value)


def test_the_page_has_every_key():
    page = (REPOSITORY / "docs/how-to/own-data.md").read_text()
    section = page.partition("## dataset.json")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(SAID)
