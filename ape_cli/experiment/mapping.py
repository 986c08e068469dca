"""The map of positions of an experiment, and what it does not fit to."""

from __future__ import annotations

from ape_cli import position
from ape_cli.core import own_parts
from ape_cli.core.errors import UsageError
from ape_cli.data import position_maps
from ape_cli.data.position_maps import PositionSampler, RowPositions
from ape_cli.data.reading import Reading
from ape_cli.experiment.reading import UnreadableError
from ape_cli.position import Scheme
from ape_cli.runs.config import Config
from ape_cli.structure import Structure


class MapError(UsageError):
    """A map of positions does not fit a scheme or a model."""


_LEAVE = "leave `positions` out"


def row_positions(config: Config) -> RowPositions | None:
    """The map of a configuration with the seed of its run. None for the plain one, so that it costs nothing.

    Raises `UsageError` for options that are not valid, and `ApeError` for a user's own map that breaks a rule.
    """
    found = _made(config)
    return None if config.positions == position_maps.PLAIN else RowPositions(found, config.seed, config.is_joined)


def checked_map(config: Config, data: Structure, read: Structure, decay: float) -> PositionSampler:
    """The map of a configuration for data of structure `data`, whose positions are read as `read`.

    `decay`: the locality bias. Raises `UsageError`, with the reason, if the map does not fit the scheme or the model,
    `UnreadableError` if `read` has coordinates that no map acts on, and `ApeError` for a user's own map that breaks a
    rule.
    """
    name, found = config.positions, _made(config)
    if name == position_maps.PLAIN:
        return found
    what, got = f"positions={name} cannot be used here", f"scheme {config.scheme}"
    if config.kind == "image":
        reason = "the tokens of an image are not read along a line"
        raise MapError(f"{what}: {reason}", got="a model for images", fix=_LEAVE)
    if found.decoder_only and not config.is_joined:
        raise MapError(
            f"{what}: {found.decoder_only}", got="`model=encoder-decoder`", fix=f"`model=decoder`, or {_LEAVE}"
        )
    if decay == 1.0 and not position.reads_positions(_scheme(config, read, 20)):
        raise MapError(f"{what}: the scheme reads no positions, so it would have no effect", got=got, fix=_LEAVE)
    if found.shifts and config.is_joined and _is_relative(config, read):
        reason = "scores depend on differences of positions alone, so it would have no effect in a decoder-only model"
        raise MapError(f"{what}: {reason}", got=got, fix=f"{_LEAVE}, or choose a scheme that refers to the origin")
    if not Reading.of(data, read).is_line:
        reason = (
            "it acts on the place of a token along the linearisation, and these positions are places in a structure"
        )
        fix = f"`structure=seq` reads the linearisation; or {_LEAVE}"
        raise UnreadableError(f"{what}: {reason}", got=f"{got}, structure {read}", fix=fix)
    return found


def _made(config: Config) -> PositionSampler:
    """The map of a configuration. A user's own one is checked. Raises the errors of `row_positions`."""
    found = position_maps.make(config.positions, **config.positions_options)
    own_parts.check_once(found, position_maps.RULES, config.positions_options)
    return found


def _scheme(config: Config, read: Structure, size: int = 1, decay: float = 1.0) -> Scheme:
    """The scheme of a configuration, for positions up to a size."""
    sizes, algebra = (config.d_model, config.heads), read.algebra
    return position.make(config.scheme, *sizes, structure=algebra, max_size=size, decay=decay, **config.scheme_options)


def _is_relative(config: Config, read: Structure) -> bool:
    """Whether the scores of a scheme with its options depend on differences of positions alone.

    This holds for a scheme that reads none, because a locality bias depends on differences too.
    """
    return _scheme(config, read).relative or not position.reads_positions(_scheme(config, read, 20))


def check_reach(config: Config, read: Structure, greatest: int) -> None:
    """Check that a scheme takes the greatest position that the map gives. Raises its `UsageError` if it does not."""
    position.check_reach(_scheme(config, read, greatest), greatest)


def check_size(config: Config, greatest: int) -> None:
    """Check that the size of a bounded scheme is not below the greatest position that the map gives.

    Raises `UsageError` if it is.
    """
    if config.positions != position_maps.PLAIN and config.max_size is not None and config.max_size < greatest:
        what = f"positions={config.positions} gives positions beyond the size that {config.scheme} is made for"
        fix = "leave `max_size` out"
        raise UsageError(what, got=f"max_size={config.max_size}", allowed=f"{greatest:,} or more", fix=fix)
