"""How a model reads a dataset: the structure of its positions, and images as tokens. Units: pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ape_cli import position
from ape_cli.core.errors import DataError, UsageError
from ape_cli.data import augmentation
from ape_cli.runs.config import Config, ImageConfig, preset
from ape_cli.storage.sources import NOT_MIRRORED
from ape_cli.structure import LinePlace, Seq, Structure, columns, factors_of


class UnreadableError(DataError):
    """A scheme cannot read a dataset."""


def reading(scheme: str, data: Structure, chosen: Structure | None = None) -> Structure:
    """The structure as which a scheme reads positions of data of structure `data`.

    This is `chosen` if it is given. Otherwise it is the data's own structure; or the linearisation, if the scheme
    cannot read the data's own or is `flat`; or else the first factor of a product that the scheme can read. The
    linearisation is `seq`, or `line` if the data has a factor `seq` of its own.

    Raises `UsageError` if the scheme cannot read `chosen`, and `UnreadableError` if the data has no such positions or
    none that the scheme can read.
    """
    kind = position.load(scheme)
    line = LinePlace() if data != Seq() and Seq() in factors_of(data) else Seq()
    if chosen is not None and line == Seq():
        chosen = chosen.algebra  # so that the same reading has one name
    if chosen is not None and not kind.reads(chosen):
        raise UsageError(
            f"scheme {scheme!r} cannot read positions of this structure",
            got=chosen,
            allowed=", ".join(kind.structures),
            fix="see `ape schemes`",
        )
    candidates = [chosen] if chosen else [line] if kind.flat else [data, line, *factors_of(data)]
    for candidate in filter(kind.reads, candidates):
        if columns(candidate, data) is None:
            raise UnreadableError(
                f"this dataset has no positions of structure {candidate}",
                got=f"structure {data}",
                allowed=f"the factors of {data}, each once; line (seq) and cyclic(n) along its linearisation, each "
                "once; products of these",
                fix="choose another structure, or another dataset",
            )
        return candidate
    raise UnreadableError(
        f"scheme {scheme!r} cannot read this dataset",
        got=f"structure {data}",
        allowed=", ".join(kind.structures),
        fix="choose a dataset of such a structure, or another scheme (`ape schemes`)",
    )


def read_as(config: Config, data: Structure) -> Structure:
    """The structure as which the scheme of a configuration reads data of structure `data`. Raises as `reading` does."""
    return reading(config.scheme, data, config.structure)


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
                allowed, fix = "an odd number of pixels", f"`{name}={size + 1}`"
                raise UsageError(f"bad {name}", got=size, allowed=allowed, fix=fix)
            # with padding, only the stride changes the number of tokens
            rows, columns = (-(-side // stride) for side in (rows, columns))
        if rows == columns == 1:
            raise UsageError(
                "an image becomes a single token, so there are no positions to tell apart",
                got=f"convolution_stride={self.convolution_stride}, pool_stride={self.pool_stride}, "
                f"images of {height} x {width} pixels",
                allowed="strides that leave two tokens or more",
                fix="`pool_stride=1`, or larger images",
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
