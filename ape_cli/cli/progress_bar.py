"""The progress of training: a bar on a terminal; otherwise a line at the start and then one a minute."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping

from rich import progress
from rich.console import Console

from ape_cli.cli.console import Repeated, clock, print_note
from ape_cli.training.loggers import LoggedRun, MetricLogger, is_validation


class ProgressBar(MetricLogger):
    """A logger that shows the step, the time left, the loss, both accuracies and the speed, on stderr.

    `now` tells the time in seconds.
    """

    def __init__(self, run: LoggedRun, now: Callable[[], float] = time.monotonic) -> None:
        """Show the bar."""
        self.run, self.now = run, now
        self.began, self.step = now(), run.step
        self.seen = self.began  # when `step` was reported
        self.validation = run.history[-1]["validation_token_accuracy"] if run.history else None
        self.line = ""
        self.bar: progress.Progress | None = None
        self.lines: Repeated | None = None
        if sys.stderr.isatty():
            columns = (
                progress.MofNCompleteColumn(),
                progress.TimeRemainingColumn(),
                progress.TextColumn("{task.description}"),
            )
            self.bar = progress.Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=2)
            self.job = self.bar.add_task("", total=run.steps, completed=run.step)
            self.bar.start()
        else:
            self.lines = Repeated(self.print_progress)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Update the bar with the metrics of a step or of a validation."""
        if is_validation(metrics):
            self.validation = metrics["validation_token_accuracy"]
            return
        line = f"loss {metrics['recent_loss']:.4f}  training {metrics['recent_token_accuracy']:.2%}"
        if self.validation is not None:
            line += f"  validation {self.validation:.2%}"
        line += f"  {metrics['tokens_per_second']:,.0f} {self.run.config.unit}/s"
        is_first = not self.line
        self.line, self.step, self.seen = line, step, self.now()
        if self.bar is not None:
            self.bar.update(self.job, completed=step, description=line)
        elif is_first:
            self.print_progress()

    def print_progress(self) -> None:
        """Print a line of what is known, if something is."""
        if self.line:
            pace = (self.seen - self.began) / max(1, self.step - self.run.step)
            left = clock(pace * (self.run.steps - self.step))
            print_note(f"step {self.step}/{self.run.steps}  {self.line}  about {left} left")

    def close(self) -> None:
        """Remove the bar, and print no more lines."""
        if self.bar is not None:
            self.bar.stop()
        if self.lines is not None:
            self.lines.stop()
