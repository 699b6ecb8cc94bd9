"""Programs side by side: batches of one number of leaves, and their predictions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lib.files.errors import UserError
from lib.programs import inputs
from lib.programs.folds import all_pairs
from lib.programs.inputs import (
    PEAK,
    batches_of,
    device_features,
    device_named,
    devices_of,
    load_programs,
    predict,
)
from lib.programs.models.cdmpp import DEVICE_FEATURES, LEAF_FEATURES, LOOP_FEATURES, Cdmpp
from lib.programs.task import ARRAYS
from lib.programs.tensorir import accesses
from lib.programs.tensorir.features import FEATURES
from lib.programs.tensorir.records import is_general
from tests.programs.builders import SPEED, device, tiny_settings, write_programs


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return write_programs(tmp_path_factory.mktemp("inputs"))


@pytest.fixture(scope="module")
def chosen(cache):
    return all_pairs(cache, cache.names("train"))


def network_of(programs) -> Cdmpp:
    torch.manual_seed(0)
    made = Cdmpp(tiny_settings()).eval()
    arrays = programs.features, programs.loops, programs.counts, programs.seconds
    made.fit(*map(torch.from_numpy, arrays))
    return made


@given(counts=st.lists(st.integers(1, 5), min_size=1, max_size=60), size=st.integers(1, 9))
def test_batches_have_every_program_once_and_one_number_of_leaves(counts, size):
    counts = np.array(counts)
    found = list(batches_of(counts, size))
    assert sorted(np.concatenate(found)) == list(range(len(counts)))
    assert all(len(set(counts[own])) == 1 and len(own) <= size for own in found)


def test_labels_are_the_geometric_mean_of_equal_programs(cache, chosen):
    programs = load_programs(cache, chosen)
    assert programs.seconds.shape == (9 * len(chosen), len(SPEED))
    task = cache.graph(next(iter(chosen)))
    first = task.seconds[(task.original[task.owner] == 0) & (task.device == 0)].astype(float)
    assert len(first) == 2
    assert programs.seconds[0, 0] == pytest.approx(np.exp(np.log(first).mean()))


def test_predictions_do_not_depend_on_batches(cache, chosen):
    programs = load_programs(cache, chosen)
    devices = device_features(devices_of(cache))
    network = network_of(programs)
    one, other = (predict(network, programs, devices, size) for size in (1, 1000))
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)
    assert one.shape == programs.seconds.shape


def test_a_device_is_what_is_known_of_it_whoever_stands_beside_it():
    names = ("sse2", "avx2", "avx512")
    one = [device(name) for name in names]
    fast = [{**device(name), "peak_gops": 128.0} for name in names]
    large = [{**device(name), "machine": {"l1_kib": 48, "l2_kib": 2048}} for name in names]
    two = [{**device(name), "threads": 2} for name in names]
    found = device_features([*one, *fast, *large, *two])
    assert found.shape == (12, DEVICE_FEATURES) and len(torch.unique(found, dim=0)) == 12
    assert found[0, PEAK:].tolist() == [0, 0, 0, 0] and found[3, PEAK] == 1
    assert found[6, PEAK:].tolist() == pytest.approx([0, np.log2(1.5), 1, 0])
    assert device_features(fast[:1]).equal(found[3:4])
    assert torch.isfinite(found).all()


def test_networks_know_the_widths_of_features_and_loops():
    assert len(FEATURES) == LEAF_FEATURES and LOOP_FEATURES == accesses.AROUND
    assert ARRAYS["features"][1] == (LEAF_FEATURES,) and ARRAYS["loops"][1] == (LOOP_FEATURES,)


def test_a_device_by_its_name_or_its_instruction_set(monkeypatch):
    def one(name: str, threads: int) -> dict:
        processor, instructions, _ = name.split(".")
        return {
            "name": name,
            "instructions": instructions,
            "processor": processor,
            "threads": threads,
        }

    devices = [one("a.avx2.2t", 2), one("a.avx2.1t", 1), one("b.avx2.1t", 1), one("b.sse2.1t", 1)]
    assert device_named("a.avx2.2t", devices) == 0
    assert device_named("avx2", devices) == 1
    assert device_named("avx2", devices, "b") == 2
    assert device_named("sse2", devices, "a") == 3
    own = {**one("a.avx512.1t", 1), "mcpu": "skylake-avx512"}
    monkeypatch.setattr(inputs, "instruction_sets", lambda: ["sse2", "avx2", "avx512"])
    for processor, number in (("a", 5), ("b", 6), ("c", 5)):
        named = {**own, "name": "a.znver4.1t", "mcpu": "znver4"}, {**own, "processor": "b"}
        assert device_named("native", [*devices, own, *named], processor) == number
    with pytest.raises(
        UserError, match=r"device 'neon': neither an instruction set \(avx2, sse2\)"
    ):
        device_named("neon", devices)
    assert device_named("native", devices, "a") == 1  # the widest set that a device has


def test_what_a_device_has_measured_it_says_or_its_name_does():
    def one(**more: object) -> dict:
        return {"instructions": "avx512", **more}

    assert is_general(one()) and is_general(one(mcpu="core-avx2"))
    assert not is_general(one(mcpu="znver4"))
    assert not is_general(one(mcpu="skylake-avx512", deployed=True))
