"""The network of learned costs: what it sums, and what its scores do not depend on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from lib.layouts.rows import MOVE_FEATURES, STATE_FEATURES
from lib.model.plus import CostBatch, TGraphPlus
from lib.train.layouts import CostSample
from lib.train.loss import NOISE, SHARPNESS, pairwise_logistic


def batch_of(seed: int = 0, moves: int = 7, states: int = 5, configurations: int = 6) -> CostBatch:
    rng = np.random.default_rng(seed)

    def places(rows: int) -> torch.Tensor:
        count = 4 * configurations if rows else 0
        pairs = np.stack(
            [rng.integers(0, configurations, count), rng.integers(0, max(1, rows), count)]
        )
        return torch.from_numpy(pairs.T.copy())

    return CostBatch(
        moves=torch.from_numpy(rng.normal(size=(moves, MOVE_FEATURES)).astype(np.float32)),
        move_bytes=torch.from_numpy(rng.random(moves).astype(np.float32)),
        move_places=places(moves),
        states=torch.from_numpy(rng.normal(size=(states, STATE_FEATURES)).astype(np.float32)),
        state_bytes=torch.from_numpy(rng.random(states).astype(np.float32)),
        state_places=places(states),
        configurations=configurations,
    )


@pytest.fixture
def network() -> TGraphPlus:
    torch.manual_seed(0)
    made = TGraphPlus(MOVE_FEATURES, STATE_FEATURES, channels=16, members=2).eval()
    made.inputs.moves.fit(batch_of(1, moves=50).moves)
    made.inputs.states.fit(batch_of(1, states=50).states)
    return made


def test_a_score_is_the_sum_of_its_costs(network):
    batch = batch_of()
    scores = network(batch).detach().numpy()
    sums = np.zeros((2, batch.configurations))
    for member, expected in zip(network.members, sums, strict=True):
        moves = member.move_cost(network.inputs.moves(batch.moves)).exp()
        states = member.state_cost(network.inputs.states(batch.states))
        for configuration, row in batch.move_places.tolist():
            expected[configuration] += moves[row].item() * batch.move_bytes[row].item()
        for configuration, row in batch.state_places.tolist():
            expected[configuration] += states[row].item() * batch.state_bytes[row].item()
    np.testing.assert_allclose(scores, sums.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(network.train()(batch).detach().numpy(), sums, rtol=1e-5)
    assert scores.std() > 0 and not np.allclose(*sums)


def test_neither_the_order_of_configurations_nor_of_rows_matters(network):
    batch = batch_of()
    order, rows = torch.randperm(batch.configurations), torch.randperm(len(batch.moves))
    configurations, moves = batch.move_places.T
    places = torch.stack([torch.argsort(order)[configurations], torch.argsort(rows)[moves]], 1)
    states = torch.stack(
        [torch.argsort(order)[batch.state_places[:, 0]], batch.state_places[:, 1]], 1
    )
    other = replace(
        batch,
        moves=batch.moves[rows],
        move_bytes=batch.move_bytes[rows],
        move_places=places[torch.randperm(len(places))],
        state_places=states,
    )
    torch.testing.assert_close(network(other), network(batch)[order])


def test_more_moves_never_make_it_faster(network):
    batch = batch_of(states=0)
    half = replace(batch, move_places=batch.move_places[::2])
    assert (network(batch) >= network(half)).all()


def test_no_moves_and_no_states(network):
    assert network(batch_of(moves=0, states=0)).tolist() == [0.0] * 6


def test_every_parameter_learns(network):
    network.train()
    CostSample(batch_of(), torch.arange(1, 7), "logistic").loss(network(batch_of())).backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad.abs().sum() > 0, name


def test_members_learn_each_from_its_own_scores():
    runtimes = torch.arange(1, 7)
    sample = CostSample(batch_of(), runtimes, "logistic")
    scores = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
    parts = [pairwise_logistic(own, runtimes) for own in scores]
    torch.testing.assert_close(sample.loss(scores), sum(parts))


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
    found = pairwise_logistic(torch.from_numpy(scores), torch.from_numpy(runtimes))
    assert found.item() == pytest.approx(total / weights)
    assert pairwise_logistic(torch.zeros(3), torch.ones(3)).item() == 0.0
    flat = torch.zeros(3, requires_grad=True)
    pairwise_logistic(flat, torch.tensor([1, 2, 3])).backward()
    assert flat.grad.isfinite().all(), "scores that are all alike"
