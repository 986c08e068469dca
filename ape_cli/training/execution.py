"""How a training is executed: device, processes, stop signal and loggers.

Nothing in this module changes the name or the configuration of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import torch

from ape_cli.training.loggers import LoggerFactory
from ape_cli.training.process_group import SINGLE_PROCESS, ProcessGroup


class ExistingRun(Enum):
    """What to do if the run does not exist, or if it exists and is not finished.

    Only `OVERWRITE` changes a finished run.
    """

    REFUSE = auto()  # start a new run; an unfinished one with a checkpoint is an error
    RESUME = auto()  # resume a stopped or failed run; a missing one is an error
    RESUME_OR_START = auto()  # resume a stopped or failed run, or start a new one
    OVERWRITE = auto()  # delete the existing run and start a new one


@dataclass(frozen=True)
class Execution:
    """The device and the process group that train, the stop signal, and the loggers of metrics."""

    device: torch.device
    compiled: bool = False  # whether to use torch.compile; results stay the same within floating-point tolerance
    stop: Callable[[], bool] = lambda: False  # called after each step; True means: store the state and stop
    group: ProcessGroup = SINGLE_PROCESS
    loggers: Sequence[LoggerFactory] = ()  # opened for each run, on the first rank only
