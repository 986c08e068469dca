"""How images become tokens, and the steps of augmentation. Units: pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ape_cli.core.errors import UsageError
from ape_cli.data import augmentation
from ape_cli.runs.config import ImageConfig, preset
from ape_cli.storage.sources import NOT_MIRRORED


@dataclass(frozen=True)
class Tokenising:
    """Sizes and strides of the convolution and of max pooling, in pixels."""

    convolution_size: int
    convolution_stride: int
    pool_size: int
    pool_stride: int

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """The rows and columns of tokens for images of this height and width.

        Raises `UsageError` for an even size, and if only a single token is left.
        """
        rows, columns = height, width
        for name, size, stride in (
            ("convolution_size", self.convolution_size, self.convolution_stride),
            ("pool_size", self.pool_size, self.pool_stride),
        ):
            if size % 2 == 0:
                allowed, fix = "an odd number of pixels", f"--set {name}={size + 1}"
                raise UsageError(f"bad {name}", got=size, allowed=allowed, fix=fix)
            # with padding, only the stride changes the number of tokens
            rows, columns = (-(-side // stride) for side in (rows, columns))
        if rows == columns == 1:
            raise UsageError(
                "an image becomes a single token, so there are no positions to tell apart",
                got=f"convolution_stride={self.convolution_stride}, pool_stride={self.pool_stride}, "
                f"images of {height} x {width} pixels",
                allowed="strides that leave two tokens or more",
                fix="--set pool_stride=1, or larger images",
            )
        return rows, columns


def tokenising(config: ImageConfig) -> Tokenising:
    """The sizes and strides with which a configuration turns pixels into tokens."""
    return Tokenising(config.convolution_size, config.convolution_stride, config.pool_size, config.pool_stride)


def augmented(config: ImageConfig, parameters: dict[str, Any]) -> str:
    """The steps of augmentation: those that are asked for, else those of the preset. `parameters` are the task's.

    Digits have a right way up, so their default is crops alone, or nothing if the preset has none.
    """
    default = preset(config.preset).augment
    if parameters.get("source") in NOT_MIRRORED and default != "none":
        default = "crop"
    steps = augmentation.parse(default if config.augment is None else config.augment)
    return ",".join(steps) or "none"
