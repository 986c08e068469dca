"""JSON lines: all metrics as lines of `results/runs/RUN/logs/metrics.jsonl`.

The whole file is written at each validation and at the end, so this logger also works with an object store. A resumed
run continues the file after the step that it resumes from.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from ape_cli.core.errors import RunError
from ape_cli.storage import files
from ape_cli.storage.paths import StoragePath
from ape_cli.training.loggers import LoggedRun, MetricLogger, is_validation

logger = logging.getLogger(__name__)

_MOST_BYTES = 256 * 2**20  # of a log that a resumed run continues


class JsonLines(MetricLogger):
    """Writes one JSON object for each call of `log`: `step`, and the metrics by name."""

    def __init__(self, run: LoggedRun) -> None:
        """Read the lines that an earlier part of the run has written. Damaged lines are dropped, and a message says so.

        Raises `RunError` if the file cannot be read, or is too large.
        """
        self.path = run.folder / "metrics.jsonl"
        self.lines = _written(self.path, run.step) if self.path.exists() else []

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add a line, and write the file if the metrics are those of a validation."""
        self.lines.append(json.dumps({"step": step, **metrics}))
        if is_validation(metrics):
            self.close()

    def close(self) -> None:
        """Write the file."""
        files.write_text(self.path, "".join(f"{line}\n" for line in self.lines))


def _written(path: StoragePath, step: int) -> list[str]:
    """The lines of a log until `step`, without damaged ones. Raises `RunError` as described at `JsonLines`."""
    try:
        raw = files.read_bytes(path, _MOST_BYTES)
    except OSError as error:
        raise RunError(f"cannot read {path}", got=error.strerror, fix="move it away; a new log is started") from error
    lines, dropped = [], 0
    for line in raw.split(b"\n")[:-1]:
        try:
            if json.loads(line)["step"] <= step:
                lines.append(line.decode())
        except (ValueError, TypeError, KeyError, RecursionError):  # a UnicodeDecodeError is a ValueError
            dropped += 1
    if dropped:
        logger.warning(f"{path}: {dropped:,} damaged lines are dropped")
    return lines
