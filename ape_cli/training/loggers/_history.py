"""The training history: one row per validation. The loop stores it as `history.parquet` and in the resume state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ape_cli.training.loggers import MetricLogger, is_validation


class History(MetricLogger):
    """Appends each validation to `rows`."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        if is_validation(metrics):
            self.rows.append({"step": step, **metrics})

    def close(self) -> None:
        """Do nothing: the checkpointer stores the rows, together with the state that belongs to them."""
