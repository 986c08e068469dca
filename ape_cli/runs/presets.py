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

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ape_cli.core.errors import UsageError, pick
from ape_cli.structure import linearisation


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

    def of(self, kind: str) -> dict[str, Any]:
        """The settings for a kind of data. Raises `UsageError` if the preset has none."""
        settings = self.image if kind == "image" else self.sequence
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


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PRESETS = {name: Preset(**table) for name, table in _TABLES.items()}


def preset(name: str) -> Preset:
    """The preset called `name`. Raises `UsageError` if there is none."""
    return PRESETS[pick("preset", name, PRESETS)]
