"""What decides a run, beside its dataset: the fields of a configuration, for sequences and for images."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter

from ape_cli.structure import StructureField

_LATE = {"structure", "attention", "attention_options", "label_smoothing"}  # they came when there were runs already


class Config(BaseModel):
    """What both kinds of model have. Units: steps, epochs, rows, fractions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
    kind: ClassVar[str]
    unit: ClassVar[str]  # what is counted in a second of training
    ties_by_loss: ClassVar[bool] = False  # of equal validation accuracies the lower loss is better; else the earlier

    preset: str
    scheme: str
    scheme_options: dict[str, Any] = {}
    structure: StructureField | None = None  # what positions are read as; None: the scheme's choice (`build.reading`)
    seed: int = Field(42, ge=0, lt=2**63)

    d_model: int = Field(gt=0, le=16_384)
    d_ff: int = Field(gt=0, le=1_000_000)
    heads: int = Field(gt=0, le=1024)
    encoder_layers: int = Field(ge=0, le=200)
    dropout: float = Field(ge=0, lt=1)
    decay: float | None = Field(None, gt=0, le=1)  # the locality bias; None: the scheme's own
    max_size: int | None = Field(None, gt=0)  # of bounded schemes; None: the mean of the data

    epochs: int | None = Field(None, gt=0, le=10**9)  # either epochs ...
    steps: int | None = Field(None, gt=0, le=10**12)  # ... or steps
    batch_size: int = Field(gt=0, le=1_000_000)  # rows
    lr_initial: float = Field(1e-7, ge=0)
    lr_peak: float = Field(gt=0)
    lr_final: float = Field(1e-9, ge=0)
    warmup: float = Field(0.05, ge=0, lt=1)  # of all steps, linear; the rest is a cosine
    weight_decay: float = Field(0.01, ge=0)
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.999, ge=0, lt=1)
    label_smoothing: float = Field(0.0, ge=0, lt=1)  # of the loss that is trained on, and of no other
    validate_every_epochs: int | None = Field(None, gt=0, le=10**9)
    validate_every_steps: int | None = Field(None, gt=0)
    precision: Literal["fp32", "tf32", "bf16"] = "fp32"
    attention: str = "dot"
    attention_options: dict[str, Any] = {}

    def digest(self, fingerprint: str, *, without: tuple[str, ...] = ()) -> str:
        """Eight hexadecimal digits of the configuration and the data's fingerprint.

        Late fields count where they differ from their default, so that earlier runs keep their names.
        """
        plain = {name for name in _LATE if getattr(self, name) == type(self).model_fields[name].default}
        fields = self.model_dump(exclude=set(without) | plain)
        identity = json.dumps([fields, fingerprint], sort_keys=True)
        return hashlib.sha256(identity.encode()).hexdigest()[:8]


class SequenceConfig(Config):
    """Of the encoder-decoder transformer."""

    kind = "sequence"
    unit = "tokens"

    decoder_layers: int = Field(gt=0, le=200)


class ImageConfig(Config):
    """Of the compact convolutional transformer."""

    kind = "image"
    unit = "images"
    ties_by_loss = True  # a row has one label, so a few hundred validation images leave few different accuracies

    encoder_layers: int = Field(gt=0, le=200)  # without any, nothing would read positions
    convolution_size: int = Field(gt=0, le=63)  # pixels, of a square; odd
    convolution_stride: int = Field(gt=0, le=63)
    pool_size: int = Field(gt=0, le=63)  # of max pooling; 1 and a stride of 1: none
    pool_stride: int = Field(gt=0, le=63)
    attention_dropout: float = Field(ge=0, lt=1)
    stochastic_depth: float = Field(ge=0, lt=1)  # of the last layer; the first has none, linear between
    augment: str | None = None  # of training images: crop, flip, autoaugment, or none; None: the preset's, for the data


def _kind(found: Any) -> str:
    fields = found if isinstance(found, dict) else vars(found)
    return "image" if "convolution_size" in fields else "sequence"


AnyConfig = Annotated[
    Annotated[SequenceConfig, Tag("sequence")] | Annotated[ImageConfig, Tag("image")], Discriminator(_kind)
]
_ANY: TypeAdapter[SequenceConfig | ImageConfig] = TypeAdapter(AnyConfig)
KINDS: dict[str, type[SequenceConfig] | type[ImageConfig]] = {c.kind: c for c in (SequenceConfig, ImageConfig)}


def read_config(fields: dict[str, Any]) -> Config:
    """A configuration as `model_dump` gave it. Raises pydantic's `ValidationError`."""
    return _ANY.validate_python(fields)


def read_json(text: str) -> Config:
    """The same, from JSON."""
    return _ANY.validate_json(text)
