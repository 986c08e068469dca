"""JSON lines: all metrics as lines of `results/runs/RUN/logs/metrics.jsonl`.

The whole file is written at each validation, with each checkpoint and at the end, so this logger also works with an
object store. A resumed run continues the file after the step that it resumes from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from ape_cli.core.errors import RunError
from ape_cli.storage import files
from ape_cli.storage.paths import StoragePath
from ape_cli.training.loggers import LoggedRun, MetricLogger, is_validation

_MOST_BYTES = 256 * 2**20  # of a log that a resumed run continues


class JsonLines(MetricLogger):
    """Writes one JSON object for each call of `log`: `step`, and the metrics by name."""

    def __init__(self, run: LoggedRun) -> None:
        """Read the lines that an earlier part of the run has written.

        Raises `RunError` if the file cannot be read, is damaged, or is too large.
        """
        self.path = run.folder / "metrics.jsonl"
        self.lines = _written(self.path, run.step) if self.path.exists() else []

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add a line, and write the file if the metrics are those of a validation."""
        self.lines.append(json.dumps({"step": step, **metrics}))
        if is_validation(metrics):
            self.flush()

    def flush(self) -> None:
        """Write the file."""
        files.write_text(self.path, "".join(f"{line}\n" for line in self.lines))

    def close(self) -> None:
        """Write the file."""
        self.flush()


def _written(path: StoragePath, step: int) -> list[str]:
    """The lines of a log until `step`. Raises `RunError` as described at `JsonLines`."""
    try:
        lines = files.read_bytes(path, _MOST_BYTES).decode().splitlines()
        return [line for line in lines if json.loads(line)["step"] <= step]
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise RunError(f"cannot read {path}", got=str(error), fix="move it away to start a new log") from error
