"""The scores in the form of the paper's tables: schemes as rows, tasks as columns, means over seeds (`aggregation`)."""

from __future__ import annotations

import polars as pl

from ape_cli.reports import aggregation, dot_plots, tables
from ape_cli.reports.evaluations import BEHIND
from ape_cli.reports.plots import LINE_STYLES, Plot
from ape_cli.reports.tables import Table
from ape_cli.reports.views import Options, View
from ape_cli.runs.registry import Registry


class Scores(View[pl.DataFrame]):
    """Shows lines of `evaluations.LINES`. It is always an error if there are none."""

    about = "schemes down, tasks across, as in the paper's tables 1 and 2"
    rank = 0
    caption = f"""These are the scores of the tables below. A thick bar shows one standard deviation over seeds to
either side. A thin line leads from the axis to each dot. {LINE_STYLES}"""

    def read(self, registry: Registry, options: Options) -> tuple[pl.DataFrame, list[str]]:
        """Read the aggregated lines, with the numbers of the paper for `--against paper`.

        Raises `ApeError` if there are no scores.
        """
        return aggregation.lines(registry, options)

    def frame(self, result: pl.DataFrame) -> pl.DataFrame:
        """The lines of `read`, without what only the HTML page shows."""
        return result.drop(BEHIND)

    def tables(self, result: pl.DataFrame, *, interval: bool = False) -> list[Table]:
        """A table for each preset and structure, and separate tables for images."""
        return tables.tables(result, interval=interval)

    def plot(self, result: pl.DataFrame, options: Options) -> Plot:
        """A plot with a dot for each score."""
        return dot_plots.plot(self.tables(result, interval=options.interval))
