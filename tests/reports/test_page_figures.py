"""What is drawn on a page: pictures that can be read, as far as the page has room for them."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from ape_cli.reports import html_page, plots
from ape_cli.reports.evaluations import METRICS
from ape_cli.reports.html_page import PageFigure, PageFigures, slim
from ape_cli.reports.palette import looks
from ape_cli.reports.tables import Cell
from ape_cli.reports.views.scores import Scores, dot_plot
from ape_cli.runs.run import Run
from tests.conftest import ape
from tests.figures import panel, table
from tests.reports.test_views import fill

FEW, MANY = ([f"row-{i}" for i in range(count)] for count in (3, html_page.MOST_ROWS + 1))


def drawn(*numbers: list[str], figures: int = 1) -> list[PageFigure]:
    """Draws a figure with a panel for each list of rows, several times on one page."""
    made = [panel({row: [0.5, 0.6] for row in rows}, title=f"{i}") for i, rows in enumerate(numbers)]
    plot = plots.plot(made, "token_accuracy")
    assert plot
    page = PageFigures(looks(plot.rows))
    found = [page.draw(plot, "By size", "The caption.", "score") for _ in range(figures)]
    return [figure for figure in found if figure]


def test_a_picture_whose_rows_cannot_be_told_apart_is_not_drawn() -> None:
    """The legend has no row of it, and the caption says how to see it."""
    (figure,) = drawn(MANY, FEW)
    assert [title for title, _ in figure.panels] == ["1"]
    assert [words for _, words in figure.signs] == FEW
    assert figure.caption == (
        "The caption. Not drawn: 1 plot with more than 24 rows, which cannot be told apart. "
        "`--plots` writes more plots to files. Select runs with `--scheme` or `--task`, or another `--metric`."
    )
    (nothing,) = drawn(MANY)
    assert nothing.panels == []
    assert nothing.caption.startswith("Not drawn: 1 plot with")
    assert "Not drawn" not in drawn(FEW, FEW)[0].caption


def test_a_page_draws_no_more_lines_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two figures with two panels of three lines each: seven lines leave room for the first figure only."""
    monkeypatch.setattr(html_page, "MOST_LINES", 7)
    first, second = drawn(FEW, FEW, figures=2)
    assert [title for title, _ in first.panels] == ["0", "1"]
    assert second.panels == []
    assert "2 plots because those above have 7 lines already" in second.caption


def test_columns_of_a_long_table_of_scores_are_drawn_if_they_have_few_rows() -> None:
    cell = Cell(0.5, None, 1, False, None)
    made = table({f"row-{i}": [cell, cell if i < 3 else None] for i in range(70)}, ["reverse", "copy"])
    plot = dot_plot([made])
    figure = PageFigures(looks(plot.rows)).draw(plot, "Scores", "The caption.", "score")
    assert plot.draw is None
    assert figure
    assert [title for title, _ in figure.panels] == ["copy"]


def test_all_pictures_of_a_small_page_are_drawn(tmp_path: Path) -> None:
    """Two schemes with two seeds on three tasks: a plot for each task in the scores of each metric, and so on."""
    fill(tmp_path)
    page, _ = ape("report", "--results", str(tmp_path), "--format", "html")
    assert "Not drawn" not in page
    assert page.count('role="img"') >= 15


def test_a_sign_is_drawn_once_for_all_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    swatch = html_page.swatch
    monkeypatch.setattr(html_page, "swatch", lambda handle: calls.append(handle) or swatch(handle))
    figures = drawn(FEW, FEW, figures=3)
    assert len(calls) == len(figures[0].signs) == 3
    ids = re.findall(
        r'\bid="([^"]+)"', "".join(svg for figure in figures for svg, _ in [*figure.panels, *figure.signs])
    )
    assert len(ids) == len(set(ids)) > 0


def test_alike_panels_have_alike_margins() -> None:
    """They have the same y axis. Only the first one is laid out by matplotlib."""
    long = "depth of the tree that the source writes, steps from the root node"
    made = [panel({"rope": [0.5, 0.6]}, axis=axis) for axis in ("steps", "steps", long)]
    panels, _ = plots.divided(made, "score", "%", "score", looks(["rope"]), [0, 1, 2])
    boxes = [figure.axes[0].get_position().bounds for _, figure in panels]
    assert boxes[0] == boxes[1] != boxes[2]  # the last label has two lines
    for _, figure in panels:
        figure.draw_without_rendering()
        box = figure.axes[0].get_tightbbox()
        assert box
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.y1 <= figure.bbox.y1


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


def test_a_view_makes_its_plot_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command asks it for notes, and the page for the figure."""
    fill(tmp_path)
    asked: list[str] = []
    plot = Scores.plot
    monkeypatch.setattr(Scores, "plot", lambda *given: asked.append(given[2].metric) or plot(*given))
    ape("report", "--results", str(tmp_path), "--format", "html")
    assert sorted(asked) == sorted(METRICS)


SVG = """<svg>
<g id="figure_1">
<defs>
<path id="m0e256" d="M -2.25 2.25 L 2.04 1.00 z" style="stroke-opacity: 0.15"/>
</defs>
<g clip-path="url(#pp1)">
<use href="#m0e256" x="92.80" y="8.98" class="s4"/>
<use href="#m0e256" x="111.13" y="9.04" class="s4"/>
</g>
<g id="text_1">
<g>
<use href="#m0e256" x="1" y="2" class="s4"/>
<use href="#m0e256" x="3" y="4" class="s4"/>
</g>
<text x="5.00">a 1.234 b &lt;g&gt;</text>
</g>
</g>
<clipPath id="pp1"><rect x="0" y="1"/></clipPath>
</svg>"""


def test_what_a_page_does_not_need_is_left_out() -> None:
    """Ids that nothing refers to, groups that say nothing, and the second decimal of a position. Texts stay."""
    assert slim(SVG, "f1") == (
        '<svg><defs><path id="f1-1" d="M -2.2 2.2 L 2 1 z" style="stroke-opacity: 0.15"/></defs>'
        '<g clip-path="url(#f1-0)"><use href="#f1-1" x="92.8" y="9" class="s4"/>'
        '<use href="#f1-1" x="111.1" y="9" class="s4"/></g>'
        '<g class="s4"><use href="#f1-1" x="1" y="2"/><use href="#f1-1" x="3" y="4"/></g>'
        '<text x="5">a 1.234 b &lt;g&gt;</text><clipPath id="f1-0"><rect x="0" y="1"/></clipPath></svg>'
    )
