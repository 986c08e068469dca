"""Building models: from a complete configuration and the structure of the data to a model with the weights of its seed.

The second part compares the user's own files of schemes, kinds of attention and maps of positions with those that a run
was trained with.
`run.json` records the SHA-256 of the file of each class. If a file has changed since, a warning says so.

Shapes: N tokens.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np
import torch

from ape_cli import attention, position
from ape_cli.core import memory, plugins
from ape_cli.core.errors import ApeError, RunError, UsageError
from ape_cli.data import position_maps
from ape_cli.data.collation import PositionReading
from ape_cli.experiment import Experiment
from ape_cli.experiment.reading import structure_for, tokenising
from ape_cli.experiment.resolution import make_attention, make_scheme
from ape_cli.models.decoder import DecoderOnly
from ape_cli.models.image_classifier import Classifier
from ape_cli.models.transformer import Model, SequenceModel, Transformer
from ape_cli.runs.config import Config, ImageConfig, SequenceConfig
from ape_cli.runs.record import UserCode
from ape_cli.storage.image_rows import Size
from ape_cli.structure import Structure

_HOOKS = ("context", "embed", "basis", "rotate", "rotate_in_basis", "bias", "decay", "logits")
# the packages of the plug-ins that a model needs, by the field of the configuration that names one
PARTS: dict[str, Any] = {"scheme": position, "attention": attention, "positions": position_maps}
_WORDS = {"positions": "position map"}  # for a field, if it is not the field's name
logger = logging.getLogger(__name__)


def of_experiment(experiment: Experiment) -> Model:
    """The model of an experiment, with the weights of its seed."""
    config, data, read = experiment.config, experiment.data, experiment.reading.structure
    if not isinstance(config, ImageConfig):
        return _of_sequences(config, data.structure, read, data.ids)
    moments = data.manifest.moments
    assert data.image is not None
    assert moments is not None
    return _classifier(config, data.structure, read, data.ids, data.image, (moments.mean, moments.std))


def without_weights(config: Config, structure: Structure, ids: int, image: Size | None) -> Model:
    """The model of a complete configuration whose stored weights are going to be loaded, for data of this structure.

    `ids` is the number of token ids, or of classes; `image`: height, width and channels of images.
    """
    if image is None:
        return build(config, structure, ids)
    assert isinstance(config, ImageConfig)
    unknown = [0.0] * image[2], [1.0] * image[2]  # the moments are stored with the weights
    return _classifier(
        config, structure, structure_for(config.scheme, structure, config.structure), ids, image, unknown
    )


def build(config: Config, structure: Structure, ids: int) -> SequenceModel:
    """The model for sequences of this structure, with the weights of its seed. The configuration has to be complete.

    `ids` is the number of token ids.
    """
    return _of_sequences(config, structure, structure_for(config.scheme, structure, config.structure), ids)


def _of_sequences(config: Config, structure: Structure, read: Structure, ids: int) -> SequenceModel:
    """The model for sequences of this structure, whose positions are read as `read`."""
    assert isinstance(config, SequenceConfig)
    encoder, decoder = config.encoder_layers, config.decoder_layers
    more: dict[str, Any] = {
        "ids": ids,
        "branches_only": config.dropout_places == "branches",
        "positions_scale": config.positions_scale,
    }
    if config.model == "decoder":
        alike = position_maps.load(config.positions).restarts  # source and target have the same positions
        sides = alike or not PositionReading.of(structure, read).is_line
        more |= _of_any_model(config, read, _weights(config, ids)) | {"d_ff": config.feed_forward_widths}
        return DecoderOnly(layers=encoder + decoder, sides=sides, **more)
    more |= _of_any_model(config, read, _weights(config, ids, decoder))
    more |= {"d_ff_decoder": config.d_ff_decoder, "memory": config.memory}
    return Transformer(encoder_layers=encoder, decoder_layers=decoder, **more)


def _weights(config: Config, rows: int, crossing: int = 0) -> int:
    """A lower limit of the number of weights.

    `rows` is the number of embeddings, or of classes; `crossing`, that of the layers that attend to the encoder.
    """
    width, hidden = config.d_model, config.feed_forward_widths
    return width * (rows + 4 * width * (len(hidden) + crossing) + 2 * sum(hidden))


def _classifier(
    config: ImageConfig,
    structure: Structure,
    read: Structure,
    classes: int,
    image: Size,
    moments: tuple[list[float], list[float]],
) -> Classifier:
    """The model for images of this structure. Tokens are taken row by row, and their positions are read as `read`."""
    how = tokenising(config)
    rows, columns = how.grid(*image[:2])
    stored = np.stack(np.divmod(np.arange(rows * columns), columns), axis=-1)[None]  # [1, N, 2]
    places = PositionReading.of(structure, read).positions_of(stored, np.ones((1, rows * columns), dtype=bool))
    return Classifier(
        image=image,
        positions=torch.from_numpy(places),
        classes=classes,
        moments=moments,
        tokenising=how,
        layers=config.encoder_layers,
        attention_dropout=config.attention_dropout,
        stochastic_depth=config.stochastic_depth,
        **_of_any_model(config, read, _weights(config, classes)),
    )


def _of_any_model(config: Config, read: Structure, weights: int) -> dict[str, Any]:
    """The arguments of every model. The generator draws the scheme's weights first, then the model's.

    Raises `UsageError` if the `weights`, a lower limit of their number, do not fit into memory.
    """
    need = 4 * 4 * weights  # for each, four bytes of the weight, its gradient and the moments of the optimiser
    if need > memory.most_memory():
        what = f"the model needs {need / 2**30:,.0f} GiB or more, more than this machine's memory"
        raise UsageError(what, fix="choose a smaller d_model, d_ff, or number of layers")
    generator = torch.Generator().manual_seed(config.seed)
    scheme = make_scheme(config, read, generator)
    with position.global_seed(generator):
        attention_type = make_attention(config)
    shared = {"d_ff": config.d_ff, "dropout": config.dropout, "generator": generator}
    return {"scheme": scheme, "attention_type": attention_type, **shared}


def compile_around(model: Model, backend: str = "inductor") -> None:
    """Compile a model with `torch.compile`, except for the hooks of its scheme, which plan by the values of positions.

    Weights and results stay the same within floating-point tolerance. Raises `UsageError` if nothing can be compiled
    here.
    """
    try:
        torch.compile(lambda x: x + 1, backend=backend)(torch.zeros(2))
    except Exception as error:  # the error types of torch are not public
        got, fix = str(error).strip().splitlines()[0], "leave `compile` out; it needs a C++ compiler, or Triton"
        raise UsageError("torch.compile does not work here", got=got, fix=fix) from error
    for hook in _HOOKS:
        if hasattr(model.scheme, hook):
            setattr(model.scheme, hook, torch.compiler.disable(getattr(model.scheme, hook)))
    torch.compiler.reset()  # discard what was learned about the sizes of another model
    # With None, torch finds out which sizes vary. Inductor cannot pool images whose height and width are variable.
    model.compile(dynamic=True if model.sizes_vary else None, backend=backend)


def user_parts(scheme: str, attention: str, positions: str) -> dict[str, type]:
    """The classes that are not part of ape, by a text that names them, of what `PARTS` lists."""
    names = {"scheme": scheme, "attention": attention, "positions": positions}
    parts = {f"{_WORDS.get(part, part)} {name!r}": PARTS[part].load(name) for part, name in names.items()}
    return {part: cls for part, cls in parts.items() if plugins.is_user_class(cls)}


def own_files(scheme: str, attention: str, positions: str) -> dict[str, str]:
    """The SHA-256 of the file of each of `user_parts`, as it was when it was loaded.

    A class without a file, as of a notebook, is left out.
    """
    digests = {part: plugins.digest(cls) for part, cls in user_parts(scheme, attention, positions).items()}
    return {part: digest for part, digest in digests.items() if digest is not None}


def check_installed(config: Config) -> None:
    """Check that the scheme, the kind of attention and the map of positions of a model from elsewhere are found here.

    Raises `RunError` as `plugins.check_installed`.
    """
    for field, package in PARTS.items():
        plugins.check_installed(package, _WORDS.get(field, field), getattr(config, field))


def check_unchanged(config: Config, digests: dict[str, str]) -> None:
    """Check that the own parts of a model from elsewhere are those of these `digests`, with which it was trained.

    Raises `RunError`, with the digests of the part that differs, if they are not.
    """
    present = own_files(config.scheme, config.attention, config.positions)
    for part, digest in digests.items():
        if (here := present.get(part)) != digest:
            got, allowed = f"sha256 {here}" if here else "a part of ape, or of a notebook", f"sha256 {digest}"
            fix = "get the file with this SHA-256 from the author, and put it in place of yours on PYTHONPATH"
            raise RunError(f"the code of {part} is not that of the model", got=got, allowed=allowed, fix=fix)


def changed(runs: Iterable[UserCode]) -> dict[str, list[str]]:
    """The names of the runs that were trained with another file than the present one, by the part whose file it is.

    Files that are missing or have an error are not compared.
    """
    outdated: dict[str, list[str]] = {}
    for run in runs:
        with suppress(ApeError):
            present = own_files(run.scheme, run.attention, run.positions)
            for part in (part for part, digest in run.digests.items() if present.get(part) != digest):
                outdated.setdefault(part, []).append(run.run)
    return outdated


def change(part: str, runs: list[str]) -> str:
    """A sentence about a part whose file has changed since `runs` were trained."""
    since = f"run {runs[0]} was" if len(runs) == 1 else f"{len(runs):,} runs were"
    example = "" if len(runs) == 1 else f", for example {runs[0]}"
    return f"the code of {part} has changed since {since} trained{example}; `ape train … --overwrite` trains again"


def warn_if_changed(run: str, config: Config, digests: dict[str, str]) -> None:
    """Log a warning for each own file that has changed since `run` was trained with the files of these `digests`."""
    for part, runs in changed([UserCode(run, config.scheme, config.attention, config.positions, digests)]).items():
        logger.warning(change(part, runs))
