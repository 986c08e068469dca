"""The configuration of a run: its fields, for sequences and for images, its presets, and the hash in its name.

Together with the dataset, a configuration determines a run.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BaseModel, Discriminator, Field, Tag, TypeAdapter, ValidationInfo, field_validator

from ape_cli.core.errors import UsageError, pick
from ape_cli.core.validation import Checked
from ape_cli.structure import StructureField, linearisation

# fields that have an option of their own
_FIXED = {"preset", "scheme", "scheme_options", "structure", "attention", "attention_options", "seed", "precision"}
_FIXED |= {"model", "positions", "positions_options"}
_LATE = {
    "structure",
    "attention",
    "attention_options",
    "label_smoothing",
    "positions_scale",
    "dropout_places",
    "model",
    "positions",
    "positions_options",
    "d_ff_decoder",
    "memory",
}  # added after the first runs

# Settings of the optimisation. Runs that differ only in these, and in their seeds, are trials of one method: a fair
# comparison of methods chooses among them by validation scores. All other settings make another method or model.
_TRAINING_NAMES = """attention_dropout batch_size beta1 beta2 dropout epochs label_smoothing lr_final lr_initial lr_peak
steps stochastic_depth warmup weight_decay"""
TRAINING = set(_TRAINING_NAMES.split())

# Settings that decide the size of a run: the widths and layers of the model that all schemes share, and how long it is
# trained. The options and bounds of a scheme, and what is optimised how, do not.
_SIZE_NAMES = """batch_size convolution_size convolution_stride d_ff d_ff_decoder d_model decoder_layers
encoder_layers epochs heads pool_size pool_stride steps"""
SIZE = set(_SIZE_NAMES.split())

ModelKind = Literal["encoder-decoder", "decoder"]
MODELS: list[str] = list(get_args(ModelKind))
Precision = Literal["fp32", "tf32", "bf16"]
PRECISIONS: list[str] = list(get_args(Precision))


@dataclass(frozen=True)
class Preset:
    """Settings of the model and of training, and the matching sizes of the data. `presets.toml` has the values."""

    about: dict[str, str]  # the model and its training, for each kind of data that the preset has
    rows: dict[str, int]
    sequence: dict[str, Any]
    image: dict[str, Any] | None = None
    sizes: dict[str, Any] = field(default_factory=dict)
    augment: str = "none"
    source_order: str | None = None

    def of(self, modality: str) -> dict[str, Any]:
        """The settings for a kind of data. Raises `UsageError` if the preset has none."""
        settings = self.image if modality == "image" else self.sequence
        if settings is None:
            allowed = ", ".join(name for name, other in PRESETS.items() if other.image is not None)
            raise UsageError("this preset has no settings for images", allowed=allowed, fix="choose one")
        return settings

    def linearisation(self, order: str | None) -> str | None:
        """The linearisation of trees, given that of the target, or of both sides as SOURCE-to-TARGET.

        >>> PRESETS["neurips"].linearisation("depth"), PRESETS["paper"].linearisation("depth")
        ('breadth-to-depth', 'depth')
        """
        target, source = linearisation.parse(order)
        if self.source_order is None or source is not None:
            return order
        return linearisation.name(*linearisation.checked(target, self.source_order))


_TABLES = tomllib.loads(Path(__file__).with_name("presets.toml").read_text(encoding="utf-8"))
PRESETS = {name: Preset(**table) for name, table in _TABLES.items()}


def preset(name: str) -> Preset:
    """The preset called `name`. Raises `UsageError` if there is none."""
    return PRESETS[pick("preset", name, PRESETS)]


class Config(Checked):
    """Fields that both kinds of model share. Units: steps, epochs, rows, fractions."""

    modality: ClassVar[str]
    unit: ClassVar[str]  # unit of the training throughput: UNIT per second
    ties_by_loss: ClassVar[bool] = False  # equal validation accuracy: True prefers lower loss, False the earlier

    preset: str
    scheme: str
    scheme_options: dict[str, Any] = Field({})
    structure: StructureField | None = None  # structure of positions; None: what the scheme reads of the data
    seed: int = Field(42, ge=0, lt=2**63)

    d_model: int = Field(gt=0, le=16_384, description="Width of the model: number of channels of a token.")
    d_ff: int = Field(gt=0, le=1_000_000, description="Width of the hidden layer of each feed-forward block.")
    heads: int = Field(gt=0, le=1024, description="Number of attention heads.")
    encoder_layers: int = Field(ge=0, le=200, description="Number of encoder layers.")
    dropout: float = Field(ge=0, lt=1, description="Dropout probability.")
    decay: float | None = Field(
        None, gt=0, le=1, description="Locality bias c, which multiplies scores by c^distance; 1 for none."
    )
    max_size: int | None = Field(None, gt=0, le=1_000_000, description="Largest size that bounded schemes cover.")

    epochs: int | None = Field(
        None, gt=0, le=10**9, description="Number of passes over the training rows, instead of steps."
    )
    steps: int | None = Field(None, gt=0, le=10**12, description="Number of optimiser steps, instead of epochs.")
    batch_size: int = Field(gt=0, le=1_000_000, description="Number of rows per batch.")
    lr_initial: float = Field(1e-7, ge=0, description="Learning rate at the first step of the warm-up.")
    lr_peak: float = Field(gt=0, description="Learning rate after the warm-up.")
    lr_final: float = Field(1e-9, ge=0, description="Learning rate at the last step.")
    warmup: float = Field(0.05, ge=0, lt=1, description="Fraction of the steps that is linear warm-up.")
    weight_decay: float = Field(0.01, ge=0, description="Weight decay of AdamW.")
    beta1: float = Field(0.9, ge=0, lt=1, description="Decay rate of AdamW's mean of gradients.")
    beta2: float = Field(0.999, ge=0, lt=1, description="Decay rate of AdamW's mean of squared gradients.")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="Label smoothing of the training loss.")
    validate_every_epochs: int | None = Field(None, gt=0, le=10**9, description="Number of epochs between validations.")
    validate_every_steps: int | None = Field(None, gt=0, description="Number of steps between validations.")
    precision: Precision = "fp32"
    attention: str = "dot"
    attention_options: dict[str, Any] = Field({})
    positions: str = "plain"  # the map of positions; images have no other
    positions_options: dict[str, Any] = Field({})

    @property
    def decoder_only(self) -> bool:
        """Whether the model reads source and target as one sequence."""
        return getattr(self, "model", MODELS[0]) == "decoder"

    @property
    def feed_forward_widths(self) -> list[int]:
        """The width of the hidden layer of each feed-forward block, from the first layer of the encoder on."""
        return [self.d_ff] * self.encoder_layers

    def digest(self, fingerprint: str, *, without: tuple[str, ...] = ()) -> str:
        """Eight hexadecimal digits: a hash of the configuration and the dataset's fingerprint.

        `without` are fields to leave out. Fields that were added later count only if they differ from their default, so
        that older runs keep their names.
        """
        own = type(self).model_fields
        plain = {name for name in _LATE & set(own) if getattr(self, name) == own[name].default}
        fields = self.model_dump(exclude=set(without) | plain)
        identity = json.dumps([fields, fingerprint], sort_keys=True)
        return hashlib.sha256(identity.encode()).hexdigest()[:8]


class SequenceConfig(Config):
    """Configuration of a model for sequences, trees and grids.

    A decoder-only model has as many layers as encoder and decoder together, and the feed-forward blocks of both: those
    of the encoder in its first layers.
    """

    modality = "sequence"
    unit = "tokens"

    model: ModelKind = "encoder-decoder"
    decoder_layers: int = Field(gt=0, le=200, description="Number of decoder layers.")
    d_ff_decoder: int | None = Field(
        None,
        gt=0,
        le=1_000_000,
        description="Width of the hidden layer of the decoder's feed-forward blocks. Without it, d_ff.",
    )
    positions_scale: float = Field(
        1.0, gt=0, le=1000, description="Factor of the vectors that a scheme adds to embeddings."
    )
    dropout_places: Literal["all", "branches"] = Field(
        "all", description="Where dropout acts: all, or branches (only the outputs of branches)."
    )

    memory: Literal["all", "last"] = Field(
        "all", description="What the decoder reads of the encoder's states: all, or last (that of the last token)."
    )

    @field_validator("d_ff_decoder")
    @classmethod
    def _only_if_different(cls, width: int | None, others: ValidationInfo) -> int | None:
        """None for the width of the encoder's layers, so that each model has one configuration and one name."""
        return None if width == others.data.get("d_ff") else width

    @property
    def feed_forward_widths(self) -> list[int]:
        """The width of the hidden layer of each feed-forward block: those of the encoder, then those of the decoder."""
        return super().feed_forward_widths + [self.d_ff_decoder or self.d_ff] * self.decoder_layers


