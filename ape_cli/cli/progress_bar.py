"""The progress of training: two live lines on a terminal; otherwise a line at the start and then one a minute."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping

from rich import progress
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from ape_cli.cli.console import Repeated, clock, print_note
from ape_cli.training.loggers import LoggedRun, MetricLogger, is_validation

_PER_SECOND = 2  # times that the lines are drawn on a terminal


class ProgressBar(MetricLogger):
    """A logger that shows the step, the time left, the loss, both accuracies and the speed, on stderr.

    Both lines fit a terminal of 80 columns. `now` tells the time in seconds.
    """

    def __init__(self, run: LoggedRun, now: Callable[[], float] = time.monotonic) -> None:
        """Show the lines."""
        self.run, self.now = run, now
        self.began, self.step = now(), run.step
        self.seen = self.began  # when `step` was reported
        self.validation = run.history[-1]["validation_token_accuracy"] if run.history else None
        self.bar = progress.Progress(
            progress.TextColumn("step"),
            progress.MofNCompleteColumn(),
            progress.BarColumn(bar_width=30),
            progress.TaskProgressColumn(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("left"),
        )
        self.line = Text("", no_wrap=True, overflow="ellipsis")
        self.live: Live | None = None
        self.lines: Repeated | None = None
        if sys.stderr.isatty():
            lines = Group(self.bar, self.line)
            self.live = Live(lines, console=Console(stderr=True), transient=True, refresh_per_second=_PER_SECOND)
            self.live.start()
        else:
            self.lines = Repeated(self.print_progress)
        self.job: progress.TaskID | None = None

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Update the lines with the metrics of a step or of a validation."""
        if is_validation(metrics):
            self.validation = metrics["validation_token_accuracy"]
            return
        if self.job is None:  # a resumed run starts from the step at which it stopped
            self.job = self.bar.add_task("steps", total=self.run.steps, completed=step)
        line = f"loss {metrics['recent_loss']:.4f}  training {metrics['recent_token_accuracy']:.2%}"
        if self.validation is not None:
            line += f"  validation {self.validation:.2%}"
        line += f"  {metrics['tokens_per_second']:,.0f} {self.run.config.unit}/s"
        self.bar.update(self.job, completed=step)
        is_first = not self.line.plain
        self.line.plain, self.step, self.seen = line, step, self.now()
        if is_first and self.lines is not None:
            self.print_progress()

    def print_progress(self) -> None:
        """Print a line of what is known, if something is."""
        if self.line.plain:
            pace = (self.seen - self.began) / max(1, self.step - self.run.step)
            left = clock(pace * (self.run.steps - self.step))
            print_note(f"step {self.step}/{self.run.steps}  {self.line.plain}  about {left} left")

    def close(self) -> None:
        """Remove the live lines, and print no more of the others."""
        if self.live is not None:
            self.live.stop()
        if self.lines is not None:
            self.lines.stop()
