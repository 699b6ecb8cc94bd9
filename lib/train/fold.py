"""What a step trains on: configurations of a graph, and their loss. How a network is validated.

:class:`GraphsFold` is the plain case, which ``tgraph`` trains on. What other inputs do otherwise is
in subclasses of it, or of :class:`Fold` where no configurations are drawn, in modules of their own.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from lib.cache.reader import Cache
from lib.files.named import named
from lib.inputs.input import input_of, memory_of
from lib.ranking.metrics import ranking_metrics
from lib.runs.memory import Estimate
from lib.settings import LayoutCollection, Settings, TileCollection
from lib.train.loss import LOSSES, pairwise_hinge
from lib.train.processes import Processes
from lib.train.split import LabelledGraph, prepared_sides

Network = TypeVar("Network", bound=nn.Module)
Chosen = TypeVar("Chosen", bound=Settings)
ChosenOfGraphs = TypeVar("ChosenOfGraphs", bound=LayoutCollection | TileCollection)
Loss = Callable[[Tensor, Tensor], Tensor]  # (..., b) scores and (b,) runtimes to (...)


@dataclass(frozen=True, eq=False)
class Sample:
    """What a step trains on.

    Attributes:
        inputs: of the network, b configurations in all.
        runtimes: of each graph's configurations.
        loss_of: scores and runtimes of one graph, see :mod:`lib.train.loss`.
    """

    inputs: Any
    runtimes: list[Tensor]
    loss_of: Loss = pairwise_hinge

    @property
    def size(self) -> int:
        """Number of configurations."""
        return sum(map(len, self.runtimes))

    def to(self, device: torch.device) -> Sample:
        """The same sample on another device."""
        runtimes = [runtime.to(device, non_blocking=True) for runtime in self.runtimes]
        return replace(self, inputs=self.inputs.to(device), runtimes=runtimes)

    def loss(self, scores: Tensor) -> Tensor:
        """What the network's scores of ``inputs`` cost: the mean over its graphs.

        Args:
            scores: (b,); or (members, b) of networks side by side, whose losses add up.
        """
        parts = scores.split([len(runtime) for runtime in self.runtimes], dim=-1)
        losses = [self.loss_of(s, r).sum() for s, r in zip(parts, self.runtimes, strict=True)]
        return torch.stack(losses).mean()


class Beside:
    """What training keeps beside the network: here nothing, so that every state can be resumed."""

    def share(self, processes: Processes) -> None:
        """Several processes train: what is kept beside the network is all of theirs."""

    def idle(self) -> None:
        """Another process takes a step on a sample, and this process on none."""

    def begin(self, state: Path, identity: str, epochs: int) -> bool:
        """Before the first step: get ready what training keeps beside the network.

        Args:
            state: the training state's file, whose name tells that of other files beside it.
            identity: of the run, see :meth:`lib.train.state.TrainingState.resume`.
            epochs: that the state has seen, which is resumed; 0 to begin anew.

        Returns:
            False if what was kept does not go with such a state: it cannot be resumed.
        """
        return True

    def saved(self, epochs: int) -> None:
        """The training state was just saved, after so many epochs."""

    def end(self) -> None:
        """Training is over: delete what was kept."""

    def record(self) -> dict[str, Any]:
        """What was decided while training that no setting says, for the run's record."""
        return {}


class Fold(ABC, Generic[Network, Chosen]):
    """What stage 2 trains a network on and validates it on, whatever a step has.

    Attributes:
        settings: of the model.
        train, valid: graphs, tasks, or their names, sorted by name.
        progress: share of the training's steps that were done when the epoch began.
        beside: what is kept beside the network.
    """

    settings: Chosen
    train: Sequence[Any]
    valid: Sequence[Any]
    progress: float = 0.0
    beside: Beside = Beside()

    @abstractmethod
    def standardize(self, network: Network) -> None:
        """Fit the network's standardization on the training graphs."""

    def teach(self, network: Network) -> None:
        """What a new, standardized network is taught before it sees a graph."""

    @abstractmethod
    def steps(self) -> int:
        """How many :meth:`samples` there are."""

    @abstractmethod
    def groups(self, generator: np.random.Generator) -> Sequence[Any]:
        """What each sample of a pass is made of, in random order."""

    @abstractmethod
    def take(self, group: Any, generator: np.random.Generator) -> Any:
        """The sample of a group, such as a :class:`Sample`."""

    def samples(self, generator: np.random.Generator) -> Iterator[Any]:
        """One pass over what is trained on."""
        return (self.take(group, generator) for group in self.groups(generator))

    def done(self) -> None:
        """The gradients of the sample that was taken last are there."""

    def loss(self, network: Network, sample: Any) -> Tensor:
        """What a step's sample costs; one of :meth:`take`, on the network's device."""
        return sample.loss(network(sample.inputs))

    @abstractmethod
    def validate(self, network: Network, whole: bool = False) -> Mapping[str, dict[str, float]]:
        """Metrics of each validation graph, ``settings.metric`` among them, by name.

        Empty if a score is not finite. ``whole``: on all configurations of a graph, not on
        :func:`validated` ones alone.
        """

    @abstractmethod
    def samples_validation(self) -> bool:
        """Whether epochs are validated on less than there is."""

    def estimate(self, network: Network) -> Estimate | None:
        """Memory that a step takes, as far as it is known beforehand and worth telling."""
        return None


