"""Scores at the sizes beyond those of training, of all tasks in one table: schemes as rows, tasks as columns.

The score of a run is the plain mean of its scores at these sizes, so that each size counts once; of perplexities, it is
the geometric mean. Then the mean and the deviation over seeds are computed, as in the other tables. Ruoss et al. 2023
(arXiv:2305.16843) report such means. The view `generalisation` shows one task at a time, and its scores at each size.

Token accuracy counts the EOS after an answer. If all answers of a task are single symbols, exact match therefore takes
its place: it is the accuracy of these symbols.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from ape_cli.core.numbers import spans
from ape_cli.reports import baselines
from ape_cli.reports.evaluations import COUNTS, METRICS, Options, arrange, evaluation_tables
from ape_cli.reports.layout import DATA, TABLE
from ape_cli.reports.tables import Table, table
from ape_cli.reports.views import View
from ape_cli.reports.views.generalisation import over_unseen, read_beyond
from ape_cli.runs.registry import Registry
from ape_cli.tasks import size_words

_TOKENS, _EXACT = "token_accuracy", "exact_match"
_LISTED = 8  # sizes; of more, a note says how many there are


class Unseen(View[pl.DataFrame]):
    """Shows a line for each row and column: the mean over unseen sizes, with `chance` there."""

    about = "means over all sizes beyond those of training, all tasks in one table"
    rank = 11
    unused = ("against", "counts")

    def read(self, registry: Registry, options: Options) -> pl.DataFrame:
        """Read the evaluations by size, also those on other data. Raises `ApeError` if no size is beyond training."""
        if options.metric != _TOKENS:
            return over_unseen(read_beyond(registry, options, [options.metric]))
        lines = read_beyond(registry, options, [_TOKENS, _EXACT])
        trained = evaluation_tables(registry, options.split).trained
        ended = [name for name, data in trained.items() if data.structure == "seq" and not data.tagged]
        is_symbol = pl.col("trained_fingerprint").is_in(ended) & (pl.col("tokens") == 2 * pl.col("rows"))  # and its EOS
        wanted = pl.when(is_symbol.all().over(*DATA)).then(pl.lit(_EXACT)).otherwise(pl.lit(_TOKENS))
        return over_unseen(lines.filter(pl.col("metric") == wanted))

    def frame(self, result: pl.DataFrame) -> pl.DataFrame:
        """A line for each score. `unseen` lists the sizes, and `low` to `high` is the interval over seeds."""
        sizes = pl.Series("unseen", map(spans, result["unseen"].to_list()), pl.String)
        return arrange(result.with_columns(sizes), ["unseen", "chance"], [*COUNTS])

    def tables(self, result: pl.DataFrame, *, interval: bool = False) -> list[Table]:
        """A table for each preset and structure."""
        return [_table(group, interval) for group in result.partition_by(TABLE, maintain_order=True)]


def _table(lines: pl.DataFrame, interval: bool) -> Table:
    """The table of one preset and structure."""
    columns = lines["column"].unique(maintain_order=True).to_list()
    data: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for first in lines.unique("column", keep="first", maintain_order=True).iter_rows(named=True):
        unseen = first["unseen"]
        others = spans(unseen) if len(unseen) <= _LISTED else f"{len(unseen)} from {unseen[0]} to {unseen[-1]}"
        data.setdefault((first["sizes"], others), []).append(first)
    notes = []
    for (sizes, others), firsts in data.items():
        words = {size_words(first["task"], first["structure"])[0] for first in firsts}
        of = ", ".join(first["column"] for first in firsts) if len(data) > 1 else ""
        word = "/".join(sorted(words)) if len(words) < 3 else "size"
        notes.append(f"Training data: {word} {sizes}; unseen: {others}{of and f' ({of})'}.")
    if lines["metric"].n_unique() > 1:
        exact = lines.filter(metric=_EXACT)["column"].unique(maintain_order=True)
        notes.append(f"Exact match where all answers are single symbols: {', '.join(exact)}.")
        lines = lines.with_columns(metric=pl.lit(_TOKENS))
    foot, of_foot = baselines.rows(lines, columns)
    mean = "geometric mean" if METRICS[lines["metric"][0]].exponential else "mean"
    rules = [f"Each score is the {mean} over the unseen sizes, each with the same weight.", *of_foot]
    return table(
        "Beyond the sizes of training", lines, "column", columns, interval, notes=notes, rules=rules, foot=foot
    )
