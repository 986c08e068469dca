"""JSON lines: every metric as a line of `results/runs/RUN/logs/metrics.jsonl`.

The file is written as a whole at each validation and at the end, so it also works in an object store. A resumed run
continues it after the step that it resumes from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from ape_cli.storage import files
from ape_cli.training.loggers import LoggedRun, MetricLogger, is_validation


class JsonLines(MetricLogger):
    """Writes one JSON object per call of `log`: `step`, and the metrics by name."""

    def __init__(self, run: LoggedRun) -> None:
        self.path = run.folder / "metrics.jsonl"
        written = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        self.lines = [line for line in written if json.loads(line)["step"] <= run.step]

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.lines.append(json.dumps({"step": step, **metrics}))
        if is_validation(metrics):
            self.close()

    def close(self) -> None:
        files.write_text(self.path, "".join(f"{line}\n" for line in self.lines))
