"""The network of learned costs: what it sums, and what its scores do not depend on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from lib.models.context import ContextBatch
from lib.models.plus import CostBatch, TGraphPlus
from lib.train.fold import Sample
from lib.train.loss import LOSSES, NOISE, SHARPNESS, pairwise_logistic

COPY_WIDTH, OFF_LAYOUT_WIDTH, REPEATED_WIDTH, NODE_WIDTH = 12, 7, 5, 6
NODES = 3


def batch_of(
    seed: int = 0, copies: int = 7, operations: int = 5, repeated: int = 4, configurations: int = 6
) -> CostBatch:
    rng = np.random.default_rng(seed)

    def places(items: int, rows: int = configurations) -> torch.Tensor:
        count = 4 * rows if items else 0
        pairs = np.stack([rng.integers(0, rows, count), rng.integers(0, max(1, items), count)])
        return torch.from_numpy(pairs.T.copy())

    def features(items: int, width: int) -> torch.Tensor:
        return torch.from_numpy(rng.normal(size=(items, width)).astype(np.float32))

    return CostBatch(
        copies=features(copies, COPY_WIDTH),
        copy_bytes=torch.from_numpy(rng.random(copies).astype(np.float32)),
        off_layout=features(operations, OFF_LAYOUT_WIDTH),
        off_layout_bytes=torch.from_numpy(rng.random(operations).astype(np.float32)),
        off_layout_places=places(operations),
        repeated=features(repeated, REPEATED_WIDTH),
        repeated_work=torch.from_numpy(rng.random(repeated).astype(np.float32)),
        repeated_places=places(repeated),
        configurations=configurations,
        context=ContextBatch(
            nodes=features(NODES, NODE_WIDTH),
            node=torch.arange(NODES),
            copied=places(copies, NODES),
            read=places(copies, NODES),
            off_layout=places(operations, NODES),
            layers=[],
            copies=torch.column_stack(
                [torch.arange(copies), torch.from_numpy(rng.integers(0, NODES, (copies, 2)))]
            ),
            copy_places=places(copies),
        ),
    )


def with_context(batch: CostBatch, **changed: torch.Tensor) -> CostBatch:
    return replace(batch, context=replace(batch.context, **changed))


@pytest.fixture
def network() -> TGraphPlus:
    torch.manual_seed(0)
    widths = COPY_WIDTH, OFF_LAYOUT_WIDTH, REPEATED_WIDTH, NODE_WIDTH
    made = TGraphPlus(*widths, channels=16, members=2, context_blocks=0).eval()
    made.inputs.copies.fit(batch_of(1, copies=50).copies)
    made.inputs.off_layout.fit(batch_of(1, operations=50).off_layout)
    made.inputs.repeated.fit(batch_of(1, repeated=50).repeated)
    return made


def test_a_score_is_the_sum_of_its_costs(network):
    """Of a new network, to which surroundings add nothing yet."""
    batch = batch_of()
    scores = network(batch).detach().numpy()
    sums = np.zeros((2, batch.configurations))
    of_copies = network.copy_cost(network.inputs.copies(batch.copies)).exp()
    of_operations = network.off_layout_cost(network.inputs.off_layout(batch.off_layout))
    of_repeated = network.repeated_cost(network.inputs.repeated(batch.repeated)).exp()
    each = zip(sums, of_copies, of_operations, of_repeated, strict=True)
    for expected, copies, operations, repeated in each:
        for configuration, place in batch.context.copy_places.tolist():
            expected[configuration] += copies[place].item() * batch.copy_bytes[place].item()
        for configuration, place in batch.off_layout_places.tolist():
            cost = operations[place].item() * batch.off_layout_bytes[place].item()
            expected[configuration] += cost
        for configuration, place in batch.repeated_places.tolist():
            expected[configuration] += repeated[place].item() * batch.repeated_work[place].item()
    np.testing.assert_allclose(scores, sums.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(network.train()(batch).detach().numpy(), sums, rtol=1e-5)
    assert scores.std() > 0 and not np.allclose(*sums)


def test_neither_the_order_of_configurations_nor_of_copies_matters(network):
    batch = batch_of()
    order, shuffled = torch.randperm(batch.configurations), torch.randperm(len(batch.copies))
    nn.init.normal_(network.addend.perceptrons.last.weight)
    context, copies = batch.context, torch.argsort(shuffled)
    of_copies, operations, repeated = (
        torch.stack([torch.argsort(order)[places[:, 0]], places[:, 1]], 1)
        for places in (context.copy_places, batch.off_layout_places, batch.repeated_places)
    )
    copied, read = (
        torch.stack([pairs[:, 0], copies[pairs[:, 1]]], 1)
        for pairs in (context.copied, context.read)
    )
    other = replace(
        batch,
        copies=batch.copies[shuffled],
        copy_bytes=batch.copy_bytes[shuffled],
        off_layout_places=operations,
        repeated_places=repeated,
    )
    other = with_context(
        other,
        copied=copied,
        read=read,
        copies=torch.column_stack([copies[context.copies[:, 0]], context.copies[:, 1:]]),
        copy_places=of_copies[torch.randperm(len(of_copies))],
    )
    torch.testing.assert_close(network(other), network(batch)[order])


def test_more_copies_never_make_it_faster(network):
    batch = batch_of(operations=0)
    half = with_context(batch, copy_places=batch.context.copy_places[::2])
    assert (network(batch) >= network(half)).all()


def test_more_repeated_work_never_makes_it_faster(network):
    batch = batch_of(operations=0)
    half = replace(batch, repeated_places=batch.repeated_places[::2])
    assert (network(batch) > network(half)).any() and (network(batch) >= network(half)).all()


def test_no_copies_and_no_operations(network):
    assert network(batch_of(copies=0, operations=0, repeated=0)).tolist() == [0.0] * 6


def test_every_parameter_learns(network):
    network.train()
    nn.init.normal_(network.addend.perceptrons.last.weight)
    Sample(batch_of(), [torch.arange(1, 7)], pairwise_logistic).loss(network(batch_of())).backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("loss", LOSSES.values())
def test_members_learn_each_from_its_own_scores(loss):
    runtimes = torch.tensor([3, 1, 2, 2, 5, 4])
    sample = Sample(batch_of(), [runtimes], loss)
    scores = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
    parts = [loss(own, runtimes) for own in scores]
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
    loss = pairwise_logistic(torch.from_numpy(scores), torch.from_numpy(runtimes))
    assert loss.item() == pytest.approx(total / weights)
    assert pairwise_logistic(torch.zeros(3), torch.ones(3)).item() == 0.0
    flat = torch.zeros(3, requires_grad=True)
    pairwise_logistic(flat, torch.tensor([1, 2, 3])).backward()
    assert flat.grad.isfinite().all(), "scores that are all alike"
