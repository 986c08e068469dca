"""The facts about a dataset that decide a run, beside the run's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ape_cli.data.manifest import DatasetPlan
from ape_cli.storage.image_rows import Size
from ape_cli.structure import Structure


@dataclass(eq=False)
class Facts:
    """What is known of a dataset that is open, or of one that a sweep is going to generate.

    `plan` is everything that was chosen for the dataset. `mean_size` is the mean of the distribution of sizes, in the
    task's unit: symbols, levels of a tree, cells along a side, places of a ring or pixels. `mean_tokens` is the number
    of tokens of a source of this size. `fingerprint` is the hash of the content, 64 hexadecimal digits; it is empty
    for a dataset that was never generated.
    """

    plan: DatasetPlan
    mean_size: float
    mean_tokens: float
    fingerprint: str

    @property
    def task(self) -> str:
        """The name of the task."""
        return self.plan.task

    @property
    def order(self) -> str | None:
        """The name of the linearisation, for example `breadth` or `breadth-to-depth`; None for data without one."""
        return self.plan.linearisation

    @property
    def structure(self) -> Structure:
        """The structure of the positions."""
        return self.plan.structure

    @property
    def image(self) -> Size | None:
        """Height, width and number of channels of images; None for sequences."""
        return self.plan.image

    @property
    def kind(self) -> str:
        """The kind of the data, and so of its models: `sequence` or `image`."""
        return self.plan.kind

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the task."""
        return self.plan.parameters
