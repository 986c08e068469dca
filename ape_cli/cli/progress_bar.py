"""The progress of training: a bar on a terminal; otherwise a line at the start and then one a minute."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping

from rich import progress
from rich.console import Console

from ape_cli.cli.console import clock, print_note
from ape_cli.training.loggers import LoggedRun, MetricLogger, is_validation

_PRINT_EVERY = 60.0  # seconds between two lines


class ProgressBar(MetricLogger):
    """A logger that shows the step, the time left, the loss, both accuracies and the speed, on stderr.

    `now` tells the time in seconds.
    """

    def __init__(self, run: LoggedRun, now: Callable[[], float] = time.monotonic) -> None:
        """Show the bar."""
        self.run, self.now, self.began = run, now, now()
        self.printed: float | None = None  # when the last line was printed
        self.validation = run.history[-1]["validation_token_accuracy"] if run.history else None
        self.bar: progress.Progress | None = None
        if sys.stderr.isatty():
            counts, left = progress.MofNCompleteColumn(), progress.TimeRemainingColumn()
            columns = (counts, left, progress.TextColumn("{task.description}"))
            self.bar = progress.Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=2)
            self.job = self.bar.add_task("", total=run.steps, completed=run.step)
            self.bar.start()

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Update the bar with the metrics of a step or of a validation, or print a line."""
        if is_validation(metrics):
            self.validation = metrics["validation_token_accuracy"]
            return
        line = f"loss {metrics['recent_loss']:.4f}  training {metrics['recent_token_accuracy']:.2%}"
        if self.validation is not None:
            line += f"  validation {self.validation:.2%}"
        line += f"  {metrics['tokens_per_second']:,.0f} {self.run.config.unit}/s"
        if self.bar is not None:
            self.bar.update(self.job, completed=step, description=line)
        elif self.printed is None or self.now() - self.printed >= _PRINT_EVERY:
            self.printed = self.now()
            left = (self.printed - self.began) / max(1, step - self.run.step) * (self.run.steps - step)
            print_note(f"step {step}/{self.run.steps}  {line}  about {clock(left)} left")

    def close(self) -> None:
        """Remove the bar."""
        if self.bar is not None:
            self.bar.stop()
