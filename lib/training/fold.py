"""The graphs that a fold's network is trained and validated on: the plain case.

``tgraph`` is trained like this. What differs between models is in subclasses, in
``lib/models/<model>/training.py``. The loop itself is in ``02_train.py``.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lib.cache.reader import Cache
from lib.files.named import named
from lib.models.common.build import network_for
from lib.models.common.input import input_of
from lib.ranking.metrics import ranking_metrics
from lib.settings import Settings
from lib.training.loss import LOSSES, pairwise_hinge
from lib.training.split import LabelledGraph, prepared_sides

Loss = Callable[[Tensor, Tensor], Tensor]  # (..., b) scores and (b,) runtimes to (...)


@dataclass(frozen=True, eq=False)
class Batch:
    """Configurations that one step is trained on.

    Attributes:
        inputs: of the network, b configurations in all.
        runtimes: of each graph's configurations.
        loss_of: the loss of one graph's scores and runtimes (:mod:`lib.training.loss`).
    """

    inputs: Any
    runtimes: list[Tensor]
    loss_of: Loss = pairwise_hinge

    @property
    def size(self) -> int:
        """Number of configurations."""
        return sum(map(len, self.runtimes))

    def to(self, device: torch.device) -> Batch:
        """Return the same batch on another device."""
        runtimes = [runtime.to(device, non_blocking=True) for runtime in self.runtimes]
        return replace(self, inputs=self.inputs.to(device), runtimes=runtimes)

    def loss(self, scores: Tensor) -> Tensor:
        """Return the mean loss of the graphs.

        Args:
            scores: (b,); or (members, b) of networks side by side, whose losses add up.
        """
        parts = scores.split([len(runtime) for runtime in self.runtimes], dim=-1)
        losses = [self.loss_of(s, r).sum() for s, r in zip(parts, self.runtimes, strict=True)]
        return torch.stack(losses).mean()


@dataclass(eq=False)
class Fold:
    """Training and validation graphs of one fold.

    Attributes:
        train, valid: graphs, each side sorted by name; or their names, if :meth:`read` reads them
            from the cache when they are needed.
        settings: of the model.
    """

    train: Sequence[Any]
    valid: Sequence[Any]
    settings: Any

    metrics = staticmethod(ranking_metrics)  # of (c,) scores and (c,) runtimes

    @classmethod
    def load(cls, cache: Cache, fold: int, settings: Any) -> Fold:
        """Return the graphs of a fold, in memory.

        Raises:
            UserError: if there is no such fold, or a side of it is empty.
        """
        return cls(*prepared_sides(cache, fold, settings), settings)

    def standardize(self, network: Any) -> None:
        """Fit the network's standardization on the training graphs."""
        features = [graph.prepared.features for graph in self.train]
        network.inputs.standardize.fit(torch.cat(features))

    def pretrain(self, network: Any) -> None:
        """Train a new network on something else first; most models do not."""

    def steps(self) -> int:
        """Return the number of steps of an epoch."""
        return len(self.train)

    def groups(self, generator: np.random.Generator) -> Sequence[Any]:
        """Return the graphs of each step of an epoch: every training graph once, in random order.

        Groups differ in size by one graph at most, so that none is left with a remainder.
        """
        return np.array_split(generator.permutation(len(self.train)), self.steps())

    def draw(self, group: Any, generator: np.random.Generator, done: float) -> Any:
        """Draw configurations of each graph of a group, anew at every step (TGraph, 2.2.5).

        Args:
            group: one of :meth:`groups`.
            generator: of everything random.
            done: share of the training that was done when the epoch began.
        """
        graphs = [self.read(self.train[index]) for index in group]
        rows = [draw_rows(graph, self.settings.configurations, generator) for graph in graphs]
        return self.batch(graphs, rows, generator)

    def batch(
        self,
        graphs: Sequence[LabelledGraph],
        rows: Sequence[np.ndarray],
        generator: np.random.Generator,
    ) -> Batch:
        """Return some configurations of a step's graphs; here it is one graph."""
        (graph,), (some,) = graphs, rows
        runtimes = [torch.from_numpy(graph.runtime[some])]
        return Batch(graph.prepared.batch(some), runtimes, LOSSES[self.settings.loss])

    def after_step(self) -> None:
        """Note what a step has computed; most models have nothing to note."""

    def state(self) -> dict[str, Tensor]:
        """Return what a killed run needs besides network and optimizer, by name."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back a :meth:`state`."""

    def read(self, graph: Any) -> LabelledGraph:
        """Return a graph of ``train`` or ``valid``."""
        return graph

    def validate(self, network: nn.Module, whole: bool = False) -> Mapping[str, dict[str, float]]:
        """Return the metrics of each validation graph, by name.

        Args:
            network: in evaluation mode.
            whole: score all configurations of a graph, not :func:`validation_rows` alone.

        Returns:
            ``settings.metric`` among others; nothing at all if a score is not finite.
        """
        s, metrics = self.settings, {}
        score, most = input_of(s).scores, None if whole else s.validation_configurations
        for graph in map(self.read, self.valid):
            rows = validation_rows(graph, most)
            scores = score(network, graph.prepared, s.inference_configurations, rows)  # type: ignore[misc]
            if not np.isfinite(scores).all():
                return {}
            metrics[graph.name] = self.metrics(scores, graph.runtime[rows])
        return metrics

    def validates_a_part(self) -> bool:
        """Return whether epochs are validated on some configurations of a graph, not on all."""
        most = self.settings.validation_configurations
        return any(len(self.read(graph).runtime) > most for graph in self.valid)


