"""The configuration of a run: presets, overrides, and the name that it gives the run.

`paper`: tables 4 and what the authors' first release adds. `small`: each run ends within about three
minutes on two CPU cores and the schemes still separate. `tiny`: a smoke test in seconds. Any field
can be set; an unknown one is an error that names the nearest.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ape_cli import structure as structures
from ape_cli.errors import UsageError, pick, unknown


class Config(BaseModel):
    """Everything that decides a run, but its dataset. Units: steps, epochs, rows, fractions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    preset: str
    scheme: str
    scheme_options: dict[str, Any] = {}
    structure: str | None = None  # what positions are read as; None: the scheme's choice (`build.reading`)
    seed: int = Field(42, ge=0, lt=2**63)

    d_model: int = Field(gt=0, le=16_384)
    d_ff: int = Field(gt=0, le=1_000_000)
    heads: int = Field(gt=0, le=1024)
    encoder_layers: int = Field(ge=0, le=200)
    decoder_layers: int = Field(gt=0, le=200)
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
    validate_every_epochs: int | None = Field(None, gt=0, le=10**9)
    validate_every_steps: int | None = Field(None, gt=0)
    precision: Literal["fp32", "bf16"] = "fp32"
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


@dataclass(frozen=True)
class Preset:
    """Model and training, and the sizes of the data that go with them."""

    fields: dict[str, Any]
    rows: dict[str, int]
    sizes: dict[str, Any]  # options of tasks, each for those that have it
    about: str


PRESETS = {
    "paper": Preset(
        {
            "d_model": 512,
            "d_ff": 2048,
            "heads": 8,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "dropout": 0.15,
            "epochs": 200,
            "batch_size": 64,
            "lr_peak": 5e-4,
            "validate_every_epochs": 5,
        },
        {"train": 10_000, "validation": 1_000, "test": 1_000},
        {},
        "the paper's own size: width 512, 200 epochs of 10,000 rows",
    ),
    "small": Preset(
        {
            "d_model": 128,
            "d_ff": 512,
            "heads": 4,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "dropout": 0.0,
            "steps": 800,
            "batch_size": 64,
            "lr_peak": 2e-3,
            "validate_every_steps": 100,
        },
        {"train": 20_000, "validation": 1_000, "test": 1_000},
        {
            "length_mean": 20,
            "length_std": 2,
            "depth_mean": 4,
            "depth_std": 1,
            "side_mean": 5,
            "side_std": 1,
            "ring": 12,
        },
        "about three minutes on two CPU cores: width 128, 800 steps, words of 20, trees of depth 4",
    ),
    "tiny": Preset(
        {
            "d_model": 32,
            "d_ff": 64,
            "heads": 2,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "dropout": 0.0,
            "steps": 20,
            "batch_size": 16,
            "lr_peak": 1e-3,
            "validate_every_steps": 10,
        },
        {"train": 200, "validation": 40, "test": 40},
        {
            "length_mean": 6,
            "length_std": 1,
            "depth_mean": 2,
            "depth_std": 0.5,
            "side_mean": 3,
            "side_std": 0.5,
            "ring": 6,
        },
        "a smoke test in seconds",
    ),
}

_PAIRS = {
    "epochs": "steps",
    "steps": "epochs",
    "validate_every_epochs": "validate_every_steps",
    "validate_every_steps": "validate_every_epochs",
}
_LATE = {"structure", "attention", "attention_options"}  # fields that came when there were runs already
_FIXED = {"preset", "scheme", "scheme_options", "structure", "attention", "attention_options", "seed", "precision"}
_OWN = {"preset", "scheme", "structure", "attention", "seed", "precision", "device"}  # options on the command line


def preset(name: str) -> Preset:
    return PRESETS[pick("preset", name, PRESETS)]


def resolve(
    preset_name: str,
    scheme: str,
    scheme_options: dict[str, Any],
    *,
    structure: str | None = None,
    attention: str = "dot",
    attention_options: dict[str, Any] | None = None,
    seed: int = 42,
    precision: str = "fp32",
    settings: dict[str, Any] | None = None,
) -> Config:
    """A preset with its overrides, checked.

    `settings`: field -> value. `scheme_options`, `attention_options`: the options that the scheme and the
    kind of attention have, with their defaults; a setting may be one of them too. Raises `UsageError`.
    """
    fields = dict(preset(preset_name).fields)
    chosen: dict[str, Any] = {}
    chosen_attention: dict[str, Any] = {}
    attention_options = attention_options or {}
    known = set(Config.model_fields) - _FIXED
    for key, value in (settings or {}).items():
        if key in known:
            fields[key] = value
            if key in _PAIRS and _PAIRS[key] not in (settings or {}):
                fields.pop(_PAIRS[key], None)
        elif key in scheme_options and key in attention_options:
            what = f"{key} is an option of {scheme} and of attention {attention}"
            raise UsageError(what, got=f"{key}={value}", allowed="an option of one", fix="rename it in one's file")
        elif key in scheme_options:
            chosen[key] = value
        elif key in attention_options:
            chosen_attention[key] = value
        elif key in _OWN:
            raise UsageError(f"{key} is not a setting", got=f"{key}={value}", fix=f"it is an option: --{key}")
        else:
            raise unknown("setting", key, known | set(scheme_options) | set(attention_options))
    for one, other in (("epochs", "steps"), ("validate_every_epochs", "validate_every_steps")):
        if one in fields and other in fields:
            raise UsageError(
                f"{one} and {other} exclude each other", got="both", allowed="one of them", fix="set one only"
            )
    try:
        return Config(
            preset=preset_name,
            scheme=scheme,
            scheme_options=chosen,
            structure=None if structure is None else structures.parse(structure).expression,
            attention=attention,
            attention_options=chosen_attention,
            seed=seed,
            precision=pick("precision", precision, ["fp32", "bf16"]),  # type: ignore[arg-type]
            **fields,
        )
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"bad value of {where}",
            got=repr(first.get("input")),
            allowed=first["msg"],
            fix=_how(where),
        ) from error


def _not_json(text: str) -> float:
    raise ValueError(f"{text} is not a number")


def _how(field: str) -> str:
    return f"--{field} VALUE" if field in _OWN else f"--set {field}=VALUE"


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """`key=value` strings; values are numbers, true, false, or text.

    >>> parse_settings(["decay=1", "d_model=64"])
    {'decay': 1, 'd_model': 64}
    """
    return {key: _value(text) for key, text in _cut(pairs).items()}


def parse_values(pairs: list[str]) -> dict[str, Any]:
    """`key=value,value` strings, each with all the values that a field is to have in turn.

    >>> parse_values(["decay=1,0.98", "learned=true"])
    {'decay': [1, 0.98], 'learned': [True]}
    """
    return {key: [_value(part.strip()) for part in text.split(",")] for key, text in _cut(pairs).items()}


def _cut(pairs: list[str]) -> dict[str, str]:
    """Keys and the texts of their values."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, text = (part.strip() for part in pair.partition("="))
        if not equals or not key or not text or text == "null":
            raise UsageError("bad --set", got=repr(pair), allowed="KEY=VALUE", fix="for example --set d_model=64")
        if key in found:
            raise UsageError(f"{key} is set twice", got=f"{found[key]} and {text}", fix="set it once")
        found[key] = text
    return found


def _value(text: str) -> Any:
    """A number, true, false, or the text itself."""
    try:
        return json.loads(text, parse_constant=_not_json)
    except (ValueError, RecursionError):
        return text
