"""The network of learned costs: what it sums, and what its scores do not depend on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from lib.models.tgraph.inputs import program_alone
from lib.models.tgraph_plus.network import CostBatch, Linears, Perceptrons, TGraphPlus
from lib.training.fold import Batch
from lib.training.loss import LOSSES, NOISE, SHARPNESS, pairwise_logistic
from tests.compiler.builders import network as program_of

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


WIDTHS = 12, 7, 5
COPIES, OFF_LAYOUT, REPEATED = range(3)
OWN = torch.eye(3).repeat_interleave(torch.tensor(WIDTHS), dim=1)  # which features a kind has
CELLS = 11
MADE, NAMED = program_of()
PROGRAM = program_alone(MADE.graph([NAMED["first"]], [[((), (), ())]]))


def batch_of(
    seed: int = 0, counts: tuple[int, int, int] = (7, 5, 4), configurations: int = 6
) -> CostBatch:
    rng = np.random.default_rng(seed)
    count = sum(counts)
    pairs = 12 * configurations if count else 0
    columns, which = rng.integers(0, configurations, pairs), rng.integers(0, count or 1, pairs)
    kinds = np.repeat(range(3), counts)
    features = rng.normal(size=(count, sum(WIDTHS))) * OWN[kinds].numpy()
    return CostBatch(
        kinds=torch.from_numpy(kinds),
        features=torch.from_numpy(features.astype(np.float32)),
        sizes=torch.from_numpy(rng.random(count).astype(np.float32)),
        places=torch.from_numpy(np.column_stack([columns, which])),
        ends=torch.from_numpy(rng.integers(0, CELLS, (pairs, 2))),
        nodes=torch.from_numpy(rng.integers(0, PROGRAM.node_count, CELLS)),
        program=PROGRAM,
        configurations=configurations,
    )


@pytest.fixture
def network() -> TGraphPlus:
    torch.manual_seed(0)
    made = TGraphPlus(WIDTHS, channels=16, members=2, context_channels=32).eval()
    many = batch_of(1, (50, 50, 50))
    made.effects.fit(many.features, many.kinds)
    return made


def hearing(network: TGraphPlus) -> TGraphPlus:
    """The network once it has learned something of surroundings."""
    nn.init.normal_(network.hears.weight)
    return network


@pytest.mark.parametrize("kind", [COPIES, REPEATED])
def test_more_of_it_never_makes_a_program_faster(network, kind):
    batch = batch_of()
    fewer = (batch.kinds[batch.places[:, 1]] != kind) | (torch.arange(len(batch.places)) % 2 == 0)
    half = replace(batch, places=batch.places[fewer], ends=batch.ends[fewer])
    assert (network(batch) > network(half)).any() and (network(batch) >= network(half)).all()


def test_nothing_happens(network):
    assert network(batch_of(counts=(0, 0, 0))).tolist() == [0.0] * 6


def test_every_parameter_learns(network):
    hearing(network.train())
    Batch(batch_of(), [torch.arange(1, 7)], pairwise_logistic).loss(network(batch_of())).backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("loss", LOSSES.values())
def test_members_learn_each_from_its_own_scores(loss):
    runtimes = torch.tensor([3, 1, 2, 2, 5, 4])
    batch = Batch(batch_of(), [runtimes], loss)
    scores = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
    parts = [loss(own, runtimes) for own in scores]
    torch.testing.assert_close(batch.loss(scores), sum(parts))


def test_the_logistic_loss_against_its_definition():
    rng = np.random.default_rng(0)
    scores, runtimes = rng.normal(size=8), rng.integers(100, 130, 8)
    z = SHARPNESS * (scores - scores.mean()) / scores.std()
    total = weights = 0.0
    for i in range(8):
        for j in range(8):
            gap = np.log(runtimes[i] / runtimes[j])
            if gap > 0:
                weight = gap / (gap + NOISE)
                total += weight * np.log1p(np.exp(-(z[i] - z[j])))
                weights += weight
    loss = pairwise_logistic(torch.from_numpy(scores), torch.from_numpy(runtimes))
    assert loss.item() == pytest.approx(total / weights)
    assert pairwise_logistic(torch.zeros(3), torch.ones(3)).item() == 0.0
    flat = torch.zeros(3, requires_grad=True)
    pairwise_logistic(flat, torch.tensor([1, 2, 3])).backward()
    assert flat.grad.isfinite().all(), "scores that are all alike"
