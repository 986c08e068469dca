"""The facts about a dataset that decide a run, beside the run's configuration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from ape_cli.data.plan import DatasetPlan
from ape_cli.storage.image_rows import Size
from ape_cli.structure import Structure


@dataclass(eq=False)
class Facts(ABC):
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

    task: str = field(init=False)  # name of the task
    order: str | None = field(init=False)  # linearisation, for example `breadth` or `breadth-to-depth`; None: without
    structure: Structure = field(init=False)  # structure of the positions
    image: Size | None = field(init=False)  # height, width and number of channels of images; None for sequences
    kind: str = field(init=False)  # kind of the data, and so of its models: `sequence` or `image`
    parameters: dict[str, Any] = field(init=False)  # parameters of the task

    def __post_init__(self) -> None:
        """Take over from the plan what decides a run."""
        plan = self.plan
        self.task, self.order, self.structure = plan.task, plan.linearisation, plan.structure
        self.image, self.kind, self.parameters = plan.image, plan.kind, plan.parameters

    @abstractmethod
    def largest(self, read: Structure) -> int | None:
        """The `extent` of the positions of the training split, sources and targets, read as `read`.

        For sequences this is the place of the EOS of the longest one, and for trees the greatest depth. None if the
        training split is not there.
        """
