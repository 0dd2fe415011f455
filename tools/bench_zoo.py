"""The whole models that `tools/bench models` and `tools/bench compile` run: those of tests/models, and some of vision.

    program = make("unet", train=True)
    loss = program.loss(compile(program.model))
"""
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.models import zoo

T = torch.Tensor
#: Of the models of tests/models.
LAYERS, WIDTH, BATCH, LENGTH = 4, 128, 8, 64


@dataclass(frozen=True)
class Program:
    """A model, and what calls it (or what has been compiled of it) and gives its loss."""

    model: nn.Module
    loss: Callable[[Any], T]


class Residual(nn.Module):
    """Two convolutions with batch norms, and the input or what a third one makes of it."""

    def __init__(self, channels: int, made: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(channels, made, 3, stride, 1, bias=False), nn.BatchNorm2d(made))
        self.second = nn.Sequential(nn.Conv2d(made, made, 3, 1, 1, bias=False), nn.BatchNorm2d(made))
        self.short: nn.Module = nn.Identity()
        if stride != 1 or channels != made:
            self.short = nn.Sequential(nn.Conv2d(channels, made, 1, stride, bias=False), nn.BatchNorm2d(made))

    def forward(self, x: T) -> T:
        return torch.relu(self.second(torch.relu(self.first(x))) + self.short(x))


def resnet(layers: int) -> nn.Module:
    """Eight residual blocks at `layers` = 4, as ResNet-18 has, of a quarter of its channels."""
    stages = [nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())]
    channels = 16
    for stage in range(4):
        made = 16 << stage
        blocks = [Residual(channels, made, 2 if stage else 1)]
        blocks += [Residual(made, made, 1) for _ in range(layers // 4)]
        stages.append(nn.Sequential(*blocks))
        channels = made
    return nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, zoo.KINDS))


class UNet(nn.Module):
    """Down and up again, with group norms; each level going up sees what the one going down gave."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        widths = [16 << level for level in range(3)]
        self.enter = nn.Conv2d(3, widths[0], 3, padding=1)
        self.down = nn.ModuleList(self.level(width, width, layers // 4) for width in widths)
        self.shrink = nn.ModuleList(nn.Conv2d(width, 2 * width, 3, 2, 1) for width in widths)
        self.middle = self.level(2 * widths[-1], 2 * widths[-1], layers // 4)
        self.grow = nn.ModuleList(nn.Conv2d(2 * width, width, 1) for width in reversed(widths))
        self.up = nn.ModuleList(self.level(2 * width, width, layers // 4) for width in reversed(widths))
        self.leave = nn.Conv2d(widths[0], 3, 1)

    @staticmethod
    def level(channels: int, made: int, layers: int) -> nn.Sequential:
        parts: list[nn.Module] = []
        for _ in range(layers):
            parts += [nn.Conv2d(channels, made, 3, padding=1), nn.GroupNorm(8, made), nn.SiLU()]
            channels = made
        return nn.Sequential(*parts)

    def forward(self, x: T) -> T:
        x, seen = self.enter(x), []
        for level, shrink in zip(self.down, self.shrink, strict=True):
            x = level(x)
            seen.append(x)
            x = shrink(x)
        x = self.middle(x)
        for level, grow, before in zip(self.up, self.grow, reversed(seen), strict=True):
            x = F.interpolate(grow(x), scale_factor=2.0)
            x = level(torch.cat([x, before], 1))
        return self.leave(x)


class Mixer(nn.Module):
    """Mixes patches, then channels, layer after layer."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, 4)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2 * layers))
        self.mixers = nn.ModuleList(
            nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size))
            for _ in range(layers) for size in (LENGTH, WIDTH)
        )
        self.head = nn.Linear(WIDTH, zoo.KINDS)

    def forward(self, x: T) -> T:
        x = self.patches(x).flatten(2).transpose(1, 2)
        for number, (norm, mixer) in enumerate(zip(self.norms, self.mixers, strict=True)):
            mixed = norm(x)
            x = x + (mixer(mixed) if number % 2 else mixer(mixed.transpose(1, 2)).transpose(1, 2))
        return self.head(x.mean(1))


def of_zoo(name: str, layers: int, train: bool) -> Program:
    entry = zoo.MODELS[name]
    model = entry.make_model(layers, WIDTH, train=train)
    inputs = entry.make_inputs(model, BATCH, LENGTH)
    return Program(model, lambda call: call(**inputs).loss)


def of_images(make_model: Callable[[int], nn.Module], layers: int, train: bool) -> Program:
    model = make_model(layers).train(train)
    images, kinds = torch.randn(BATCH, 3, 32, 32), torch.randint(zoo.KINDS, (BATCH,))

    def loss(call: Any) -> T:
        out = call(images)
        return F.cross_entropy(out, kinds) if out.dim() == 2 else F.mse_loss(out, images)

    return Program(model, loss)


VISION: dict[str, Callable[[int], nn.Module]] = {"resnet": resnet, "unet": UNet, "mixer": Mixer}
NAMES = (*zoo.MODELS, *VISION)


def make(name: str, *, layers: int = LAYERS, train: bool) -> Program:
    """The same at each call with the same arguments."""
    torch.manual_seed(0)
    return of_images(VISION[name], layers, train) if name in VISION else of_zoo(name, layers, train)
