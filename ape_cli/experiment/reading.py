"""How a model reads a dataset: the structure and the map of its positions, and images as tokens. Units: pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ape_cli import position
from ape_cli.core import user_parts
from ape_cli.core.errors import CombinationError, DataError, UsageError, brief
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.data import augmentation, position_maps
from ape_cli.data.collation import PositionReading
from ape_cli.data.position_maps import RowPositions
from ape_cli.position import Scheme
from ape_cli.runs.config import Config, ImageConfig, preset
from ape_cli.storage.sources import NOT_MIRRORED
from ape_cli.structure import LinePlace, Seq, Structure, columns, factors_of


class UnreadableError(DataError):
    """A scheme cannot read a dataset."""


def structure_for(scheme: str, data: Structure, chosen: Structure | None = None) -> Structure:
    """The structure as which a scheme reads positions of data of structure `data`.

    This is `chosen` if it is given. Otherwise it is the data's own structure; or the linearisation, if the scheme
    cannot read the data's own or is `flat`; or else the first factor of a product that the scheme can read. The
    linearisation is `seq`, or `line` if the data has a factor `seq` of its own.

    Raises `CombinationError` if the scheme cannot read `chosen`, and `UnreadableError` if the data has no such
    positions or none that the scheme can read.
    """
    return _structure_for(position.load(scheme), scheme, data, chosen)  # type: ignore[arg-type]


@cache
def _structure_for(loaded: type[Scheme], scheme: str, data: Structure, chosen: Structure | None) -> Structure:
    line = LinePlace() if data != Seq() and Seq() in factors_of(data) else Seq()
    if chosen is not None and line == Seq():
        chosen = chosen.algebra  # so that the same reading has one name
    if chosen is not None and not loaded.reads(chosen):
        raise CombinationError(
            f"scheme {scheme!r} cannot read positions of this structure",
            got=chosen,
            allowed=", ".join(loaded.structures),
            fix="see `ape schemes`",
        )
    candidates = [chosen] if chosen else [line] if loaded.flat else [data, line, *factors_of(data)]
    structure = next(filter(loaded.reads, candidates), None)
    if structure is None:
        raise UnreadableError(
            f"scheme {scheme!r} cannot read this dataset",
            got=f"structure {data}",
            allowed=", ".join(loaded.structures),
            fix="choose a dataset of such a structure, or another scheme (`ape schemes`)",
        )
    if columns(structure, data) is None:
        raise UnreadableError(
            f"this dataset has no positions of structure {structure}",
            got=f"structure {data}",
            allowed=f"the factors of {data}; line (seq) and cyclic(n) along its linearisation; products of these",
            fix="choose another structure, or another dataset",
        )
    return structure


def position_reading(config: Config, data: Structure, *, tagged: bool = False, causal: bool = False) -> PositionReading:
    """How the model of a configuration reads the positions of data of structure `data`.

    `tagged`: whether the target has a tag for each token of the source; `causal`: whether it is predicted from the
    tokens up to it. Raises the errors of `structure_for` and `row_positions`, and `UsageError` if the map does not act
    on such positions.
    """
    structure, positions = structure_for(config.scheme, data, config.structure), row_positions(config)
    reads = {"tagged": tagged, "causal": causal, "decoder_only": config.decoder_only}
    return PositionReading.of(data, structure, positions=positions, **reads)


def row_positions(config: Config) -> RowPositions | None:
    """The map of a configuration with the seed of its run. None for the plain one, so that it costs nothing.

    Raises `UsageError` for options that are not valid, and `ApeError` for a user's own map that breaks a rule.
    """
    if config.positions == position_maps.PLAIN and not config.positions_options:
        return None
    made = position_maps.make(config.positions, **config.positions_options)
    user_parts.check_once(made, position_maps.RULES, config.positions_options)
    return RowPositions(made, config.seed, config.decoder_only)


def check_map(config: Config, data: Structure, names: Sequence[str] | None, decay: float) -> None:
    """Check that the map of a configuration fits its scheme and its model, for data of structure `data`.

    `names`: of the data's ids, or None if they are not known. `decay`: the locality bias. Raises `CombinationError`
    with the reason, if it does not fit, and the errors of `row_positions`.
    """
    if (positions := row_positions(config)) is None:
        return
    name, made = config.positions, positions.sampler

    def refused(reason: str, got: str = f"scheme {config.scheme}", fix: str = "leave `positions` out") -> UsageError:
        return CombinationError(f"positions={name} cannot be used here: {reason}", got=got, fix=fix)

    if config.modality == "image":
        raise refused("the tokens of an image are not read along a line", got="a model for images")
    if made.decoder_only and not config.decoder_only:
        raise refused(made.decoder_only, got="`model=encoder-decoder`", fix="`model=decoder`")
    structure = structure_for(config.scheme, data, config.structure)
    reads_positions = position.reads_positions(_scheme(config, structure, 20))
    if decay == 1.0 and not reads_positions:
        raise refused("the scheme reads no positions, so it would have no effect")
    # a scheme that reads no positions has a locality bias, which depends on differences too
    if made.shifts and config.decoder_only and (_scheme(config, structure, 1).relative or not reads_positions):
        raise refused("scores depend on differences of positions alone, so it would have no effect in a decoder")
    if names is not None and (reason := made.misfit(names)):
        symbols = brief(" ".join(names[FIRST_SYMBOL:]))
        raise refused(reason, got=f"symbols {symbols}", fix="another map, or other options of this one")
    if not PositionReading.of(data, structure).is_line:
        reason = "it acts on places along the linearisation, and these positions are places in a structure"
        raise refused(reason, got=f"structure {structure}", fix="`structure=seq` reads the linearisation")


def check_greatest(config: Config, structure: Structure, greatest: int) -> None:
    """Check that a scheme takes the greatest position that the map gives, and is not made for a smaller size.

    Raises `UsageError` if it does not.
    """
    if config.max_size is not None and config.max_size < greatest:
        what = f"positions={config.positions} gives positions beyond the size that {config.scheme} is made for"
        fix = "leave `max_size` out"
        raise UsageError(what, got=f"max_size={config.max_size}", allowed=f"{greatest:,} or more", fix=fix)
    position.check_reach(_scheme(config, structure, greatest), greatest)


def _scheme(config: Config, structure: Structure, size: int) -> Scheme:
    """The scheme of a configuration without a locality bias, for positions up to a size."""
    sizes, algebra = (config.d_model, config.heads), structure.algebra
    return position.make(config.scheme, *sizes, structure=algebra, max_size=size, decay=1.0, **config.scheme_options)


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
            what = "an image becomes a single token, so there are no positions to tell apart"
            got = f"strides {self.convolution_stride} and {self.pool_stride}, images of {height} x {width} pixels"
            raise UsageError(what, got=got, fix="`pool_stride=1`, or larger images")
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
