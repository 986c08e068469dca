"""The fields of a configuration that scheme, attention and data decide."""

from __future__ import annotations

import math
from typing import Any

from ape_cli import attention, position
from ape_cli.core.errors import UsageError
from ape_cli.data.plan import DatasetInfo
from ape_cli.experiment.images import augmented, tokenising
from ape_cli.experiment.reading import reading
from ape_cli.runs.config import Config, ImageConfig, SequenceConfig, resolve
from ape_cli.structure import Structure


def locality(config: Config) -> float:
    """The locality bias of a configuration. Raises `UsageError` if its scheme does not fit its attention.

    This needs no data, so it can be checked before there is any.
    """
    scheme, kind = position.load(config.scheme), attention.make(config.attention, **config.attention_options)
    default = 1.0 if kind.refuses_decay else scheme.default_decay
    rate = float(default if config.decay is None else config.decay)
    attention.check(kind, scheme, rate)
    return rate


def complete(config: Config, data: DatasetInfo, read: Structure | None = None) -> Config:
    """The configuration with the fields filled in that depend on scheme, attention and data.

    `read` is the structure that is read, if it is known already. A bounded scheme is made for the largest size of the
    training split, so that nothing that the model trains on is cut. (The paper's appendix B takes the mean of the
    distribution.) The size is None if the training split does not exist yet. A kind of attention that takes no locality
    bias gets none.

    Raises `UsageError` if the configuration is for data of another kind, asks for a locality bias that the attention
    does not take, or for a size although the scheme is not bounded; and the errors of `reading`.
    """
    if config.kind != data.kind:
        what = f"the configuration is of a model for {config.kind}s"
        raise UsageError(what, got=f"data of {data.kind}s", fix="resolve it for the kind of the data")
    scheme = position.load(config.scheme)
    read = reading(config.scheme, data.structure, config.structure) if read is None else read
    default = read if config.structure is None else reading(config.scheme, data.structure)
    if config.max_size is not None and not scheme.bounded:
        raise UsageError(
            f"{config.scheme} is not bounded by a size", got=f"max_size={config.max_size}", fix="leave max_size out"
        )
    fields: dict[str, Any] = {"structure": None if read == default else read, "decay": locality(config)}
    if isinstance(config, SequenceConfig):
        _check_effect(config)
        largest = data.largest(read) if scheme.bounded and config.max_size is None else None
        size = None if largest is None else max(1, largest)
    else:
        assert isinstance(config, ImageConfig)
        assert data.image is not None
        size = math.prod(tokenising(config).grid(*data.image[:2]))  # refuses images that become a single token
        fields["augment"] = augmented(config, data.parameters)
    return config.model_copy(update=fields | {"max_size": (config.max_size or size) if scheme.bounded else None})


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


def variant(config: Config, data: DatasetInfo) -> dict[str, Any]:
    """The fields and options in which a complete configuration differs from the defaults of its preset and scheme.

    The kind of attention is among them, and so is the locality bias that it turned off.
    """
    plain = complete(resolve(config.preset, config.scheme, {}, kind=config.kind, seed=config.seed), data)
    fields = config.model_dump()
    options = {"scheme_options", "attention_options"}
    changed = {k: fields[k] for k, v in plain.model_dump().items() if k not in options and fields[k] != v}
    return changed | config.scheme_options | config.attention_options
