"""A predictor whose networks are trained further for a device.

By default, only the layers that read the device are trained, and only by programs that were
measured on it and are nearly as fast as any of their task: a few hundred show what is different on
a device, and would spoil what many more have shown of programs; and networks run fast programs.
``cmd`` is the way of CDMPP (section 5.3): all of a network is trained, by the new programs and
those that it has learned from, and the Central Moment Discrepancy keeps latent representations on
the devices that it knows and on the new one alike (equation 7).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lib.models.common.chunks import device_of
from lib.programs.calibrate.sampling import fastest_of_tasks
from lib.programs.devices import predicted_seconds
from lib.programs.inputs import Programs, batches_of, device_features
from lib.programs.losses import LATENCY_LOSSES, STEEPEST, relative_of_logarithms
from lib.programs.settings import ProgramCollection
from lib.scoring.trained import Ensemble

NEAR = 1.5  # times what the fastest program of a task takes
PARTS = 5  # of the tasks, each predicted by a predictor that was fitted to the others
STEPS = 20  # of a pass
RISING = 0.1  # share of the steps until the largest learning rate is reached
PASSES, RATE, BATCH = 10, 5e-4, 96
RELATIVE = 0.5  # of the loss; the rest pulls what is far off
MOMENTS, NARROWEST = 5, 1e-6  # of the discrepancy; of the support that it is divided by
CMD_PASSES, CMD_RATE, ALPHA = 5, 1e-4, 1.0  # of the paper's way; what its discrepancy counts
Tune = Callable[[int, nn.Module, Programs], nn.Module]  # of fold, network, programs to learn from


def errors_of_tuning(
    ensemble: Ensemble, programs: Programs, device: Mapping[str, Any], tune: Tune
) -> tuple[float, float]:
    """Return the relative errors before and after networks are tuned; after it, each part of the
    tasks is predicted by the first network alone, tuned by the other parts.

    As in training, where a prediction is :data:`STEEPEST` too large, it counts no further: else a
    few programs that are predicted far too slow would count more than all others.

    Args:
        ensemble: the predictor.
        programs: with (n, 1) seconds on the device.
        device: as the data have devices.
        tune: how a network is trained further.
    """
    truth = np.log(programs.seconds[:, 0])
    before = np.log(predicted_seconds(ensemble, programs, device)) - truth
    (fold, network), *_ = ensemble.networks.items()
    after = before.copy()
    for held in parts_of(programs.task):
        if held.all():  # one task alone: nothing else says anything of it
            continue
        trained = {fold: tune(fold, network, programs.some(~held))}
        part = predicted_seconds(replace(ensemble, networks=trained), programs.some(held), device)
        after[held] = np.log(part) - truth[held]
    return error_of(before), error_of(after)


def nearly_fastest(programs: Programs) -> Programs:
    """Return those of programs with (n, 1) seconds that are nearly as fast as any of their task."""
    seconds = programs.seconds[:, 0]
    return programs.some(seconds <= NEAR * fastest_of_tasks(programs, seconds)[programs.task])


def error_of(gap: np.ndarray) -> float:
    """Return the mean relative error of logarithms that are off by ``gap``, at most
    :data:`STEEPEST` counting."""
    return float(np.abs(np.expm1(np.minimum(gap, STEEPEST))).mean())


def parts_of(task: np.ndarray) -> Iterator[np.ndarray]:
    """Yield (n,) bool of the programs of a part of the tasks, part by part; ``PARTS`` at most."""
    place = np.unique(task, return_inverse=True)[1]
    for part in range(min(PARTS, int(place.max()) + 1)):
        yield place % PARTS == part


@dataclass(frozen=True, eq=False)
class Source:
    """Programs that a network has learned from.

    Attributes:
        programs: n of them, with (n, d) seconds.
        devices: (d, 11) features of the devices.
    """

    programs: Programs
    devices: Tensor


def tuned(network: nn.Module, programs: Programs, device: Mapping[str, Any]) -> nn.Module:
    """Return a copy of a network, trained further; in evaluation mode. The same on every call.

    Args:
        network: of the predictor.
        programs: with (n, 1) seconds on the device.
        device: as the data have devices.
    """
    made, where = copy.deepcopy(network).eval().requires_grad_(False), device_features([device])
    computed_on = device_of(made)
    layers = made.of_devices.train().requires_grad_(True)
    labels = torch.from_numpy(np.log(programs.seconds))
    generator = np.random.default_rng(0)
    batches = [
        batch for _ in range(PASSES) for batch in drawn(programs.counts, BATCH, STEPS, generator)
    ]

    def losses() -> Iterator[Tensor]:
        """Yield the loss of each batch."""
        for rows, weight in batches:
            logs = made.log_seconds(programs.batch(rows, where).to(computed_on))
            known = labels[rows].to(computed_on)
            yield weight * relative_of_logarithms(logs, known, RELATIVE, 0.0)

    return _trained(made, layers, RATE, len(batches), losses)


def tuned_by_cmd(
    network: nn.Module,
    programs: Programs,
    device: Mapping[str, Any],
    source: Source,
    settings: ProgramCollection,
) -> nn.Module:
    """Return a copy of a network, trained further as the paper does it; as :func:`tuned`.

    A step has three batches: source programs with their latencies, programs with latencies on the
    device, and source programs as they would be there, whose latencies nobody knows.

    Args:
        network, programs, device: see :func:`tuned`.
        source: of the network.
        settings: of the network.
    """
    made, where = copy.deepcopy(network).train().requires_grad_(True), device_features([device])
    parts = ((source.programs, source.devices), (programs, where), (source.programs, where))
    computed_on = device_of(made)
    with torch.no_grad():
        seconds = [torch.from_numpy(part.seconds).to(computed_on) for part, _ in parts[:2]]
        labels = [made.labels(one).float().cpu() for one in seconds]
    generator, steps = np.random.default_rng(0), CMD_PASSES * STEPS
    batches = [drawn(part.counts, settings.batch, steps, generator) for part, _ in parts]
    cost = LATENCY_LOSSES[settings.loss]

    def losses() -> Iterator[Tensor]:
        """Yield the loss of the three batches of each step."""
        for step in zip(*batches, strict=True):
            found = [
                made.with_latents(part.batch(rows, devices).to(computed_on))
                for (part, devices), (rows, _) in zip(parts, step, strict=True)
            ]
            first, last = (found[k][1].flatten(0, 1) for k in (0, -1))
            loss = ALPHA * central_moment_discrepancy(first, last)
            for (predicted, _), known, (rows, weight) in zip(found, labels, step, strict=False):
                truth = known[rows].to(computed_on)
                part = cost(predicted, truth, settings.mape_weight, settings.least_label)
                loss = loss + weight * part
            yield loss

    return _trained(made, made, CMD_RATE, steps, losses)


def central_moment_discrepancy(source: Tensor, target: Tensor, moments: int = MOMENTS) -> Tensor:
    """Return equation 6, of the first ``moments`` moments: it is 0 for equal moments.

    The equation divides the j-th moment by |b - a| to the power of j, where ``a`` and ``b`` are the
    joint support of both distributions, and does not say how to find it. Here it is that of the
    samples: from the smallest to the largest number in either, over all dimensions, as a constant
    without a gradient. So the discrepancy does not depend on the unit of the latent space. (The
    published code divides by 1 for a space that has no bound.)

    Args:
        source, target: (n, e) and (m, e), a row a sample; n and m at least 1.
        moments: how many count; 1 compares means alone.
    """
    with torch.no_grad():
        low = torch.minimum(source.min(), target.min())
        width = (torch.maximum(source.max(), target.max()) - low).clamp(min=NARROWEST)
    means = source.mean(0), target.mean(0)
    distance = torch.linalg.vector_norm((means[0] - means[1]) / width)
    centred = [(x - mean) / width for x, mean in zip((source, target), means, strict=True)]
    for order in range(2, moments + 1):
        first, second = (x.pow(order).mean(0) for x in centred)
        distance = distance + torch.linalg.vector_norm(first - second)
    return distance


def _trained(
    made: nn.Module,
    layers: nn.Module,
    rate: float,
    steps: int,
    losses: Callable[[], Iterator[Tensor]],
) -> nn.Module:
    """Return a network after a step on each loss; ``layers`` of it are trained."""
    optimizer = torch.optim.AdamW(layers.parameters(), lr=rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, rate, total_steps=steps + 1, pct_start=RISING
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)  # of what is dropped out
        for loss in losses():
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return made.eval()


def drawn(
    counts: np.ndarray, size: int, steps: int, generator: np.random.Generator
) -> Sequence[tuple[np.ndarray, float]]:
    """Draw ``steps`` batches of one number of leaves each, in passes over (n,) programs.

    Returns:
        Numbers of programs, and what their mean loss counts, so that all programs count alike:
        numbers of leaves that few programs have make small batches.
    """
    found: list[tuple[np.ndarray, float]] = []
    while len(found) < steps:
        order = generator.permutation(len(counts))
        batches = list(batches_of(counts[order], size))
        usual = len(counts) / len(batches)
        groups = (order[batches[number]] for number in generator.permutation(len(batches)))
        found += [(rows, len(rows) / usual) for rows in groups]
    return found[:steps]
