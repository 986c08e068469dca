"""From a configuration and the data's structure to a model.

What a scheme reads a dataset as, the size and the locality bias it gets, and the weights of its seed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ape_cli import attention, position, structure
from ape_cli.core.errors import DataError, UsageError
from ape_cli.data import augmentation, loader
from ape_cli.data.collation import Reading
from ape_cli.data.loader import Dataset, Facts
from ape_cli.models.image_classifier import Classifier, Tokenising
from ape_cli.models.transformer import Model, Transformer
from ape_cli.runs.config import Config, ImageConfig, SequenceConfig, preset, resolve
from ape_cli.tasks._images import DIGITS


def reading(scheme: str, own: str, wanted: str | None = None) -> str:
    """The structure that a scheme reads positions of data of structure `own` as.

    `wanted`, if it is given; else the data's own or, where the scheme cannot or is `flat`, `seq`, the linearisation.
    """
    found, data = position.load(scheme), structure.parse_structure(own)
    if wanted is not None and not found.reads(structure.parse_structure(wanted)):
        allowed = ", ".join(found.structures)
        raise UsageError(
            f"scheme {scheme!r} cannot read this structure", got=wanted, allowed=allowed, fix="see `ape schemes`"
        )
    choices = (
        [structure.parse_structure(wanted)] if wanted else [structure.Seq()] if found.flat else [data, structure.Seq()]
    )
    for choice in choices:
        if found.reads(choice):
            if structure.columns(choice, data) is None:
                raise DataError(
                    f"this dataset has no positions of structure {wanted or choice.expression}",
                    got=f"structure {own}",
                    allowed=f"{own}, once; seq and cyclic(n) along its linearisation, each once; products of these",
                    fix="choose another --structure, or another dataset",
                )
            return choice.expression
    raise DataError(
        f"scheme {scheme!r} cannot read this dataset",
        got=f"structure {own}",
        allowed=", ".join(found.structures),
        fix="choose a dataset of such a structure, or another scheme (`ape schemes`)",
    )


def locality(config: Config) -> float:
    """The locality bias that a configuration comes to. Raises `UsageError` for a scheme that makes no sense
    with its attention, before there is any data."""
    found, kind = position.load(config.scheme), attention.make(config.attention, **config.attention_options)
    own = 1.0 if kind.refuses_decay else found.default_decay
    rate = float(own if config.decay is None else config.decay)
    attention.check(kind, found, rate)
    return rate


def settle(config: Config, data: Facts) -> Config:
    """The configuration with what scheme, attention and data decide filled in: locality bias and size.

    Bounded schemes are sized at exactly the mean of the data's distribution (paper, appendix B). A kind
    of attention that takes no locality bias gets none, unless one is asked for: then it refuses.
    """
    if config.kind != loader.kind(data):
        what = f"the configuration is of a model for {config.kind}s"
        raise UsageError(what, got=f"data of {loader.kind(data)}s", fix="resolve it for the kind of the data")
    found = position.load(config.scheme)
    plain, read = (reading(config.scheme, data.structure, wanted) for wanted in (None, config.structure))
    own, tokens = _extent(config, data)
    mean = own if read == data.structure else tokens
    size = (config.max_size or max(1, round(mean))) if found.bounded else None
    if config.max_size is not None and not found.bounded:
        raise UsageError(
            f"{config.scheme} is not bounded by a size",
            got=f"max_size={config.max_size}",
            fix="leave max_size out",
        )
    settled = {"structure": None if read == plain else read, "max_size": size, "decay": locality(config)}
    return config.model_copy(update=settled | _augmentation(config, data))


def _extent(config: Config, data: Facts) -> tuple[float, float]:
    """What a model of the configuration reads of data of mean size: its size, and its tokens."""
    if not isinstance(config, ImageConfig):
        return data.mean_size, data.mean_tokens
    assert data.image is not None
    rows, columns = tokenising(config).grid(*data.image[:2])
    return max(rows, columns), rows * columns


def _augmentation(config: Config, data: Facts) -> dict[str, Any]:
    """Of images: the steps asked for, else the preset's; to digits, which have a right way up, crops alone."""
    if not isinstance(config, ImageConfig):
        return {}
    usual = preset(config.preset).augment
    if data.parameters.get("source") == DIGITS and usual != "none":
        usual = "crop"
    steps = augmentation.parse(usual if config.augment is None else config.augment)
    return {"augment": ",".join(steps) or "none"}