def validation_rows(graph: LabelledGraph, most: int | None) -> np.ndarray:
    """Return positions of at most ``most`` configurations of a graph, ascending; None means all.

    Which ones are drawn depends on the graph's name and nothing else, so that epochs, folds and
    runs compare.
    """
    if most is None:
        return np.arange(len(graph.runtime))
    return draw_rows(graph, most, np.random.default_rng(zlib.crc32(graph.name.encode())))


def draw_rows(graph: LabelledGraph, most: int, generator: np.random.Generator) -> np.ndarray:
    """Draw positions of up to ``most`` configurations of a graph, ascending."""
    count = len(graph.runtime)
    return np.sort(generator.choice(count, min(count, most), replace=False))


def load_fold(cache: Cache, fold: int, settings: Settings) -> Fold:
    """Return the graphs of a fold, by the class that settings name; raises as :meth:`Fold.load`."""
    return named(settings.fold).load(cache, fold, settings)


def new_network(data: Fold, seed: int, fold: int) -> nn.Module:
    """Return a network with weights drawn from (seed, fold), standardized and pretrained.

    That is done on the CPU, where the fold's graphs are. A run that resumes does it again, for a
    few seconds, and then takes the weights of its checkpoint.
    """
    torch.manual_seed(np.random.SeedSequence([seed, fold]).generate_state(1, np.uint64).item() >> 1)
    network = network_for(data.settings)
    device = next(network.parameters()).device
    network.cpu()
    data.standardize(network)
    data.pretrain(network)
    return network.to(device)


def optimizer_of(network: nn.Module, settings: Any) -> torch.optim.Optimizer:
    """Return AdamW (TGraph paper, 2.4.2), or Adam (CDMPP, table 6).

    Weight decay is on matrices only, not on biases, scales and temperatures.
    """
    matrices: list[nn.Parameter] = []
    free: list[nn.Parameter] = []
    for name, weight in network.named_parameters():  # (networks side by side have rows of biases)
        (free if weight.ndim <= 1 or name.endswith(("bias", "scale")) else matrices).append(weight)
    decay = settings.weight_decay
    groups = [{"params": matrices, "weight_decay": decay}, {"params": free, "weight_decay": 0.0}]
    kind = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[settings.optimizer]
    return kind(groups, settings.learning_rate, fused=True)


def seed_torch(generator: np.random.Generator) -> None:
    """Let torch's generators, of the CPU and of every GPU, go on from an epoch's own.

    A child of its generator does it. That draws nothing from it, and it is another child than that
    of the weights: to numpy, the seeds (seed, fold) and (seed, fold, 0) are the same.
    """
    (child,) = generator.spawn(1)
    torch.manual_seed(int(child.integers(1 << 63)))
