"""Operations of a process group, with defaults for a single process.

`distributed_group.py` has the group of several processes that train one run together. Rank 0 is the first rank. Only
the first rank makes datasets, reads and writes results, and logs messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from ape_cli.core.errors import RunError
from ape_cli.data.batches import WHOLE, Share
from ape_cli.evaluation.metrics import MetricSums
from ape_cli.experiment import Experiment
from ape_cli.models.checkpoint import Tensors
from ape_cli.models.transformer import Model

Stored = tuple[Tensors, dict[str, Any]]


class ProcessGroup:
    """The group of a single process, and the interface of all groups."""

    rank, size = 0, 1
    share: Share = WHOLE  # the share of each batch that this rank trains on

    @property
    def first(self) -> bool:
        """Whether this is the first rank."""
        return self.rank == 0

    def device(self, wanted: torch.device) -> torch.device:
        """The device of this process, if the user asked for `wanted`. Raises `UsageError` if there is none."""
        return wanted

    def seed(self, seed: int, step: int = 0) -> int:
        """The seed for dropout on this rank, from `step` on, in a run with the seed `seed`."""
        return seed

    def tell(self, make: Callable[[], Any]) -> Any:
        """Call `make` on the first rank, and return its result, a JSON value, on every rank.

        The other ranks wait without a time limit. Raises `Gone` if another rank fails in the meantime.
        """
        return make()

    def experiment(self, prepare: Callable[[], Experiment]) -> Experiment:
        """Prepare an experiment on the first rank, where its dataset may be generated, and return it on every rank."""
        return prepare()

    @contextmanager
    def together(self, device: torch.device) -> Iterator[None]:
        """The context for all methods below. Raises `Gone` if another rank has ended."""
        yield

    def parallel(self, model: Model) -> nn.Module:
        """The module to call in a training step. Its gradients are the mean over all ranks."""
        return model

    def any(self, *asked: bool) -> list[bool]:
        """For each flag, whether it is true on any rank."""
        return list(asked)

    def sum(self, values: list[float]) -> list[float]:
        """The sum of each value over all ranks."""
        return values

    def pooled(self, tally: MetricSums) -> MetricSums:
        """The metric sums of all ranks together."""
        return tally

    def gathered(self, own: Tensors) -> Tensors:
        """On the first rank, the tensors of all ranks, by the names of `models.checkpoint.of_rank`."""
        return own

    def loaded(self, stored: Stored | None) -> Stored | None:
        """The tensors and the cursor that the first rank has loaded, on every rank."""
        return stored


SINGLE_PROCESS = ProcessGroup()


class Gone(RunError):  # noqa: N818 - it says what happened to the other rank
    """Another rank has failed or ended."""