class ImageConfig(Config):
    """Configuration of the compact convolutional transformer."""

    modality = "image"
    unit = "images"
    ties_by_loss = True  # with one label per image and few validation images, equal accuracies are common

    # at least one layer, because only these layers use positions
    encoder_layers: int = Field(gt=0, le=200, description="Number of encoder layers.")
    convolution_size: int = Field(gt=0, le=63, description="Side of the tokeniser's convolution, in pixels; odd.")
    convolution_stride: int = Field(gt=0, le=63, description="Stride of the convolution.")
    pool_size: int = Field(gt=0, le=63, description="Side of the max pooling; size 1 and stride 1 for none.")
    pool_stride: int = Field(gt=0, le=63, description="Stride of the max pooling.")
    attention_dropout: float = Field(ge=0, lt=1, description="Dropout probability of attention weights.")
    stochastic_depth: float = Field(
        ge=0, lt=1, description="Stochastic depth of the last layer, increasing from 0 in the first."
    )
    augment: str | None = Field(None, description="Augmentation: crop, flip and autoaugment, or none.")


def _modality(value: Any) -> str:
    """The kind of a configuration or of a JSON value, by its fields. What has none is refused as a sequence's."""
    fields = vars(value) if isinstance(value, BaseModel) else value
    return "image" if isinstance(fields, dict) and "convolution_size" in fields else "sequence"


