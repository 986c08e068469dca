"""The training history: one row for each validation.

The checkpointer stores it as `history.parquet` and in the state for resuming.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ape_cli.training.loggers import MetricLogger, is_validation


class History(MetricLogger):
    """Appends the metrics of each validation to `rows`, with the number of steps as `step`."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        """Keep the rows so far, which are empty in a new run."""
        self.rows = rows

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Append the metrics if they are those of a validation."""
        if is_validation(metrics):
            self.rows.append({"step": step, **metrics})

    def close(self) -> None:
        """Do nothing. The checkpointer stores the rows together with the state that belongs to them."""
