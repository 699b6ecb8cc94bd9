"""CDMPP's predictor: the latency of a tensor program on a device (section 5.1).

A program is a sequence of leaves, each a vector of 164 features and a place in its tree. A
Transformer encodes the sequence; one linear layer for each number of leaves makes a vector of
fixed length of it; a network of the device's features makes another, and the two are multiplied;
a decoder reads the label from the product. Programs of a batch have equally many leaves, so that
nothing is padded, and are encoded once for all devices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from lib.models.common.batch import OnDevice
from lib.models.common.rows import Standardize
from lib.programs.settings import ProgramSettings

MILLISECONDS = 1e3
SMALLEST = 1e-12  # milliseconds
BEYOND = 10.0  # a prediction leaves the range of the training labels by this factor at most


class LabelTransform(nn.Module):
    """Seconds to labels and back (CDMPP, section 5.4).

    It is fitted on training labels alone, and its numbers are saved with the weights. Latencies are
    in milliseconds; labels have zero mean and unit deviation.

    Args:
        name: ``box-cox``, that is (x^power - 1) / power, or log x for a power of zero; or ``none``.
    """

    power: Tensor
    mean: Tensor
    deviation: Tensor
    reach: Tensor

    def __init__(self, name: str):
        super().__init__()
        self.bends = name == "box-cox"
        self.register_buffer("power", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros((), dtype=torch.float64))
        self.register_buffer("deviation", torch.ones((), dtype=torch.float64))
        self.register_buffer("reach", torch.tensor([SMALLEST, 1 / SMALLEST], dtype=torch.float64))

    def fit(self, seconds: np.ndarray) -> None:
        """Fit on (n,) latencies in seconds, n at least 1."""
        from scipy import stats  # late: it takes a second, which only training has

        values = np.asarray(seconds, np.float64) * MILLISECONDS
        if self.bends and len(np.unique(values)) > 1:
            self.power.fill_(stats.boxcox_normmax(values, method="mle"))
        self.reach.copy_(torch.tensor([values.min() / BEYOND, values.max() * BEYOND]))
        bent = self._bent(torch.from_numpy(values))
        deviation = bent.std(correction=0)
        self.mean.copy_(bent.mean())
        self.deviation.copy_(deviation if deviation > 0 else torch.ones_like(deviation))

    def forward(self, seconds: Tensor) -> Tensor:
        """Return labels of latencies in seconds, float64 of the same shape."""
        return (self._bent(seconds.double() * MILLISECONDS) - self.mean) / self.deviation

    def log_seconds(self, labels: Tensor) -> Tensor:
        """Return logarithms of the latencies, in seconds, of labels; float64, the same shape.

        Labels that mean no time, or one far from all that were fitted, mean the nearest that is
        not: Box and Cox's transform ends somewhere, and networks do not stop there.
        """
        values = labels.double() * self.deviation + self.mean
        if self.bends and self.power.abs() < 1e-8:
            values = values.exp()
        elif self.bends:
            inside = (self.power * values).clamp(min=-1 + 1e-15)
            values = torch.exp(torch.log1p(inside) / self.power)
        return torch.log(values.clamp(self.reach[0], self.reach[1]) / MILLISECONDS)

    def _bent(self, values: Tensor) -> Tensor:
        if not self.bends:
            return values
        logs = values.clamp(min=SMALLEST).log()
        return logs if self.power.abs() < 1e-8 else torch.expm1(self.power * logs) / self.power


LEAF_FEATURES = 164
LOOP_FEATURES = 118  # loops one by one, and access patterns
DEVICE_FEATURES = 11
THETA = 10_000.0  # the base of the positional encoding's frequencies


@dataclass(frozen=True)
class Sizes:
    """Widths and depths of :class:`Cdmpp`.

    Attributes:
        channels: width of a leaf's vector.
        layers, heads, hidden: of the Transformer.
        counts: widths between all leaves' vectors and the program's.
        embedding: width of a program's and a device's vector.
        decoder: widths of the decoder's hidden layers.
    """

    channels: int
    layers: int
    heads: int
    hidden: int
    counts: tuple[int, ...]
    embedding: int
    decoder: tuple[int, ...]


# What the paper's search found (table 6), read as the published code has it: the "input layer" and
# the "linear layers in the encoder" come after the Transformer, once for each number of leaves, and
# the Transformer itself is of the features' width. For programs of five leaves that makes 13.7
# million weights (the paper: 13.8). Neither heads nor the Transformer's hidden width are in the
# table; 2,048 is PyTorch's.
PAPER = Sizes(164, 11, 4, 2048, (716, 985, 985, 985), 69, (930, 930, 930))


@dataclass(frozen=True)
class ProgramBatch(OnDevice):
    """b programs of l leaves each, on d devices.

    Attributes:
        features: (b, l, 164) of any float type, not yet standardized.
        position: (b, l) integers, the ordering vectors of the compact trees.
        loops: (b, l, 118) of any float type, of the loops around the leaves, and what these access;
            the paper has none.
        devices: (d, 11) float32, or (b, d, 11) where each program has its own.
    """

    features: Tensor
    position: Tensor
    loops: Tensor
    devices: Tensor


class LeafEncoder(nn.Module):
    """Leaves, with what their places add to them, through a Transformer.

    Args:
        channels: width of a leaf's vector.
        layers, heads, hidden: of the Transformer.
        dropout: share of the channels that are left out in training.
        positional: whether places count.
    """

    frequencies: Tensor

    def __init__(
        self,
        channels: int,
        layers: int,
        heads: int,
        hidden: int,
        dropout: float,
        positional: bool,
    ):
        super().__init__()
        self.positional = positional
        self.standardize = Standardize(LEAF_FEATURES)
        powers = torch.arange(0, LEAF_FEATURES, 2, dtype=torch.float64) / LEAF_FEATURES
        self.register_buffer("frequencies", THETA**-powers, persistent=False)
        same = channels == LEAF_FEATURES  # as the paper's
        self.first = nn.Identity() if same else nn.Linear(LEAF_FEATURES, channels)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                channels, heads, hidden, dropout, nn.functional.gelu, batch_first=True
            )
            for _ in range(layers)
        )

    def forward(self, batch: ProgramBatch, more: Tensor | float = 0.0) -> Tensor:
        """Return (b, l, channels); ``more`` is added to the leaves before the Transformer."""
        x = self.standardize(batch.features.float())
        if self.positional:
            x = x + self.encoding(batch.position)
        x = self.first(x) + more
        for layer in self.layers:
            x = layer(x)
        return x

    def encoding(self, position: Tensor) -> Tensor:
        """Return (b, l, 164) sines and cosines of (b, l) places (section 4.2)."""
        angle = position[..., None].double() * self.frequencies
        return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2).float()


class LeafCountLayers(nn.Module):
    """Linear layers for each number of leaves, from all leaves' vectors to one.

    A number that no training program had, or that has no layer, gets that of the nearest number
    which has one, the smaller of two, and the leaves are averaged in as many equal runs.

    Args:
        channels: width of a leaf's vector.
        width: of what comes out.
        most: leaves of the largest layer.
        hidden: widths of the layers before the last.
    """

    known: Tensor

    def __init__(self, channels: int, width: int, most: int, hidden: tuple[int, ...] = ()):
        super().__init__()
        self.layers = nn.ModuleList(
            perceptron(k * channels, hidden, width, 0.0) for k in range(1, most + 1)
        )
        self.register_buffer("known", torch.ones(most, dtype=torch.bool))

    def fit(self, counts: Tensor) -> None:
        """Tell the (n,) numbers of leaves of the training programs."""
        self.known.zero_()
        self.known[counts[counts <= len(self.known)] - 1] = True
        if not self.known.any():
            self.known[-1] = True

    def forward(self, x: Tensor) -> Tensor:
        """Return (b, l, channels) to (b, width)."""
        count = self.nearest(x.shape[1])
        if count != x.shape[1]:
            x = nn.functional.adaptive_avg_pool1d(x.transpose(1, 2), count).transpose(1, 2)
        return self.layers[count - 1](x.flatten(1))

    def nearest(self, count: int) -> int:
        """Return the number of leaves whose layer programs with ``count`` leaves get."""
        known = (self.known.nonzero()[:, 0] + 1).tolist()
        return min(known, key=lambda number: (abs(number - count), number))


def perceptron(width: int, hidden: tuple[int, ...], out: int, dropout: float) -> nn.Module:
    """Return linear layers with GELU between them: hidden ones of some widths, and the last."""
    parts: list[nn.Module] = []
    for after in hidden:
        parts += [nn.Linear(width, after), nn.GELU(), nn.Dropout(dropout)]
        width = after
    last = nn.Linear(width, out)
    return nn.Sequential(*parts, last) if parts else last


class Cdmpp(nn.Module):
    """The predictor of the paper; labels are latencies through a :class:`LabelTransform`."""

    def __init__(self, settings: ProgramSettings):
        super().__init__()
        c, dropout = settings.channels, settings.dropout
        sizes = Sizes(c, settings.layers, settings.heads, 2 * c, (), c, (2 * c, 2 * c))
        if settings.paper:
            sizes = PAPER
        self.labels = LabelTransform(settings.label_transform)
        self.encoder = LeafEncoder(
            sizes.channels, sizes.layers, sizes.heads, sizes.hidden, dropout, settings.positional
        )
        self.counts = LeafCountLayers(
            sizes.channels, sizes.embedding, settings.most_leaves, sizes.counts
        )
        self.device = perceptron(DEVICE_FEATURES, (sizes.embedding,), sizes.embedding, 0.0)
        self.decoder = perceptron(sizes.embedding, sizes.decoder, 1, dropout)

    def fit(self, features: Tensor, loops: Tensor, counts: Tensor, seconds: Tensor) -> None:
        """Fit what is not learned, on the training programs.

        Args:
            features: (leaves, 164) of all of them.
            loops: (leaves, 118), which the paper has not.
            counts: (n,) leaves of each program.
            seconds: (n, d) latencies, NaN where there is none.
        """
        self.encoder.standardize.fit(features)
        self.counts.fit(counts)
        self.labels.fit(seconds[seconds.isfinite()].numpy())

    @property
    def of_devices(self) -> nn.ModuleList:
        """The layers that read the devices, and all after them."""
        return nn.ModuleList([self.device, self.decoder])

    def forward(self, batch: ProgramBatch) -> Tensor:
        """Return labels of each program on each device, (b, d)."""
        return self.with_latents(batch)[0]

    def with_latents(self, batch: ProgramBatch) -> tuple[Tensor, Tensor]:
        """Return labels, (b, d), and what the decoder reads them from, z, (b, d, embedding)."""
        program = self.counts(self.encoder(batch))  # (b, embedding)
        device = self.device(batch.devices)  # (d, embedding)
        latents = program[:, None] * device
        return self.decoder(latents).squeeze(-1), latents

    def log_seconds(self, batch: ProgramBatch) -> Tensor:
        """Return logarithms of the predicted latencies in seconds, (b, d) float64."""
        return self.labels.log_seconds(self(batch))
