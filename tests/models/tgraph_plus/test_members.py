"""Layers of networks side by side: each is what torch's own layer of its weights is."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from lib.models.tgraph_plus.members import Linears, Perceptrons

MEMBERS, ROWS, WIDTH, CHANNELS = 3, 11, 7, 5


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def layer(made: Linears, member: int) -> nn.Linear:
    """One member's, as torch's own."""
    _, channels, width = made.weight.shape
    own = nn.Linear(width, channels, bias=made.bias is not None)
    own.weight = nn.Parameter(made.weight[member].detach())
    if made.bias is not None:
        own.bias = nn.Parameter(made.bias[member].detach())
    return own


@pytest.mark.parametrize("bias", [True, False])
def test_linears_are_linear_layers(bias):
    made = Linears(MEMBERS, WIDTH, CHANNELS, bias)
    shared, each = torch.randn(ROWS, WIDTH), torch.randn(MEMBERS, ROWS, WIDTH)
    for x, reads in ((shared, [shared] * MEMBERS), (each, each)):
        wanted = [layer(made, member)(own) for member, own in enumerate(reads)]
        torch.testing.assert_close(made(x), torch.stack(wanted))


def test_perceptrons_are_perceptrons():
    made = Perceptrons(MEMBERS, CHANNELS, dropout=0.5).eval()
    read = torch.randn(MEMBERS, ROWS, CHANNELS)
    for member, found in enumerate(made(read)):
        second, last = (layer(one, member) for one in (made.second, made.last))
        alone = nn.Sequential(nn.GELU(), second, nn.GELU(), last)
        wanted = alone(read[member]).squeeze(-1)
        torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-5)
    assert not torch.equal(made.train()(read), made.eval()(read))
    assert made(read[:, :0]).shape == (MEMBERS, 0)
