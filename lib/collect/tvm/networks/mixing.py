"""Networks without convolution or attention: mixers, recurrent steps, perceptrons, graphs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lib.collect.tvm.networks import Built, of_sizes
from lib.collect.tvm.networks.blocks import FeedForward, tokens


class MixerLayer(nn.Module):
    """Linear layers over tokens, then over channels (Tolstikhin et al. 2021)."""

    def __init__(self, count: int, width: int):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.across, self.within = FeedForward(count, 2 * count), FeedForward(width, 4 * width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.across(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.within(self.norms[1](x))


def mixer(width: int, count: int, batch: int) -> Built:
    """A mixer of two layers."""
    layers = [MixerLayer(count, width), MixerLayer(count, width), nn.LayerNorm(width)]
    return nn.Sequential(*layers), tokens(batch, count, width)


class GatedMlp(nn.Module):
    """Half of the channels gate the other across tokens (Liu et al. 2021)."""

    def __init__(self, count: int, width: int):
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.across = nn.Linear(count, count)

    def forward(self, x: Tensor) -> Tensor:
        first, second = nn.functional.gelu(self.up(self.norm(x))).chunk(2, -1)
        gate = self.across(self.inner(second).transpose(1, 2)).transpose(1, 2)
        return x + self.down(first * gate)


def gmlp(width: int, count: int, batch: int) -> Built:
    """A gated perceptron over tokens."""
    return GatedMlp(count, width), tokens(batch, count, width)


class LstmSteps(nn.Module):
    """Some steps of a long short-term memory, written out."""

    def __init__(self, width: int):
        super().__init__()
        self.read, self.recur = nn.Linear(width, 4 * width), nn.Linear(width, 4 * width, False)
        self.out = nn.Linear(width, 500)

    def forward(self, x: Tensor) -> Tensor:
        """``x`` (steps, batch, width)."""
        hidden = cell = torch.zeros_like(x[0])
        for step in x:
            i, f, g, o = (self.read(step) + self.recur(hidden)).chunk(4, -1)
            cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            hidden = torch.sigmoid(o) * torch.tanh(cell)
        return self.out(hidden)


class GruSteps(nn.Module):
    """Some steps of a gated recurrent unit, all inputs read at once."""

    def __init__(self, width: int):
        super().__init__()
        self.read, self.recur = nn.Linear(width, 3 * width), nn.Linear(width, 3 * width)

    def forward(self, x: Tensor) -> Tensor:
        """``x`` (steps, batch, width)."""
        hidden = torch.zeros_like(x[0])
        for step in self.read(x):
            r, z, n = step.chunk(3, -1)
            hr, hz, hn = self.recur(hidden).chunk(3, -1)
            update = torch.sigmoid(z + hz)
            new = torch.tanh(n + torch.sigmoid(r + hr) * hn)
            hidden = new + update * (hidden - new)
        return hidden


def lstm(width: int, steps: int, batch: int) -> Built:
    """A few steps of an LSTM and its output layer."""
    return LstmSteps(width), (torch.randn(steps, batch, width),)


def gru(width: int, steps: int, batch: int) -> Built:
    """A few steps of a GRU."""
    return GruSteps(width), (torch.randn(steps, batch, width),)


def mlp(width: int, layers: int, batch: int) -> Built:
    """Linear layers of one width, then narrower ones."""
    modules: list[nn.Module] = []
    for _ in range(layers):
        modules += [nn.Linear(width, width), nn.ReLU()]
    modules += [nn.Linear(width, width // 2), nn.Tanh(), nn.Linear(width // 2, 10), nn.Softmax(-1)]
    return nn.Sequential(*modules), (torch.randn(batch, width),)


def autoencoder(width: int, layers: int, batch: int) -> Built:
    """Each layer half as wide as the one before, and back."""
    modules: list[nn.Module] = []
    for k in range(layers):
        modules += [nn.Linear(width >> k, width >> (k + 1)), nn.SiLU()]
    for k in reversed(range(layers)):
        modules += [nn.Linear(width >> (k + 1), width >> k), nn.Sigmoid()]
    return nn.Sequential(*modules), (torch.randn(batch, width),)


class Recommender(nn.Module):
    """Dense features, products of all pairs of embeddings, a perceptron (Naumov et al. 2019)."""

    def __init__(self, width: int, tables: int):
        super().__init__()
        self.bottom = nn.Sequential(
            nn.Linear(64, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)
        )
        self.top = nn.Sequential(
            nn.Linear((tables + 1) ** 2 + width, 4 * width), nn.ReLU(), nn.Linear(4 * width, 1)
        )

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        x = self.bottom(dense)
        vectors = torch.cat([x.unsqueeze(1), embedded], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)
        return torch.sigmoid(self.top(torch.cat([x, products], 1)))


def recommender(width: int, tables: int, batch: int) -> Built:
    """A click predictor; its embeddings have been looked up."""
    return Recommender(width, tables), (
        torch.randn(batch, 64),
        torch.randn(batch, tables, width),
    )


class GraphLayers(nn.Module):
    """Convolution on a dense graph (Kipf and Welling 2017), then pooled."""

    def __init__(self, width: int):
        super().__init__()
        self.one, self.two = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        x = torch.relu(torch.bmm(adjacency, self.one(x)))
        x = torch.relu(torch.bmm(adjacency, self.two(x)))
        return torch.softmax(x.mean(1), -1)


def graph(width: int, nodes: int, batch: int) -> Built:
    """A graph network of two layers."""
    return GraphLayers(width), (*tokens(batch, nodes, width), torch.randn(batch, nodes, nodes))


class StateSpace(nn.Module):
    """A gated layer whose tokens mix by a short convolution and a decay (Gu and Dao 2023)."""

    def __init__(self, width: int, count: int):
        super().__init__()
        self.norm, self.read = nn.LayerNorm(width), nn.Linear(width, 4 * width)
        self.short = nn.Conv1d(2 * width, 2 * width, 3, padding=1, groups=2 * width)
        self.decay = nn.Parameter(torch.randn(1, count, count))
        self.out = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        inner, gate = self.read(self.norm(x)).chunk(2, -1)
        inner = nn.functional.silu(self.short(inner.transpose(1, 2)).transpose(1, 2))
        mixed = torch.bmm(self.decay.expand(x.shape[0], -1, -1), inner)
        return x + self.out(mixed * nn.functional.silu(gate))


def statespace(width: int, count: int, batch: int) -> Built:
    """One state-space layer."""
    return StateSpace(width, count), tokens(batch, count, width)


NETWORKS = (
    *of_sizes("mixer", mixer, "t", (64, 49, 1), (128, 64, 1), (96, 36, 4), (192, 16, 8)),
    *of_sizes("mlp", mlp, "l", (256, 3, 1), (512, 2, 16), (384, 4, 4), (1024, 2, 1), (128, 3, 64)),
    *of_sizes("lstm", lstm, "t", (128, 3, 1), (256, 2, 4), (192, 3, 16)),
    *of_sizes("gru", gru, "t", (128, 3, 1), (256, 2, 8), (96, 3, 32)),
    *of_sizes("autoencoder", autoencoder, "l", (512, 3, 4), (256, 2, 32), (768, 3, 1)),
    *of_sizes("gmlp", gmlp, "t", (96, 64, 1), (128, 48, 4), (192, 32, 2)),
    *of_sizes("recommender", recommender, "n", (32, 8, 16), (64, 15, 4), (48, 26, 32)),
    *of_sizes("graph", graph, "n", (64, 64, 1), (96, 48, 4), (48, 128, 2)),
    *of_sizes("statespace", statespace, "t", (96, 64, 1), (64, 128, 2), (128, 48, 4)),
)
