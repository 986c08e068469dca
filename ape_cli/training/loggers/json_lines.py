"""JSON lines: all metrics as lines of `results/runs/RUN/logs/metrics.jsonl`.

The whole file is written at each validation and at the end, so this logger also works with an object store. A resumed
run continues the file after the step that it resumes from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from ape_cli.storage import files
from ape_cli.training.loggers import LoggedRun, MetricLogger, is_validation


class JsonLines(MetricLogger):
    """Writes one JSON object for each call of `log`: `step`, and the metrics by name."""

    def __init__(self, run: LoggedRun) -> None:
        """Read the lines that an earlier part of the run has written."""
        self.path = run.folder / "metrics.jsonl"
        written = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        self.lines = [line for line in written if json.loads(line)["step"] <= run.step]

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add a line, and write the file if the metrics are those of a validation."""
        self.lines.append(json.dumps({"step": step, **metrics}))
        if is_validation(metrics):
            self.close()

    def close(self) -> None:
        """Write the file."""
        files.write_text(self.path, "".join(f"{line}\n" for line in self.lines))
