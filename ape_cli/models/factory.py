"""Building models: from a complete configuration and the structure of the data to a model with the weights of its seed.

Shapes: N tokens.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ape_cli import attention, position
from ape_cli.core import cpu
from ape_cli.core.errors import UsageError
from ape_cli.data.collation import Reading
from ape_cli.data.loader import Dataset
from ape_cli.experiment.reading import read_as, tokenising
from ape_cli.experiment.resolution import make_scheme
from ape_cli.models.image_classifier import Classifier
from ape_cli.models.transformer import Model, Transformer
from ape_cli.runs.config import Config, ImageConfig, SequenceConfig
from ape_cli.storage.image_rows import Size
from ape_cli.structure import Structure


def of_data(config: Config, data: Dataset) -> Model:
    """The model of a complete configuration for a dataset, with the weights of its seed."""
    if not isinstance(config, ImageConfig):
        return build(config, data.structure, data.ids)
    moments = data.manifest.moments
    assert data.image is not None
    assert moments is not None
    return _classifier(config, data.structure, data.ids, data.image, (moments.mean, moments.std))


def without_weights(config: Config, structure: Structure, ids: int, image: Size | None) -> Model:
    """The model of a complete configuration whose stored weights are going to be loaded, for data of this structure.

    `ids` is the number of token ids, or of classes; `image`: height, width and channels of images.
    """
    if image is None:
        return build(config, structure, ids)
    assert isinstance(config, ImageConfig)
    unknown = [0.0] * image[2], [1.0] * image[2]  # the moments are stored with the weights
    return _classifier(config, structure, ids, image, unknown)


def build(config: Config, structure: Structure, ids: int) -> Transformer:
    """The model for sequences of this structure, with the weights of its seed. The configuration has to be complete.

    `ids` is the number of token ids.
    """
    assert isinstance(config, SequenceConfig)
    encoder, decoder = config.encoder_layers, config.decoder_layers
    arguments = _of_any_model(config, read_as(config, structure), _weights(config, ids, encoder, decoder))
    return Transformer(
        ids=ids,
        encoder_layers=encoder,
        decoder_layers=decoder,
        branches_only=config.dropout_places == "branches",
        positions_scale=config.positions_scale,
        **arguments,
    )


def _weights(config: Config, rows: int, encoder_layers: int, decoder_layers: int = 0) -> int:
    """A lower limit of the number of weights. `rows` is the number of embeddings, or of classes."""
    width, hidden = config.d_model, config.d_ff
    return width * (rows + encoder_layers * (4 * width + 2 * hidden) + decoder_layers * (8 * width + 2 * hidden))


def _check_memory(weights: int) -> None:
    """Check that weights, gradients and the optimiser's moments can fit into memory, before anything is allocated.

    Raises `UsageError` if they do not.
    """
    need = 4 * 4 * weights  # four numbers of four bytes for each
    if need > 2 * cpu.half_memory():
        raise UsageError(
            "the model does not fit into this machine's memory",
            got=f"at least {need / 2**30:,.0f} GiB",
            allowed=f"{cpu.half_memory() / 2**29:,.0f} GiB",
            fix="choose a smaller d_model, d_ff, or number of layers",
        )


def _classifier(
    config: ImageConfig,
    structure: Structure,
    classes: int,
    image: Size,
    moments: tuple[list[float], list[float]],
) -> Classifier:
    """The model for images, whose tokens are read row by row."""
    how, read = tokenising(config), read_as(config, structure)
    rows, columns = how.grid(*image[:2])
    stored = np.stack(np.divmod(np.arange(rows * columns), columns), axis=-1)[None]  # [1, N, 2]
    places = Reading.of(structure, read).places(stored, np.ones((1, rows * columns), dtype=bool))
    return Classifier(
        image=image,
        positions=torch.from_numpy(places),
        classes=classes,
        moments=moments,
        tokenising=how,
        layers=config.encoder_layers,
        attention_dropout=config.attention_dropout,
        stochastic_depth=config.stochastic_depth,
        **_of_any_model(config, read, _weights(config, classes, config.encoder_layers)),
    )


def _of_any_model(config: Config, read: Structure, weights: int) -> dict[str, Any]:
    """The arguments of every model. The generator draws the scheme's weights first, then the model's.

    Raises `UsageError` if the `weights`, a lower limit of their number, do not fit into memory.
    """
    _check_memory(weights)
    generator = torch.Generator().manual_seed(config.seed)
    scheme = make_scheme(config, read, generator)
    with position.global_seed(generator):
        kind = attention.make(config.attention, **config.attention_options)
    return {
        "scheme": scheme,
        "kind": kind,
        "d_ff": config.d_ff,
        "dropout": config.dropout,
        "generator": generator,
    }


_HOOKS = ("context", "embed", "frame", "rotate", "rotate_in_frame", "bias", "decay")


def compile_around(model: Model, backend: str = "inductor") -> None:
    """Compile a model with `torch.compile`, except for the hooks of its scheme, which plan by the values of positions.

    Weights and results stay the same within floating-point tolerance. Raises `UsageError` if nothing can be compiled
    here.
    """
    try:
        torch.compile(lambda x: x + 1, backend=backend)(torch.zeros(2))
    except Exception as error:  # the error types of torch are not public
        raise UsageError(
            "torch.compile does not work here",
            got=str(error).strip().splitlines()[0],
            allowed="a C++ compiler on a CPU, Triton on CUDA",
            fix="leave --compile out",
        ) from error
    for hook in _HOOKS:
        if hasattr(model.scheme, hook):
            setattr(model.scheme, hook, torch.compiler.disable(getattr(model.scheme, hook)))
    torch.compiler.reset()  # discard what was learned about the sizes of another model
    # With None, torch finds out which sizes vary. Inductor cannot pool images whose height and width are variable.
    model.compile(dynamic=True if model.sizes_vary else None, backend=backend)
