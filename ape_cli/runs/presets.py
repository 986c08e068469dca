"""Presets: settings of the model and of training, and the matching sizes of the data.

- `paper`: tables 4 and 5 of the preprint (arXiv 2312.16045v1), and what the authors' first release adds.
- `neurips`: the setup of the published paper (NeurIPS 2024, arXiv 2312.16045v3, appendices A and B): its numbers of
  rows and epochs, and feed-forward blocks of width 512 in the encoder and 1,024 in the decoder. Trees are rotated to
  the right. As in the authors' code, source trees are written breadth first, whatever the order of the target. The
  dropout (0.15), the weight decay, the betas, the learning rates, the length of the warm-up and the interval of
  validation are those of `paper`, because the published paper gives no others. So are the lengths, depths and
  vocabularies, and all settings for images, which are the same in both versions.
- `medium`: the data of `paper` (its lengths, depths, vocabularies and numbers of rows) with the model of `small`, which
  is a quarter as wide. It has no settings for images.
- `small`: each run takes at most about three minutes on two CPU cores, and the schemes still differ. Digits take less
  time and the images of CIFAR more.
- `tiny`: a smoke test in seconds.

Every run stops after the number of steps (or epochs) of its preset, whatever its scheme, and keeps the weights with the
best validation token accuracy. The learning-rate schedule ends at the same step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ape_cli.core.errors import UsageError, pick
from ape_cli.structure import linearisation


@dataclass(frozen=True)
class Preset:
    """Settings of the model and of training, and the matching sizes of the data."""

    fields: dict[str, Any]  # settings for sequences
    images: dict[str, Any] | None  # settings for images; None if the preset has none
    rows: dict[str, int]
    sizes: dict[str, Any]  # options of tasks; each applies to the tasks that have it
    about: dict[str, str]  # the model and its training, for each kind of data that the preset has
    augment: str = "none"  # for images whose mirror images have the same class
    source_order: str | None = None  # node order of source trees, whatever that of the target; None: that of the target

    def of(self, kind: str) -> dict[str, Any]:
        """The settings for a kind of data. Raises `UsageError` if the preset has none."""
        settings = self.images if kind == "image" else self.fields
        if settings is None:
            allowed = ", ".join(name for name, other in PRESETS.items() if other.images is not None)
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


_TOKENISER = {"convolution_size": 3, "convolution_stride": 1, "pool_size": 3, "pool_stride": 2}  # table 5

_QUARTER_WIDTH = {  # table 4, a quarter as wide; a higher learning rate and no dropout suit fewer steps
    "d_model": 128,
    "d_ff": 512,
    "heads": 4,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "dropout": 0.0,
    "batch_size": 64,
    "lr_peak": 2e-3,
}

_TINY = {
    "d_model": 32,
    "d_ff": 64,
    "heads": 2,
    "encoder_layers": 1,
    "dropout": 0.0,
    "steps": 20,
    "batch_size": 16,
    "lr_peak": 1e-3,
    "validate_every_steps": 10,
}

_PAPER_SEQUENCES = {
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
}

_PAPER_IMAGES = {  # table 5 and section 4.2; the published paper has the same
    **_TOKENISER,
    "d_model": 256,
    "d_ff": 512,
    "heads": 4,
    "encoder_layers": 7,
    "dropout": 0.0,
    "attention_dropout": 0.1,
    "stochastic_depth": 0.1,
    "epochs": 300,
    "batch_size": 128,
    "lr_peak": 5e-4,
    "weight_decay": 0.03,
    "label_smoothing": 0.1,
    "validate_every_epochs": 1,
}

PRESETS = {
    "paper": Preset(
        _PAPER_SEQUENCES,
        _PAPER_IMAGES,
        {"train": 10_000, "validation": 1_000, "test": 1_000},
        {},
        {
            "sequence": "the preprint's model: width 512, 200 epochs",
            "image": "the preprint's model: 7 layers of width 256, 300 epochs",
        },
        "crop,flip,autoaugment",
    ),
    "neurips": Preset(
        {**_PAPER_SEQUENCES, "d_ff": 512, "d_ff_decoder": 1024, "epochs": 400},
        _PAPER_IMAGES,
        {"train": 6_000, "validation": 2_000, "test": 2_000},
        {"rotation": "right"},
        {
            "sequence": "the model of the published paper: width 512, 400 epochs",
            "image": "the model of the paper: 7 layers of width 256, 300 epochs",
        },
        "crop,flip,autoaugment",
        source_order="breadth",
    ),
    "medium": Preset(
        {**_QUARTER_WIDTH, "steps": 2_000, "validate_every_steps": 200},
        None,
        {"train": 10_000, "validation": 1_000, "test": 1_000},
        {},
        {"sequence": "width 128, a quarter of the preprint's, 2,000 steps"},
    ),
    "small": Preset(
        {**_QUARTER_WIDTH, "steps": 800, "validate_every_steps": 100},
        {
            **_TOKENISER,
            "d_model": 64,
            "d_ff": 128,
            "heads": 4,
            "encoder_layers": 3,
            "dropout": 0.0,
            "attention_dropout": 0.1,
            "stochastic_depth": 0.1,
            "steps": 800,
            "batch_size": 64,
            "lr_peak": 2e-3,
            "weight_decay": 0.03,
            "label_smoothing": 0.1,
            "validate_every_steps": 40,
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
        {
            "sequence": "width 128, 800 steps",
            "image": "3 layers of width 64, 800 steps",
        },
        "crop,flip",
    ),
    "tiny": Preset(
        {**_TINY, "decoder_layers": 1},
        {**_TOKENISER, **_TINY, "attention_dropout": 0.0, "stochastic_depth": 0.0},
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
        dict.fromkeys(("sequence", "image"), "width 32, 20 steps: a smoke test"),
    ),
}


def preset(name: str) -> Preset:
    """The preset called `name`. Raises `UsageError` if there is none."""
    return PRESETS[pick("preset", name, PRESETS)]
