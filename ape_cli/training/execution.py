"""How trainings are executed, apart from what is trained: nothing in here changes a run's name or its configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import torch

from ape_cli.training.loggers import LoggerFactory
from ape_cli.training.process_group import SINGLE_PROCESS, ProcessGroup


class ExistingRun(Enum):
    """What to do with a run that exists already and is not finished, or that does not exist.

    A run that is finished is left as it is, except by `OVERWRITE`.
    """

    REFUSE = auto()  # start a new run; an unfinished one is an error
    RESUME = auto()  # resume a stopped or failed run; a missing one is an error
    RESUME_OR_START = auto()  # resume a stopped or failed run, or start a new one
    OVERWRITE = auto()  # delete what there is and start a new run


def _never() -> bool:
    return False


@dataclass(frozen=True)
class Execution:
    """The device and the processes that train, the signal that stops them, and who gets the metrics."""

    device: torch.device
    compiled: bool = False  # use torch.compile, which changes no result
    stop: Callable[[], bool] = _never  # asked after each step: whether to store the state and stop
    group: ProcessGroup = SINGLE_PROCESS
    loggers: Sequence[LoggerFactory] = ()  # opened for each run; of a process group by the first rank alone
