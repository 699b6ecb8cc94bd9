"""Convolutional networks that classify images, of the sizes that one core runs in milliseconds."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lib.collect.tvm.networks import Built, of_sizes
from lib.collect.tvm.networks.blocks import Classifier, Residual, SqueezeExcite, conv, image


def resnet(width: int, size: int, batch: int, blocks: tuple[int, ...], large: bool) -> Built:
    """A residual network (He et al. 2016) of basic blocks, or bottlenecks if ``large``."""
    layers: list[nn.Module] = [conv(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)]
    inputs = width
    for stage, count in enumerate(blocks):
        inner = width << stage
        outputs = inner * 4 if large else inner
        for k in range(count):
            stride = 2 if stage and not k else 1
            if large:
                body = [conv(inputs, inner, 1), conv(inner, inner, 3, stride)]
                body.append(conv(inner, outputs, 1, act="none"))
            else:
                body = [conv(inputs, inner, 3, stride), conv(inner, inner, 3, act="none")]
            layers.append(Residual(nn.Sequential(*body), inputs, outputs, stride))
            inputs = outputs
    return nn.Sequential(*layers, Classifier(inputs)), image(batch, size)


def resnext(width: int, size: int, batch: int, groups: int) -> Built:
    """Bottlenecks with grouped convolutions (Xie et al. 2017)."""
    layers: list[nn.Module] = [conv(3, width, 3, 2)]
    inputs = width
    for stage in range(3):
        inner, outputs, stride = width << stage, width << (stage + 1), 2 if stage else 1
        body = [conv(inputs, inner, 1), conv(inner, inner, 3, stride, groups)]
        body.append(conv(inner, outputs, 1, act="none"))
        layers.append(Residual(nn.Sequential(*body), inputs, outputs, stride))
        inputs = outputs
    return nn.Sequential(*layers, Classifier(inputs)), image(batch, size)


def mobilenet_v1(width: int, size: int, batch: int) -> Built:
    """Depthwise separable convolutions (Howard et al. 2017)."""
    layers: list[nn.Module] = [conv(3, width, 3, 2)]
    inputs = width
    for outputs, stride in ((2, 1), (4, 2), (4, 1), (8, 2), (8, 1), (16, 2), (16, 1), (32, 2)):
        outputs *= width
        layers += [conv(inputs, inputs, 3, stride, inputs), conv(inputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, Classifier(inputs)), image(batch, size)


def inverted(inputs: int, outputs: int, stride: int, expand: int, kernel: int, act: str, se: bool):
    """An inverted residual block: wide inside, narrow at its ends."""
    inner = inputs * expand
    body: list[nn.Module] = [conv(inputs, inner, 1, act=act)]
    body.append(conv(inner, inner, kernel, stride, inner, act=act))
    body += [SqueezeExcite(inner)] if se else []
    body.append(conv(inner, outputs, 1, act="none"))
    block = nn.Sequential(*body)
    same = stride == 1 and inputs == outputs
    return Residual(block, inputs, outputs, act="none") if same else block


def mobilenet_v2(width: int, size: int, batch: int) -> Built:
    """Inverted residual blocks (Sandler et al. 2018)."""
    layers: list[nn.Module] = [conv(3, width, 3, 2, act="relu6")]
    inputs = width
    for times, stride, count in (
        (1, 1, 1),
        (1.5, 2, 2),
        (2, 2, 2),
        (4, 2, 2),
        (6, 1, 2),
        (10, 2, 1),
    ):
        outputs = int(width * times) // 4 * 4
        for k in range(count):
            layers.append(inverted(inputs, outputs, 1 if k else stride, 6, 3, "relu6", False))
            inputs = outputs
    layers.append(conv(inputs, inputs * 4, 1, act="relu6"))
    return nn.Sequential(*layers, Classifier(inputs * 4)), image(batch, size)


def efficientnet(width: int, size: int, batch: int, act: str) -> Built:
    """Inverted blocks with squeeze and excitation (Howard 2019 by ``hardswish``, Tan 2019)."""
    layers: list[nn.Module] = [conv(3, width, 3, 2, act=act)]
    inputs = width
    for times, stride, kernel, expand in (
        (1, 1, 3, 2),
        (2, 2, 3, 4),
        (3, 2, 5, 4),
        (5, 2, 3, 6),
        (7, 1, 5, 6),
    ):
        outputs = width * times
        layers.append(inverted(inputs, outputs, stride, expand, kernel, act, True))
        layers.append(inverted(outputs, outputs, 1, expand, kernel, act, True))
        inputs = outputs
    return nn.Sequential(*layers, Classifier(inputs)), image(batch, size)


class Branches(nn.Module):
    """Layers side by side, their channels joined."""

    def __init__(self, *branches: nn.Module):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def inception(width: int, size: int, batch: int) -> Built:
    """Four branches a block: 1x1, 3x3, 5x5 and pooling (Szegedy et al. 2015)."""
    layers: list[nn.Module] = [conv(3, width, 5, 2), conv(width, 2 * width, 3), nn.MaxPool2d(2)]
    inputs = 2 * width
    for stage in range(3):
        w = width << stage
        branches = (
            conv(inputs, w, 1),
            nn.Sequential(conv(inputs, w, 1), conv(w, 2 * w, 3)),
            nn.Sequential(conv(inputs, w // 2, 1), conv(w // 2, w, 5)),
            nn.Sequential(nn.MaxPool2d(3, 1, 1), conv(inputs, w, 1)),
        )
        layers += [Branches(*branches), nn.MaxPool2d(2)]
        inputs = 5 * w
    return nn.Sequential(*layers, Classifier(inputs)), image(batch, size)


def squeezenet(width: int, size: int, batch: int) -> Built:
    """Fire modules: a narrow 1x1 layer read by a 1x1 and a 3x3 (Iandola et al. 2016)."""
    layers: list[nn.Module] = [conv(3, width, 3, 2), nn.MaxPool2d(2)]
    inputs = width
    for k, times in enumerate((1, 1, 2, 3, 4)):
        narrow, wide = width * times // 4, width * times
        layers += [conv(inputs, narrow, 1), Branches(conv(narrow, wide, 1), conv(narrow, wide, 3))]
        layers += [nn.MaxPool2d(2)] if k in (1, 3) else []
        inputs = 2 * wide
    return nn.Sequential(*layers, Classifier(inputs)), image(batch, size)


def vgg(width: int, size: int, batch: int) -> Built:
    """Plain 3x3 layers and large linear ones (Simonyan and Zisserman 2015)."""
    layers: list[nn.Module] = []
    inputs = 3
    for stage, count in enumerate((1, 1, 2, 2)):
        for _ in range(count):
            layers.append(conv(inputs, width << stage, 3))
            inputs = width << stage
        layers.append(nn.MaxPool2d(2))
    flat = inputs * (size // 16) ** 2
    layers += [nn.Flatten(), nn.Linear(flat, 8 * width), nn.ReLU(), nn.Linear(8 * width, 100)]
    return nn.Sequential(*layers), image(batch, size)


class DenseLayer(nn.Module):
    """Adds ``growth`` channels to its input's."""

    def __init__(self, inputs: int, growth: int):
        super().__init__()
        self.body = nn.Sequential(conv(inputs, 4 * growth, 1), conv(4 * growth, growth, 3))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body(x)], 1)


