"""The world of a process: alone, or one of several that train one run together (`ranks.py`).

What a training has to ask of the others, and what the answer is where there are none. Rank 0 is the first: it alone
makes datasets, reads and writes results, and is heard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from ape_cli.core.errors import RunError
from ape_cli.data.collation import WHOLE, Share
from ape_cli.data.loader import Dataset
from ape_cli.evaluation.metrics import MetricSums
from ape_cli.models.checkpoint import Tensors
from ape_cli.models.transformer import Model

Stored = tuple[Tensors, dict[str, Any]]


class ProcessGroup:
    """One process, alone; and what there is to ask of several."""

    rank, size = 0, 1
    share: Share = WHOLE  # of each batch

    @property
    def first(self) -> bool:
        return self.rank == 0

    def device(self, wanted: torch.device) -> torch.device:
        """This process's own."""
        return wanted

    def seed(self, seed: int, step: int = 0) -> int:
        """Of this process's dropout, in a run of `seed`, from a step on."""
        return seed

    def tell(self, make: Callable[[], Any]) -> Any:
        """What the first rank makes, on every rank; a JSON value. The others wait, however long that takes."""
        return make()

    def dataset(self, find: Callable[[], Dataset]) -> Dataset:
        """The one that the first rank finds, or generates, on every rank."""
        return find()

    @contextmanager
    def together(self, device: torch.device) -> Iterator[None]:
        """Everything below is asked within. Raises `Gone` where another rank has ended."""
        yield

    def parallel(self, model: Model) -> nn.Module:
        """The model as a training step calls it: gradients are then the mean of those of all ranks."""
        return model

    def any(self, *asked: bool) -> list[bool]:
        """Of each, whether some rank says so."""
        return list(asked)

    def sum(self, values: list[float]) -> list[float]:
        """Each over all ranks."""
        return values

    def pooled(self, tally: MetricSums) -> MetricSums:
        """The tallies of all ranks, as one."""
        return tally

    def gathered(self, own: Tensors) -> Tensors:
        """On the first rank, what all ranks have under these names (`state.of_rank`)."""
        return own

    def loaded(self, stored: Stored | None) -> Stored | None:
        """What the first rank has loaded, on every rank."""
        return stored


SINGLE_PROCESS = ProcessGroup()


class Gone(RunError):  # noqa: N818 - of what is told it is the name
    """Another rank has ended without a word."""
