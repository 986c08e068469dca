"""The fields of a configuration, for sequences and for images.

Together with the dataset, a configuration determines a run.
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter

from ape_cli.structure import StructureField

_LATE = {"structure", "attention", "attention_options", "label_smoothing"}  # added after the first runs


class Config(BaseModel):
    """Fields that both kinds of model share. Units: steps, epochs, rows, fractions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
    kind: ClassVar[str]
    unit: ClassVar[str]  # unit of the training throughput: UNIT per second
    ties_by_loss: ClassVar[bool] = False  # equal validation accuracy: True prefers lower loss, False the earlier

    preset: str
    scheme: str
    scheme_options: dict[str, Any] = {}
    structure: StructureField | None = None  # structure of positions; None: `models.factory.reading` decides
    seed: int = Field(42, ge=0, lt=2**63)

    d_model: int = Field(gt=0, le=16_384)
    d_ff: int = Field(gt=0, le=1_000_000)
    heads: int = Field(gt=0, le=1024)
    encoder_layers: int = Field(ge=0, le=200)
    dropout: float = Field(ge=0, lt=1)
    decay: float | None = Field(None, gt=0, le=1)  # locality bias; None: the scheme's default
    max_size: int | None = Field(None, gt=0, le=1_000_000)  # for bounded schemes; None: the mean of the data

    epochs: int | None = Field(None, gt=0, le=10**9)  # either epochs ...
    steps: int | None = Field(None, gt=0, le=10**12)  # ... or steps
    batch_size: int = Field(gt=0, le=1_000_000)  # rows
    lr_initial: float = Field(1e-7, ge=0)
    lr_peak: float = Field(gt=0)
    lr_final: float = Field(1e-9, ge=0)
    warmup: float = Field(0.05, ge=0, lt=1)  # fraction of all steps with linear warm-up; a cosine follows
    weight_decay: float = Field(0.01, ge=0)
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.999, ge=0, lt=1)
    label_smoothing: float = Field(0.0, ge=0, lt=1)  # for the training loss only
    validate_every_epochs: int | None = Field(None, gt=0, le=10**9)
    validate_every_steps: int | None = Field(None, gt=0)
    precision: Literal["fp32", "tf32", "bf16"] = "fp32"
    attention: str = "dot"
    attention_options: dict[str, Any] = {}

    def digest(self, fingerprint: str, *, without: tuple[str, ...] = ()) -> str:
        """Eight hexadecimal digits: a hash of the configuration and the dataset's fingerprint.

        `without` are fields to leave out. Fields that were added later count only if they differ from their default, so
        that older runs keep their names.
        """
        plain = {name for name in _LATE if getattr(self, name) == type(self).model_fields[name].default}
        fields = self.model_dump(exclude=set(without) | plain)
        identity = json.dumps([fields, fingerprint], sort_keys=True)
        return hashlib.sha256(identity.encode()).hexdigest()[:8]


class SequenceConfig(Config):
    """Configuration of the encoder-decoder transformer."""

    kind = "sequence"
    unit = "tokens"

    decoder_layers: int = Field(gt=0, le=200)


class ImageConfig(Config):
    """Configuration of the compact convolutional transformer."""

    kind = "image"
    unit = "images"
    ties_by_loss = True  # with one label per image and few validation images, equal accuracies are common

    encoder_layers: int = Field(gt=0, le=200)  # at least one, because only these layers use positions
    convolution_size: int = Field(gt=0, le=63)  # side of a square, in pixels; odd
    convolution_stride: int = Field(gt=0, le=63)
    pool_size: int = Field(gt=0, le=63)  # side of max pooling; size 1 and stride 1 mean none
    pool_stride: int = Field(gt=0, le=63)
    attention_dropout: float = Field(ge=0, lt=1)
    stochastic_depth: float = Field(ge=0, lt=1)  # rate of the last layer; increases linearly from 0 in the first
    augment: str | None = None  # crop, flip, autoaugment, or none; None: the preset and the data decide


def _kind(found: Any) -> str:
    """The kind of a configuration or of a JSON value, by its fields. What has none is refused as a sequence's."""
    fields = vars(found) if isinstance(found, BaseModel) else found
    return "image" if isinstance(fields, dict) and "convolution_size" in fields else "sequence"


AnyConfig = Annotated[
    Annotated[SequenceConfig, Tag("sequence")] | Annotated[ImageConfig, Tag("image")], Discriminator(_kind)
]
_ANY: TypeAdapter[SequenceConfig | ImageConfig] = TypeAdapter(AnyConfig)
KINDS: dict[str, type[SequenceConfig] | type[ImageConfig]] = {c.kind: c for c in (SequenceConfig, ImageConfig)}


def read_config(fields: dict[str, Any]) -> Config:
    """Parse a configuration from the result of `model_dump`. Raises pydantic's `ValidationError` if it is invalid."""
    return _ANY.validate_python(fields)
