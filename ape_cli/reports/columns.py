"""The columns of the lines of a report, and which of them identify a column or a cell of a table.

A score (`mean`, `std`, `low`, `high`) is a fraction, or nats for cross-entropy.
"""

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

# what is behind a score: each seed with its score, and the numbers of evaluated rows and target tokens, which all seeds
# share. The HTML page shows them; they are not part of machine-readable output.
BEHIND = ["by_seed", "rows", "tokens"]

# these identify a column of a table; together with CELL they identify a cell
COLUMN = ["task", "order", "preset", "decode", "split", "metric", "structure", "form"]
COLUMN += ["trained_fingerprint", "fingerprint"]
CELL = ["configuration", "scheme", "variant", "attention"]


def arrange(found: pl.DataFrame, place: Iterable[str], last: Iterable[str] = ()) -> pl.DataFrame:
    """The columns for machine-readable output, in the order of `LINES`.

    place: the columns that a view groups by, which are put before the mean. last: columns that are put at the end.
    """
    names = [name for name in LINES if name in found.columns]
    mean = names.index("mean")
    return found.select(*names[:mean], *place, *names[mean:], *last)
