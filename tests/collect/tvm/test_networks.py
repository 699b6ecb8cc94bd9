"""The networks run, and are as many and as various as they should be."""

from __future__ import annotations

import pytest
import torch

from lib.collect.tvm.networks import TEST, all_networks, chosen_networks
from lib.files.errors import UserError

NETWORKS = all_networks()
ONE_EACH = {n.family: n for n in reversed(NETWORKS)}


def test_there_are_many_and_each_has_a_name_of_its_own():
    names = [n.name for n in NETWORKS]
    assert len(names) == len(set(names)) >= 60
    assert len(ONE_EACH) >= 30
    assert set(TEST) <= set(names)
    batches = {int(name.rsplit("b", 1)[1]) for name in names}
    assert {1, 2, 4, 8, 16} <= batches


def test_neighbours_in_the_order_are_of_different_kinds():
    families = [n.family for n in NETWORKS]
    assert len(set(families[:16])) >= 8


@pytest.mark.parametrize("family", sorted(ONE_EACH))
def test_a_network_of_each_family_runs_and_gives_numbers(family):
    module, inputs = ONE_EACH[family].build()
    with torch.no_grad():
        outputs = module.eval()(*inputs)
    for output in outputs if isinstance(outputs, tuple) else (outputs,):
        assert output.isfinite().all() and output.numel()


def test_names_are_chosen_by_patterns():
    assert {n.family for n in chosen_networks("bert*,gpt*")} == {"bert", "gpt"}
    with pytest.raises(UserError, match="--list names them"):
        chosen_networks("no_such*")