@dataclass(eq=False)
class GraphsFold(Fold[Network, ChosenOfGraphs]):
    """Training and validation graphs of one fold, some of whose configurations a step has.

    Attributes:
        train, valid: what :meth:`read` takes, sorted by name: graphs, or their names if they are
            read from the cache when they are needed.
    """

    train: Sequence[Any]
    valid: Sequence[Any]
    settings: ChosenOfGraphs

    metrics = staticmethod(ranking_metrics)  # of (c,) scores and (c,) runtimes

    @classmethod
    def load(cls, cache: Cache, fold: int, settings: ChosenOfGraphs) -> Fold[Any, Any]:
        """The graphs of a fold, all of them in memory."""
        return cls(*prepared_sides(cache, fold, settings), settings)

    def standardize(self, network: Any) -> None:
        features = [graph.prepared.features for graph in self.train]
        network.inputs.standardize.fit(torch.cat(features))

    def steps(self) -> int:
        return len(self.train)

    def groups(self, generator: np.random.Generator) -> Sequence[Any]:
        """The groups of an epoch: every training graph once.

        Groups of graphs differ in size by one at most, so that none is left with a remainder.
        """
        order = generator.permutation(len(self.train))
        return np.array_split(order, self.steps())

    def take(self, group: Any, generator: np.random.Generator) -> Sample:
        """A sample of each graph of a group, its configurations drawn anew (TGraph, 2.2.5)."""
        graphs = [self.read(self.train[index]) for index in group]
        chosen = [_drawn(graph, self.settings.configurations, generator) for graph in graphs]
        return self.sample(graphs, chosen, generator)

    def read(self, graph: Any) -> LabelledGraph:
        """A graph of ``train`` or ``valid``."""
        return graph

    def sample(
        self,
        graphs: Sequence[LabelledGraph],
        chosen: Sequence[np.ndarray],
        generator: np.random.Generator,
    ) -> Sample:
        """A step's graphs under the configurations chosen of each; here it is one graph.

        All else that is random comes from ``generator``.
        """
        (graph,), (rows,) = graphs, chosen
        loss = LOSSES[self.settings.loss]  # type: ignore[union-attr]
        return Sample(graph.prepared.batch(rows), [torch.from_numpy(graph.runtime[rows])], loss)

    def validate(self, network: Network, whole: bool = False) -> Mapping[str, dict[str, float]]:
        """How validation graphs are ranked, on :func:`validated` configurations or on all."""
        s, metrics = self.settings, {}
        score, most = input_of(s).scores, None if whole else s.validation_configurations
        for graph in map(self.read, self.valid):
            rows = validated(graph, most)
            scores = score(network, graph.prepared, s.inference_configurations, rows)  # type: ignore[misc]
            if not np.isfinite(scores).all():
                return {}
            metrics[graph.name] = self.metrics(scores, graph.runtime[rows])
        return metrics

    def samples_validation(self) -> bool:
        """Whether some configurations of a validation graph stand for all of them."""
        most = self.settings.validation_configurations
        return any(len(self.read(graph).runtime) > most for graph in self.valid)

    def estimate(self, network: Network) -> Estimate | None:
        return memory_of(self.settings, "a step")


def validated(graph: LabelledGraph, most: int | None) -> np.ndarray:
    """Positions of at most ``most`` configurations that a graph is validated on, ascending.

    Which ones are drawn depends on the graph's name and nothing else, so that epochs, folds and
    runs compare. Their fastest and slowest are among them or not, as luck has it.
    """
    if most is None:
        return np.arange(len(graph.runtime))
    return _drawn(graph, most, np.random.default_rng(zlib.crc32(graph.name.encode())))


def _drawn(graph: LabelledGraph, most: int, generator: np.random.Generator) -> np.ndarray:
    """Up to ``most`` of a graph's configurations, ascending."""
    count = len(graph.runtime)
    return np.sort(generator.choice(count, min(count, most), replace=False))


def load_fold(cache: Cache, fold: int, settings: Settings) -> Fold[Any, Any]:
    """What one fold of a collection trains on, by the class that the model's settings name; raises
    UserError if there is no such fold, or a side of it is empty."""
    return named(settings.fold).load(cache, fold, settings)
