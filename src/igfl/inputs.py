"""From stored images to what a network takes: cropped, flipped, standardised, a batch at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Generator, Tensor


@final
@dataclass(frozen=True, kw_only=True)
class Images:
    """Batched augmentation for training, its central part alone for evaluation.

    The defaults are the TensorFlow tutorial's for CIFAR-10 (McMahan et al. 2017): a random 24x24 crop, a random flip,
    contrast by a factor in [0.2, 1.8] about each channel's mean, then every image to mean 0 and deviation 1. Its random
    brightness adds a constant to the image, which that standardisation takes away again, so that it needs no code.
    """

    crop: int | None = 24
    pad: int = 0  # zeros around the image, before the crop
    flip: bool = True
    contrast: tuple[float, float] | None = (0.2, 1.8)
    mean: tuple[float, ...] | None = None  # of each channel, in [0, 1]; with deviation, in place of each image's own
    deviation: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.crop is not None and self.crop < 1:
            raise ValueError(f"crop={self.crop}: the side of a crop is at least one pixel")
        if self.pad < 0:
            raise ValueError(f"pad={self.pad}: must be zero or more")
        if (self.mean is None) != (self.deviation is None):
            raise ValueError("mean and deviation of the channels go together: give both or neither")
        if self.contrast is not None and not 0 <= self.contrast[0] <= self.contrast[1]:
            raise ValueError(f"contrast={self.contrast}: give the lowest and the highest factor, zero or above")

    def train(self, x: Tensor, generator: Generator | None) -> Tensor:
        n, side = len(x), self._side(x)
        room_y, room_x = (x.shape[d] + 2 * self.pad - side for d in (2, 3))
        down = torch.randint(room_y + 1, (n,), generator=generator)
        right = torch.randint(room_x + 1, (n,), generator=generator)
        flipped = torch.rand(n, generator=generator) < 0.5 if self.flip else torch.zeros(n, dtype=torch.bool)
        factor = None
        if self.contrast is not None:
            low, high = self.contrast
            factor = low + (high - low) * torch.rand(n, generator=generator)
        return self._standardise(self._cut(x, down, right, flipped), factor)

    def evaluate(self, x: Tensor) -> Tensor:
        side = self._side(x)
        down, right = (max(0, (x.shape[d] - side) // 2) for d in (2, 3))
        return self._standardise(x[:, :, down : down + side, right : right + side], None)

    def _side(self, x: Tensor) -> int:
        side = self.crop if self.crop is not None else x.shape[2]
        if side > min(x.shape[2:]) + 2 * self.pad:
            raise ValueError(f"crop={side}: the images are {x.shape[2]}x{x.shape[3]}, padded by {self.pad}; crop less")
        return side

    def _cut(self, x: Tensor, down: Tensor, right: Tensor, flipped: Tensor) -> Tensor:
        """Each image's own window, by one gather for the batch."""
        if self.pad:
            x = torch.nn.functional.pad(x, (self.pad,) * 4)
        n, channels, height, width = x.shape
        side = torch.arange(self._side(x) if self.crop is not None else height - 2 * self.pad)
        columns = torch.where(flipped[:, None], side.flip(0), side) + right[:, None]  # [n, side]
        rows = (side + down[:, None]) * width  # [n, side]
        places = (rows[:, :, None] + columns[:, None, :]).view(n, 1, -1).expand(n, channels, -1)
        return x.view(n, channels, height * width).gather(2, places).view(n, channels, len(side), len(side))

    def _standardise(self, x: Tensor, factor: Tensor | None) -> Tensor:
        """One pass for the moments, one for x -> slope x + offset, with a slope an image and an offset a channel."""
        x = x.float() if x.dtype == torch.uint8 else x * 255
        if self.mean is not None and self.deviation is not None:
            mean, deviation = (torch.tensor(v).view(1, -1, 1, 1) * 255 for v in (self.mean, self.deviation))
            if factor is not None:
                middle = x.mean((2, 3), keepdim=True)
                x = middle + factor.view(-1, 1, 1, 1) * (x - middle)
            return (x - mean) / deviation
        variances, means = torch.var_mean(x, (2, 3), correction=0, keepdim=True)  # [n, channels, 1, 1]
        factors = torch.ones(len(x), 1, 1, 1) if factor is None else factor.view(-1, 1, 1, 1)
        mean = means.mean(1, keepdim=True)  # contrast leaves it as it is
        variance = factors.square() * variances.mean(1, keepdim=True) + (means - mean).square().mean(1, keepdim=True)
        slope = 1 / variance.sqrt().clamp_min(x[0].numel() ** -0.5)
        return torch.addcmul((means - factors * means - mean) * slope, x, factors * slope)


CIFAR_TUTORIAL = Images()
CIFAR_PADDED = Images(
    crop=32, pad=4, contrast=None, mean=(0.4914, 0.4822, 0.4465), deviation=(0.2470, 0.2435, 0.2616)
)  # what small networks on 32x32 usually get
