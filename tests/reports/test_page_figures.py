"""What is drawn on a page, as far as the page has room for it, and what is read for it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from ape_cli.reports import html_page, plots
from ape_cli.reports.html_page import PageFigure, PageFigures
from ape_cli.reports.palette import looks
from ape_cli.reports.tables import Cell
from ape_cli.reports.views.scores import dot_plot
from ape_cli.runs.run import Run
from tests.conftest import ape
from tests.figures import panel, table
from tests.reports.test_views import fill


def test_a_page_draws_no_more_lines_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two figures with two panels of three lines each: eleven lines leave room for the first figure only."""
    monkeypatch.setattr(html_page, "MOST_LINES", 11)
    rows = {f"row-{i}": [0.5, 0.6] for i in range(3)}
    plot = plots.plot([panel(rows), panel(rows)], "token_accuracy")
    assert plot
    page = PageFigures(looks(plot.rows))
    first, second = (page.draw(plot, "By size", "The caption.", "score") for _ in range(2))
    assert first
    assert second
    assert (first.svg is None, first.caption) == (False, "The caption.")
    assert second.svg is None
    assert "Not drawn" in second.caption


def test_a_page_says_why_a_plot_cannot_be_drawn() -> None:
    cells: list[Cell | None] = [Cell(0.5, None, 1, False, None)]
    plot = dot_plot([table({f"x{i}": cells for i in range(61)}, ["reverse"])])
    figure = PageFigures({}).draw(plot, "Scores", "The caption.", "score")
    assert figure == PageFigure(None, "No plot of the scores: a table has more than 60 rows.")


def test_each_file_of_a_run_is_read_once_for_all_views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page has views of three metrics, and reads each evaluation and history once."""
    fill(tmp_path)
    read: list[str] = []
    content = Run.content

    def counted(run: Run, name: str) -> bytes:
        read.append(f"{run.name}/{name}")
        return content(run, name)

    monkeypatch.setattr(Run, "content", counted)
    monkeypatch.setattr(plots, "missing", partial(str, "pip install matplotlib"))  # drawing is not tested
    ape("report", "--results", str(tmp_path), "--format", "html")
    assert len(read) == len(set(read)) > 12