AnyConfig = Annotated[
    Annotated[SequenceConfig, Tag("sequence")] | Annotated[ImageConfig, Tag("image")], Discriminator(_modality)
]
_ANY: TypeAdapter[SequenceConfig | ImageConfig] = TypeAdapter(AnyConfig)
KINDS: dict[str, type[SequenceConfig] | type[ImageConfig]] = {c.modality: c for c in (SequenceConfig, ImageConfig)}


def read_config(fields: dict[str, Any]) -> Config:
    """Parse a configuration from the result of `model_dump`. Raises pydantic's `ValidationError` if it is invalid."""
    return _ANY.validate_python(fields)


def settable(modality: str) -> list[str]:
    """The fields that settings can change, for a kind of data."""
    return [name for name in KINDS[modality].model_fields if name not in _FIXED]


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """Parse `key=value` strings. A value is a number, true, false, or text.

    >>> parse_settings(["decay=1", "d_model=64"])
    {'decay': 1, 'd_model': 64}

    Raises `UsageError` for a string of another form, or a key that is set twice.
    """
    return {key: _value(text) for key, text in _divided(pairs, "set").items()}


def parse_values(pairs: list[str], name: str = "set") -> dict[str, Any]:
    """Parse `key=value,value` strings: the list of values that a sweep tries for each key.

    A value with commas is written in quotes. `name` is the option that an error names.

    >>> parse_values(["decay=1,0.98", "learned=true", 'augment="crop,flip",none', "widths=[1,2],[3]"])
    {'decay': [1, 0.98], 'learned': [True], 'augment': ['crop,flip', 'none'], 'widths': [[1, 2], [3]]}

    Raises `UsageError` for a string of another form, or a key that is set twice.
    """
    lists: dict[str, list[Any]] = {}
    for key, text in _divided(pairs, name).items():
        values = _value(f"[{text}]")
        words = outside_quotes(",", text) if isinstance(values, str) else []
        lists[key] = [_value(word.strip()) for word in words] or values
    return lists


def outside_quotes(mark: str, text: str) -> list[str]:
    """The parts of a text between marks (a regular expression) that are outside double quotes.

    >>> outside_quotes(",", 'copy,group-word generators="0,1"')
    ['copy', 'group-word generators="0,1"']
    """
    return re.split(rf'{mark}(?=(?:[^"]*"[^"]*")*[^"]*$)', text)  # an even number of quotes follows


def _divided(pairs: list[str], name: str) -> dict[str, str]:
    """Each string as a key and the text of its value. Raises `UsageError` for another form, or a repeated key."""
    texts: dict[str, str] = {}
    for pair in pairs:
        key, equals, text = (part.strip() for part in pair.partition("="))
        if not equals or not key or not text or text == "null":
            fix = f"for example `{name}=d_model=64`"
            raise UsageError(f"bad `{name}`", got=repr(pair), allowed="KEY=VALUE", fix=fix)
        if key in texts:
            raise UsageError(f"{key} is set twice", got=f"{texts[key]} and {text}", fix="set it once")
        texts[key] = text
    return texts


def _value(text: str) -> Any:
    """Parse a number, true or false; any other text, such as NaN, is returned as it is."""

    def not_json(constant: str) -> float:
        raise ValueError(f"{constant} is not a number")

    try:
        return json.loads(text, parse_constant=not_json)
    except (ValueError, RecursionError):
        return text