def densenet(growth: int, size: int, batch: int) -> Built:
    """Every layer reads all before it (Huang et al. 2017)."""
    layers: list[nn.Module] = [conv(3, 2 * growth, 5, 2)]
    inputs = 2 * growth
    for stage in range(3):
        for _ in range(3):
            layers.append(DenseLayer(inputs, growth))
            inputs += growth
        if stage < 2:
            layers += [conv(inputs, inputs // 2, 1), nn.AvgPool2d(2)]
            inputs //= 2
    return nn.Sequential(*layers, Classifier(inputs)), image(batch, size)


NETWORKS = (
    *of_sizes(
        "resnet18",
        resnet,
        "s",
        (32, 64, 1),
        (24, 96, 4),
        (40, 56, 8),
        (64, 112, 1),
        extra=((2, 2, 2, 2), False),
    ),
    *of_sizes(
        "resnet50",
        resnet,
        "s",
        (32, 64, 1),
        (24, 96, 2),
        (16, 80, 8),
        (48, 112, 1),
        extra=((2, 2, 2, 2), True),
    ),
    *of_sizes(
        "mobilenet_v2", mobilenet_v2, "s", (16, 96, 1), (24, 64, 4), (32, 112, 1), (8, 128, 8)
    ),
    *of_sizes("mobilenet_v1", mobilenet_v1, "s", (16, 112, 1), (24, 64, 4), (8, 96, 16)),
    *of_sizes("inception", inception, "s", (16, 64, 1), (24, 96, 1), (12, 80, 8)),
    *of_sizes("vgg", vgg, "s", (16, 64, 1), (32, 48, 2), (24, 80, 1), (12, 32, 16)),
    *of_sizes("densenet", densenet, "s", (12, 64, 1), (16, 96, 1), (24, 48, 4)),
    *of_sizes("resnext", resnext, "s", (32, 64, 1, 4), (48, 56, 4, 8), (64, 80, 1, 16)),
    *of_sizes(
        "efficientnet",
        efficientnet,
        "s",
        (16, 96, 1, "silu"),
        (12, 64, 8, "silu"),
        (24, 80, 1, "silu"),
    ),
    *of_sizes(
        "mobilenet_v3", efficientnet, "s", (16, 80, 2, "hardswish"), (8, 112, 4, "hardswish")
    ),
    *of_sizes("squeezenet", squeezenet, "s", (32, 80, 1), (48, 64, 4), (24, 112, 2)),
)
