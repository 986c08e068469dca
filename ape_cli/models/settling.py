"""What a configuration means for a dataset: the structure that is read, the size of a bounded scheme, and defaults.

A configuration leaves some fields to the scheme, the attention and the data. `settle` fills them in.
"""

from __future__ import annotations

import math
from typing import Any

from ape_cli import attention, position
from ape_cli.core.errors import DataError, UsageError
from ape_cli.data import augmentation
from ape_cli.data.facts import Facts
from ape_cli.models.image_classifier import Tokenising
from ape_cli.runs.config import Config, ImageConfig, SequenceConfig, preset, resolve
from ape_cli.storage.sources import NOT_MIRRORED
from ape_cli.structure import LinePlace, Seq, Structure, columns, factors_of, left_out


def reading(scheme: str, own: Structure, wanted: Structure | None = None) -> Structure:
    """The structure as which a scheme reads positions of data of structure `own`.

    This is `wanted` if it is given. Otherwise it is the data's own structure; or the linearisation, if the scheme
    cannot read the data's own or is `flat`; or else the first factor of a product that the scheme can read. The
    linearisation is `seq`, or `line` if the data has a factor `seq` of its own.

    Raises `UsageError` if the scheme cannot read `wanted`, and `DataError` if the data has no such positions or none
    that the scheme can read.
    """
    found = position.load(scheme)
    line = LinePlace() if own != Seq() and Seq() in factors_of(own) else Seq()
    if wanted is not None and line == Seq():
        wanted = wanted.algebra  # so that the same reading has one name
    if wanted is not None and not found.reads(wanted):
        allowed = ", ".join(found.structures)
        raise UsageError(
            f"scheme {scheme!r} cannot read positions of this structure",
            got=wanted,
            allowed=allowed,
            fix="see `ape schemes`",
        )
    choices = [wanted] if wanted else [line] if found.flat else [own, line, *factors_of(own)]
    for choice in choices:
        if found.reads(choice):
            if columns(choice, own) is None:
                raise DataError(
                    f"this dataset has no positions of structure {choice}",
                    got=f"structure {own}",
                    allowed=f"the factors of {own}, each once; line (seq) and cyclic(n) along its linearisation, each "
                    "once; products of these",
                    fix="choose another --structure, or another dataset",
                )
            return choice
    raise DataError(
        f"scheme {scheme!r} cannot read this dataset",
        got=f"structure {own}",
        allowed=", ".join(found.structures),
        fix="choose a dataset of such a structure, or another scheme (`ape schemes`)",
    )


def shared_positions(config: Config, data: Facts) -> str | None:
    """Why tokens of a row can have equal positions if the configuration's scheme reads the data; None if they cannot.

    The scheme then reads some factors of a product and leaves others out.
    """
    read = reading(config.scheme, data.structure, config.structure)
    missing = [factor.expression for factor in left_out(read, data.structure)]
    if not missing:
        return None
    return f"{config.scheme} reads {read} of {data.structure}, without {', '.join(missing)}: positions are not unique"


def locality(config: Config) -> float:
    """The locality bias of a configuration. Raises `UsageError` if its scheme does not fit its attention.

    This needs no data, so it can be checked before there is any.
    """
    found, kind = position.load(config.scheme), attention.make(config.attention, **config.attention_options)
    own = 1.0 if kind.refuses_decay else found.default_decay
    rate = float(own if config.decay is None else config.decay)
    attention.check(kind, found, rate)
    return rate


def settle(config: Config, data: Facts) -> Config:
    """The configuration with the values filled in that depend on scheme, attention and data: locality bias and size.

    For images the steps of augmentation are filled in too. A bounded scheme is made for the largest size of the
    training split, so that nothing that the model trains on is cut. (The paper's appendix B takes the mean of the
    distribution.) The size is None if the training split is not there. A kind of attention that takes no locality
    bias gets none; if one is asked for, it raises `UsageError`. Raises `UsageError` also if the configuration is for
    data of another kind, or has a size for a scheme that is not bounded.
    """
    if config.kind != data.kind:
        what = f"the configuration is of a model for {config.kind}s"
        raise UsageError(what, got=f"data of {data.kind}s", fix="resolve it for the kind of the data")
    found = position.load(config.scheme)
    plain, read = (reading(config.scheme, data.structure, wanted) for wanted in (None, config.structure))
    # of images always, because it refuses those that would become a single token
    extent = _extent(config, data, read) if found.bounded or data.image else None
    size = (config.max_size or extent) if found.bounded else None
    if config.max_size is not None and not found.bounded:
        raise UsageError(
            f"{config.scheme} is not bounded by a size",
            got=f"max_size={config.max_size}",
            fix="leave max_size out",
        )
    if isinstance(config, SequenceConfig):
        _check_effect(config)
    settled = {"structure": None if read == plain else read, "max_size": size, "decay": locality(config)}
    return config.model_copy(update=settled | _augmentation(config, data))


def _check_effect(config: SequenceConfig) -> None:
    """Check that two settings have an effect. Raises `UsageError` if one has none."""
    if config.positions_scale != 1.0 and not position.load(config.scheme).overrides("embed"):
        raise UsageError(
            f"{config.scheme} adds nothing to the embeddings",
            got=f"positions_scale={config.positions_scale:g}",
            fix="leave positions_scale out, or choose an additive scheme (`ape schemes`)",
        )
    if config.dropout_places != "all" and not config.dropout:
        raise UsageError(
            "there is no dropout to place", got=f"dropout_places={config.dropout_places}", fix="--set dropout=0.15"
        )


def _extent(config: Config, data: Facts, read: Structure) -> int | None:
    """The largest size that a bounded scheme reads in training, at least 1. None if the training split is not there."""
    if isinstance(config, ImageConfig):
        assert data.image is not None
        return math.prod(tokenising(config).grid(*data.image[:2]))
    found = data.largest(read)
    return None if found is None else max(1, found)


def _augmentation(config: Config, data: Facts) -> dict[str, Any]:
    """The augmentation of images: the steps that are asked for, else those of the preset.

    Digits have a right way up, so their default is crops alone, or nothing if the preset has none.
    """
    if not isinstance(config, ImageConfig):
        return {}
    usual = preset(config.preset).augment
    if data.parameters.get("source") in NOT_MIRRORED and usual != "none":
        usual = "crop"
    steps = augmentation.parse(usual if config.augment is None else config.augment)
    return {"augment": ",".join(steps) or "none"}


def tokenising(config: ImageConfig) -> Tokenising:
    """The sizes and strides with which a configuration turns pixels into tokens."""
    return Tokenising(config.convolution_size, config.convolution_stride, config.pool_size, config.pool_stride)


def feed(config: Config, data: Facts, *, training: bool = False) -> dict[str, Any]:
    """The arguments with which a split of the data makes its batches for a model of the configuration."""
    if isinstance(config, ImageConfig):
        return {"augment": augmentation.parse(config.augment or "none")} if training else {}
    return {"structure": reading(config.scheme, data.structure, config.structure)}


def variant(config: Config, data: Facts) -> dict[str, Any]:
    """The fields and options in which a settled configuration differs from the defaults of its preset and scheme.

    The kind of attention is among them, and so is the locality bias that it turned off.
    """
    plain = settle(resolve(config.preset, config.scheme, {}, kind=config.kind, seed=config.seed), data)
    fields = config.model_dump()
    options = {"scheme_options", "attention_options"}
    changed = {k: fields[k] for k, v in plain.model_dump().items() if k not in options and fields[k] != v}
    return changed | config.scheme_options | config.attention_options
