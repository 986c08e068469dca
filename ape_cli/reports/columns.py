"""The columns of the lines of a report: all of them, and which of them tell tables' columns and cells apart."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

LINES = {
    "task": pl.String,
    "order": pl.String,
    "scheme": pl.String,
    "variant": pl.String,
    "configuration": pl.String,
    "attention": pl.String,
    "preset": pl.String,
    "decode": pl.String,
    "split": pl.String,
    "metric": pl.String,
    "mean": pl.Float64,
    "std": pl.Float64,
    "seeds": pl.Int64,
    "best": pl.Boolean,
    "structure": pl.String,
    "form": pl.String,
    "trained_on": pl.String,
    "trained_fingerprint": pl.String,
    "dataset": pl.String,
    "fingerprint": pl.String,
    "paper_size": pl.Boolean,
    "low": pl.Float64,
    "high": pl.Float64,
}

# what a column of a table is, and what a cell is beside it
COLUMN = ["task", "order", "preset", "decode", "split", "metric", "structure", "form"]
COLUMN += ["trained_fingerprint", "fingerprint"]
CELL = ["configuration", "scheme", "variant", "attention"]


def arrange(found: pl.DataFrame, place: Iterable[str], last: Iterable[str] = ()) -> pl.DataFrame:
    """The columns that programs get, in the order of `LINES`: `place`, what a view is by, stands before the mean."""
    names = [name for name in LINES if name in found.columns]
    mean = names.index("mean")
    return found.select(*names[:mean], *place, *names[mean:], *last)
