"""The progress bar of training: a live line on a terminal; otherwise one line for each validation."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from rich import progress
from rich.console import Console

from ape_cli.cli.console import note
from ape_cli.training.loggers import LoggedRun, MetricLogger, is_validation


class ProgressBar(MetricLogger):
    """A logger that shows loss, accuracy, tokens/s or images/s, the last validation and the time left, on stderr."""

    def __init__(self, run: LoggedRun) -> None:
        """Show the bar."""
        self.run = run
        self.validation = run.history[-1]["validation_token_accuracy"] if run.history else None
        self.unsaid = bool(run.history)  # whether the last validation has not been printed yet
        columns = [
            progress.TextColumn("training"),
            progress.BarColumn(bar_width=24),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[line]}"),
            progress.TimeRemainingColumn(),
        ]
        self.hidden = not sys.stderr.isatty()
        self.bar = progress.Progress(*columns, console=Console(stderr=True), disable=self.hidden, transient=True)
        self.bar.start()
        self.job: progress.TaskID | None = None

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Update the bar with the metrics of a step or of a validation."""
        if is_validation(metrics):
            self.validation, self.unsaid = metrics["validation_token_accuracy"], True
            return
        if self.job is None:  # a resumed run starts from the step at which it stopped
            self.job = self.bar.add_task("steps", total=self.run.steps, line="", completed=step)
        loss, accuracy = metrics["recent_loss"], metrics["recent_token_accuracy"]
        line = f"loss {loss:.4f}  accuracy {accuracy:.2%}  {metrics['tokens_per_second']:,.0f} {self.run.config.unit}/s"
        if self.validation is not None:
            line += f"  validation {self.validation:.2%}"
        self.bar.update(self.job, completed=step, line=line)
        if self.hidden and self.unsaid:
            note(f"step {step}/{self.run.steps}  {line}")
            self.unsaid = False

    def close(self) -> None:
        """Remove the bar."""
        self.bar.stop()
