"""The scores of the paper's tables: schemes down, tasks across, mean and deviation over seeds (`aggregation`)."""

from __future__ import annotations

import polars as pl

from ape_cli.reports import aggregation, dot_plots, tables
from ape_cli.reports.legend import LINE_STYLES
from ape_cli.reports.plots import Plot
from ape_cli.reports.tables import Table
from ape_cli.reports.views import Options, View
from ape_cli.runs.registry import Registry


class Scores(View[pl.DataFrame]):
    """Finds lines of `columns.LINES`. That there are none is always an error."""

    about = "schemes down, tasks across, as in the paper's tables 1 and 2"
    rank = 0
    caption = f"""These are the scores of the tables below. A thick bar shows one standard deviation over seeds to
either side. A thin line leads from the axis to each dot. {LINE_STYLES}"""

    def read(self, registry: Registry, options: Options) -> tuple[pl.DataFrame, list[str]]:
        """The aggregated lines; with `--against paper` its numbers beside them."""
        return aggregation.lines(registry, **options.scores, against=options.against, own=options.own)

    def frame(self, found: pl.DataFrame) -> pl.DataFrame:
        """The lines as they are."""
        return found

    def tables(self, found: pl.DataFrame, *, interval: bool = False) -> list[Table]:
        """A table for each preset and kind of structure, images apart."""
        return tables.tables(found, interval=interval)

    def plot(self, found: pl.DataFrame, options: Options) -> Plot:
        """A dot for each score."""
        return dot_plots.plot(self.tables(found, interval=options.interval))
