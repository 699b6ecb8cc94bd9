"""Convolutional networks of other kinds: dense outputs, generators, sequences, volumes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lib.collect.tvm.networks import Built, of_sizes
from lib.collect.tvm.networks.blocks import Classifier, Residual, conv, image, upsampled


class UNet(nn.Module):
    """Down and up again, with the same resolution's features joined (Ronneberger et al. 2015)."""

    def __init__(self, width: int, depth: int, channels: int):
        super().__init__()
        widths = [width << k for k in range(depth)]
        ins = [channels, *widths[:-1]]
        self.down = nn.ModuleList(
            nn.Sequential(conv(i, o, 3), conv(o, o, 3)) for i, o in zip(ins, widths, strict=True)
        )
        self.up = nn.ModuleList(
            nn.Sequential(conv(o + 2 * o, o, 3), conv(o, o, 3)) for o in widths[:-1]
        )
        self.head = conv(width, 4, 1, act="none")

    def forward(self, x: Tensor) -> Tensor:
        """(batch, 3, height, width) pictures to values of every pixel."""
        skips = []
        for layer in self.down[:-1]:
            skips.append(layer(x))
            x = nn.functional.max_pool2d(skips[-1], 2)
        x = self.down[-1](x)
        for layer, skip in zip(reversed(self.up), reversed(skips), strict=True):
            x = layer(torch.cat([skip, upsampled(x)], 1))
        return self.head(x)


def unet(width: int, size: int, batch: int, depth: int = 3) -> Built:
    """A U-Net on images."""
    return UNet(width, depth, 3), image(batch, size)