def tokenising(config: ImageConfig) -> Tokenising:
    """From pixels to tokens."""
    return Tokenising(config.convolution_size, config.convolution_stride, config.pool_size, config.pool_stride)


def feed(config: Config, data: Facts, *, training: bool = False) -> dict[str, Any]:
    """How a split of the data gives its batches to a model of the configuration."""
    if isinstance(config, ImageConfig):
        return {"augment": augmentation.parse(config.augment or "none")} if training else {}
    return {"structure": reading(config.scheme, data.structure, config.structure)}


def variant(config: Config, data: Facts) -> dict[str, Any]:
    """The fields and options in which a settled configuration differs from what its preset and scheme say.

    The kind of attention is among them, and so is the locality bias that it took away.
    """
    plain = settle(resolve(config.preset, config.scheme, {}, kind=config.kind, seed=config.seed), data)
    fields = config.model_dump()
    options = {"scheme_options", "attention_options"}
    changed = {k: fields[k] for k, v in plain.model_dump().items() if k not in options and fields[k] != v}
    return changed | config.scheme_options | config.attention_options


def of_data(config: Config, data: Dataset) -> Model:
    """The model of a settled configuration for a dataset, with the weights of its seed."""
    if not isinstance(config, ImageConfig):
        return build(config, data.structure, data.ids)
    moments = data.manifest.moments
    assert data.image is not None
    assert moments is not None
    return _classifier(config, data.structure, data.ids, data.image, (moments.mean, moments.std))


def build(config: Config, own: str, ids: int) -> Transformer:
    """The model for sequences of structure `own`, of a settled configuration, with the weights of its seed."""
    assert isinstance(config, SequenceConfig)
    return Transformer(
        ids=ids,
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        **_of_any_model(config, own),
    )


def _classifier(
    config: ImageConfig, own: str, classes: int, image: tuple[int, int, int], moments: tuple[list[float], list[float]]
) -> Classifier:
    """The model for images, tokens row by row."""
    how, read = tokenising(config), reading(config.scheme, own, config.structure)
    rows, columns = how.grid(*image[:2])
    stored = np.stack(np.divmod(np.arange(rows * columns), columns), axis=-1)[None]  # [1, N, 2]
    places = Reading.of(structure.parse_structure(own), read).places(stored, np.ones((1, rows * columns), dtype=bool))
    return Classifier(
        image=image,
        positions=torch.from_numpy(places),
        classes=classes,
        moments=moments,
        tokenising=how,
        layers=config.encoder_layers,
        attention_dropout=config.attention_dropout,
        stochastic_depth=config.stochastic_depth,
        **_of_any_model(config, own),
    )


def _of_any_model(config: Config, own: str) -> dict[str, Any]:
    """The arguments that models of all kinds have. The generator makes the scheme's weights, then the model's."""
    generator = torch.Generator().manual_seed(config.seed)
    scheme = position.make(
        config.scheme,
        d_model=config.d_model,
        heads=config.heads,
        structure=reading(config.scheme, own, config.structure),
        max_size=config.max_size or 1,
        decay=config.decay,
        generator=generator,
        **config.scheme_options,
    )
    return {
        "scheme": scheme,
        "kind": attention.make(config.attention, **config.attention_options),
        "d_ff": config.d_ff,
        "dropout": config.dropout,
        "generator": generator,
    }


_HOOKS = ("context", "embed", "frame", "rotate", "turn", "bias", "decay")


def compile_around(model: Model, backend: str = "inductor") -> None:
    """Have `torch.compile` work on all of a model but the scheme's hooks, which plan by the positions' values.

    Weights and results stay what they are, within float tolerance. Raises `UsageError` where nothing can be compiled.
    """
    try:
        torch.compile(lambda x: x + 1, backend=backend)(torch.zeros(2))
    except Exception as error:  # torch's own kinds are not public
        raise UsageError(
            "torch.compile does not work here",
            got=str(error).strip().splitlines()[0],
            allowed="a C++ compiler on a CPU, Triton on CUDA",
            fix="leave --compile out; nothing needs it",
        ) from error
    for hook in _HOOKS:
        setattr(model.scheme, hook, torch.compiler.disable(getattr(model.scheme, hook)))
    torch.compiler.reset()  # what it has found out of another model's sizes
    # None: what varies is found out; inductor cannot pool images whose height and width it takes for variables
    model.compile(dynamic=True if model.sizes_vary else None, backend=backend)
