"""Folds are a pure function of names, K and seed."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.files.errors import UserError
from lib.ranking.folds import assign_folds, family, fold_number, splits_of_fold
from lib.settings.resolved import BUNDLED, BUNDLED_PROGRAMS, BUNDLED_TPU
from tests.builders import tiny_settings

NAMES = st.lists(st.text(max_size=8), min_size=2, max_size=40, unique=True)


@given(NAMES, st.data())
def test_every_name_in_one_fold_of_even_size(names, data):
    k = data.draw(st.integers(2, len(names)))
    seed = data.draw(st.integers(0, 2**32))
    folds = assign_folds(names, k, seed)
    assert set(folds) == set(names)
    sizes = Counter(folds.values())
    assert set(sizes) == set(range(k))
    assert max(sizes.values()) - min(sizes.values()) <= 1
    shuffled = data.draw(st.permutations(names))
    assert assign_folds([*shuffled, shuffled[0]], k, seed) == folds


def test_the_same_on_every_machine_and_in_every_version():
    folds = assign_folds([f"graph_{index}.v1" for index in range(6)], 3, 0)
    assert [folds[f"graph_{index}.v1"] for index in range(6)] == [0, 0, 2, 1, 1, 2]


FAMILIES = st.dictionaries(st.sampled_from("abcdefghijkl"), st.integers(1, 6), min_size=2)


@given(FAMILIES, st.data())
def test_families_stay_together(sizes, data):
    names = [f"{one}.v{index}.x" for one, count in sizes.items() for index in range(count)]
    k = data.draw(st.integers(2, len(sizes)))
    folds = assign_folds(names, k, 3, "family")
    assert set(folds) == set(names)
    assert set(folds.values()) == set(range(k))
    assert len({(family(name), fold) for name, fold in folds.items()}) == len(sizes)
    filled = Counter(folds.values())
    assert max(filled.values()) - min(filled.values()) <= max(sizes.values())
    assert assign_folds(data.draw(st.permutations(names)), k, 3, "family") == folds


# Official graphs of the valid splits, each both in default and in random.
VALID = {
    "bert": """bert_pretraining.4x4.fp16 mlperf_bert_batch_24_2x2
        tf2_bert_pretrain_dynamic_batch_size
        bert_en_cased_L-12_H-768_A-12_batch_size_16_test
        bert_multi_cased_L-12_H-768_A-12_batch_size_16_train
        small_bert_bert_en_uncased_L-10_H-128_A-2_batch_size_32_test
        small_bert_bert_en_uncased_L-12_H-768_A-12_batch_size_64_train
        small_bert_bert_en_uncased_L-6_H-768_A-12_batch_size_32_train""",
    "albert": "albert_en_xlarge_batch_size_16_test",
    "talking-heads": "talking-heads_large_batch_size_16_train",
    "inception_v3": "inception_v3_batch_128_train",
    "resnet50": "resnet50.4x4.fp16 resnet_v1_50_official_batch_128_bf16",
    "unet3d": "unet_3d.4x4.bf16",
}
TRAIN = {  # some of those to learn from
    "inception_v3": "inception_v3_batch_8_train inception_v3_batch_128_train_426e203f19335d17",
    "inception_v2": "inception_v2_batch_8_train",
    "resnet50": "resnet_v1_50_official_batch_32_bf16 mlperf_resnet resnet50.8x8.fp32",
    "resnet_v2": "resnet_v2_50_batch_16 resnet_v2_152_batch_128",
    "resnet50_3d": "resnet50_3d.2x2.bf16",
    "unet3d": "unet3d",
    "ssd": "inference_mlperf_ssd_1200_batch_1 mlperf_ssd_1_shard_batch_8_fast_epoch",
    "maskrcnn": "mlperf_maskrcnn_batch_2 mask_rcnn_resnet50.4x4.bf16.performance",
    "mnasnet": "mnasnet_a1_batch_128 mnasnet_b1_batch_128",
    "bert": "bert_squad.2x2.fp32 tf2_bert_squad_dynamic bert_classifier.2x2.fp32.performance",
}


@pytest.mark.parametrize("split", [VALID, TRAIN])
def test_the_families_of_official_names(split):
    for expected, names in split.items():
        assert {family(name) for name in names.split()} == {expected}
    assert sum(len(names.split()) for names in VALID.values()) == 14


def test_other_names_have_their_family_before_the_first_dot():
    names = [path.stem for root in (BUNDLED, BUNDLED_TPU) for path in root.rglob("*.npz")]
    names += pl.read_parquet(BUNDLED_PROGRAMS / "networks.parquet")["network"].unique().to_list()
    names += ["valid_0.v1", "train.x", "test", "train_1", "net_a1", "program_17", "_train"]
    assert [family(name) for name in names] == [name.partition(".")[0] for name in names]


def test_fewer_families_than_folds():
    with pytest.raises(UserError, match="from 2 to 2, the number of families"):
        assign_folds(["a.1", "a.2", "b.1"], 3, 0, "family")


@pytest.mark.parametrize("k", [-1, 0, 1, 4])
def test_too_few_graphs_or_folds(k):
    with pytest.raises(UserError, match=f"--folds-total {k}"):
        assign_folds(["a", "b", "c", "c"], k, 0)


@pytest.mark.parametrize(
    ("name", "fold"),
    [("fold_0", 0), ("fold_12", 12), ("fold_", None), ("fold_01", None), ("fold_-1", None)]
    + [(name, None) for name in ("fold_²", "fold_1_old", "folds_1", "fold_1\n", "fold_1.5")],
)
def test_a_folds_number_from_its_name(name, fold):
    assert fold_number(name) == fold


def test_the_graphs_of_a_fold():
    chosen = tiny_settings(folds_total=3)
    learning, test = [f"g{index}" for index in range(7)], ["z", "a"]
    dealt = assign_folds(learning, 3, chosen.seed, chosen.keep_together)
    for fold in range(3):
        found = splits_of_fold(reversed(learning), test, fold, chosen)
        assert list(found) == ["valid", "test", "train"]
        assert found["test"] == ["a", "z"]
        assert found["valid"] == [name for name in learning if dealt[name] == fold]
        assert sorted(found["valid"] + found["train"]) == learning
    assert splits_of_fold(learning, [], 9, chosen)["valid"] == []