def generator(width: int, size: int, batch: int) -> Built:
    """Transposed convolutions from a small grid to an image (Radford et al. 2016)."""
    layers: list[nn.Module] = []
    inputs = 8 * width
    for stage in (4, 2, 1):
        layers += [nn.ConvTranspose2d(inputs, stage * width, 4, 2, 1), nn.ReLU()]
        inputs = stage * width
    layers += [conv(inputs, 3, 3, act="none"), nn.Tanh()]
    return nn.Sequential(*layers), image(batch, size // 8, 8 * width)


class SubPixels(nn.Module):
    """``factor`` squared channels become one, ``factor`` times as high and wide."""

    def __init__(self, factor: int):
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        f = self.factor
        x = x.reshape(n, c // f**2, f, f, h, w).permute(0, 1, 4, 2, 5, 3)
        return x.reshape(n, c // f**2, h * f, w * f)


def superresolution(width: int, size: int, batch: int) -> Built:
    """Residual blocks, then sub-pixel convolution (Lim et al. 2017)."""
    blocks = [
        Residual(
            nn.Sequential(conv(width, width, 3), conv(width, width, 3, act="none")),
            width,
            width,
            act="none",
        )
        for _ in range(2)
    ]
    tail = [conv(width, 12, 3, act="none"), SubPixels(2)]
    return nn.Sequential(conv(3, width, 5), *blocks, *tail), image(batch, size)


class Pyramid(nn.Module):
    """Dilated branches over one feature map (Chen et al. 2017)."""

    def __init__(self, inputs: int, width: int):
        super().__init__()
        self.branches = nn.ModuleList(
            conv(inputs, width, 1 if d == 0 else 3, dilation=max(d, 1)) for d in (0, 2, 4, 6)
        )
        self.join = conv(4 * width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.join(torch.cat([branch(x) for branch in self.branches], 1))


def dilated(width: int, size: int, batch: int) -> Built:
    """A segmentation network with dilated convolutions."""
    layers = [conv(3, width, 3, 2), conv(width, 2 * width, 3, 2)]
    layers += [conv(2 * width, 2 * width, 3, dilation=2), Pyramid(2 * width, width)]
    return nn.Sequential(*layers, conv(width, 8, 1, act="none"), nn.Softmax(1)), image(batch, size)


class ChannelsLast(nn.Module):
    """A ConvNeXt block (Liu et al. 2022): depthwise 7x7, then linear layers on the last axis."""

    def __init__(self, width: int):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, 1, 3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.down(nn.functional.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


def convnext(width: int, size: int, batch: int) -> Built:
    """Three stages of ConvNeXt blocks."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 4, 4)]
    for stage in range(3):
        layers.append(ChannelsLast(width << stage))
        if stage < 2:
            layers.append(nn.Conv2d(width << stage, width << (stage + 1), 2, 2))
    return nn.Sequential(*layers, Classifier(width << 2)), image(batch, size)


class Shuffle(nn.Module):
    """Channels of the groups interleaved (Zhang et al. 2018)."""

    def __init__(self, groups: int):
        super().__init__()
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        x = x.reshape(n, self.groups, c // self.groups, h, w).transpose(1, 2)
        return x.reshape(n, c, h, w)


def shufflenet(width: int, size: int, batch: int) -> Built:
    """Grouped 1x1 convolutions, channel shuffles and depthwise convolutions."""
    layers: list[nn.Module] = [conv(3, width, 3, 2)]
    inputs = width
    for stage in range(3):
        outputs, stride = width << (stage + 1), 2
        body = [conv(inputs, outputs // 4, 1, groups=4), Shuffle(4)]
        body += [conv(outputs // 4, outputs // 4, 3, stride, outputs // 4, act="none")]
        body += [conv(outputs // 4, outputs, 1, groups=4, act="none")]
        layers.append(Residual(nn.Sequential(*body), inputs, outputs, stride))
        inputs = outputs
    return nn.Sequential(*layers, Classifier(inputs)), image(batch, size)


class Temporal(nn.Module):
    """A dilated convolution over time with a residual (Bai et al. 2018)."""

    def __init__(self, width: int, dilation: int):
        super().__init__()
        self.layer = nn.Conv1d(width, width, 3, padding=dilation, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.relu(self.layer(x))


def temporal(width: int, size: int, batch: int) -> Built:
    """Convolutions over a sequence, as for sound."""
    layers = [nn.Conv1d(1, width, 9, 4, 4), nn.ReLU(), *(Temporal(width, 1 << k) for k in range(4))]
    head = [nn.Conv1d(width, 2 * width, 5, 2, 2), nn.ReLU(), nn.AvgPool1d(4)]
    return nn.Sequential(*layers, *head), (torch.randn(batch, 1, size),)


def volume(width: int, size: int, batch: int) -> Built:
    """Convolutions in three dimensions, as for video."""
    layers = [nn.Conv3d(1, width, 3, 2, 1), nn.ReLU(), nn.Conv3d(width, 2 * width, 3, 1, 1)]
    layers += [nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(2 * width, 4 * width, 1), nn.ReLU()]
    return nn.Sequential(*layers), (torch.randn(batch, 1, size, size, size),)


class Detector(nn.Module):
    """Boxes and classes from two levels of a feature pyramid (Lin et al. 2017)."""

    def __init__(self, width: int):
        super().__init__()
        self.low = nn.Sequential(conv(3, width, 3, 2), conv(width, 2 * width, 3, 2))
        self.high = conv(2 * width, 4 * width, 3, 2)
        self.lateral = conv(4 * width, 2 * width, 1, act="none")
        self.smooth = conv(2 * width, 2 * width, 3)
        self.boxes, self.classes = conv(2 * width, 36, 3, act="none"), conv(2 * width, 45, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        low = self.low(x)
        x = self.smooth(low + upsampled(self.lateral(self.high(low))))
        return self.boxes(x), torch.sigmoid(self.classes(x))


def detector(width: int, size: int, batch: int) -> Built:
    """A small one-stage detector."""
    return Detector(width), image(batch, size)


NETWORKS = (
    *of_sizes("unet", unet, "s", (16, 64, 1), (8, 96, 2), (24, 48, 4), (12, 128, 1)),
    *of_sizes("generator", generator, "s", (16, 32, 1), (24, 64, 1), (8, 48, 8)),
    *of_sizes("superresolution", superresolution, "s", (16, 48, 1), (32, 32, 2), (24, 56, 1)),
    *of_sizes("dilated", dilated, "s", (16, 64, 1), (24, 96, 1), (12, 56, 4)),
    *of_sizes("convnext", convnext, "s", (24, 64, 1), (32, 96, 1), (16, 64, 8), (48, 64, 2)),
    *of_sizes("shufflenet", shufflenet, "s", (32, 64, 1), (64, 96, 1), (48, 64, 4)),
    *of_sizes("temporal", temporal, "s", (32, 1024, 1), (64, 2048, 1), (24, 512, 8)),
    *of_sizes("volume", volume, "s", (8, 24, 1), (16, 16, 2)),
    *of_sizes("detector", detector, "s", (16, 64, 1), (24, 96, 1), (12, 80, 4)),
)
