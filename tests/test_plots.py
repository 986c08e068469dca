"""Figures: what is drawn are the numbers of the tables; looks follow from names alone; equal input, equal bytes."""

from __future__ import annotations

import re
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from matplotlib import colors
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ape_cli import looks, plots, position
from ape_cli.curves import Panel
from ape_cli.table import Cell, Table


def panel(rows: dict[str, list[float]], *, seeds: int = 1, seen: tuple[int, int] | None = None, **names: str) -> Panel:
    """A line a row over x = 10, 20, …; least and most are a tenth below and above."""
    lines = [
        {"task": "reverse", "row": row, "x": 10.0 * i, "mean": y, "least": y - 0.1, "most": y + 0.1, "seeds": seeds}
        for row, means in rows.items()
        for i, y in enumerate(means, 1)
    ]
    return Panel(names.get("title", "reverse"), names.get("axis", "steps"), pl.DataFrame(lines), seen)


def table(rows: dict[str, list[Cell | None]], columns: list[str]) -> Table:
    return Table("Sequence tasks, token accuracy", [], columns, list(rows.items()), "%")


def drawn(axes: Axes) -> dict[str, Any]:
    return {str(line.get_label()): line for line in axes.get_lines() if not str(line.get_label()).startswith("_")}


def colour(line: Any) -> str:
    return colors.to_hex(line.get_color())


ROWS = {"none": [0.3, 0.3, 0.4], "rope": [0.2, 0.7, 0.9], "rope (decay=0.98)": [0.5, 0.6, 0.7]}
TABLE = table(
    {
        "none": [Cell(0.3, 0.05, 3, False, None), None],
        "rope": [Cell(0.9, 0.1, 3, True, (0.97, 0.008)), Cell(0.8, None, 1, True, None)],
    },
    ["reverse", "copy"],
)


def test_lines_are_the_frame(tmp_path: Path) -> None:
    (axes,) = plots.lines([panel(ROWS)], "token accuracy", "%").axes
    found = drawn(axes)
    assert list(found) == list(ROWS)
    for row, means in ROWS.items():
        assert found[row].get_xdata().tolist() == [10, 20, 30]
        assert found[row].get_ydata().tolist() == pytest.approx([100 * y for y in means])
    assert axes.get_ylabel() == "token accuracy, %"
    assert axes.get_xlabel() == "steps"
    assert axes.get_title(loc="left") == "reverse"
    assert axes.get_ylim() == (10, 100)  # the lowest, 0.2 - 0.1, lies above 10%
    assert list(axes.collections) == []  # one seed has no band
    (axes,) = plots.lines([panel(ROWS)], "cross-entropy", "nats a token").axes
    assert drawn(axes)["rope"].get_ydata().tolist() == ROWS["rope"]
    assert axes.get_ylabel() == "cross-entropy, nats a token"
    assert axes.get_ylim()[0] == 0


def test_a_band_is_the_range_over_seeds() -> None:
    (axes,) = plots.lines([panel({"rope": [0.5, 0.6]}, seeds=3)], "token accuracy", "%").axes
    (band,) = axes.collections
    corners = band.get_paths()[0].vertices
    assert {round(float(y), 6) for x, y in corners if x == 10} == {40, 60}
    assert {round(float(y), 6) for x, y in corners if x == 20} == {50, 70}


def test_the_sizes_that_training_saw_are_shaded() -> None:
    shaded, plain = plots.lines([panel(ROWS, seen=(12, 28)), panel(ROWS, title="copy")], "token accuracy", "%").axes
    (area,) = shaded.patches
    assert (area.get_x(), area.get_x() + area.get_width()) == (11.5, 28.5)  # type: ignore[attr-defined]
    assert list(plain.patches) == []


def test_the_test_curve_is_thin_dotted_and_named() -> None:
    """In its row's colour; where a row has none, and where no panel has, nothing is drawn."""
    tested, plain = panel(ROWS), panel(ROWS, title="copy")
    scores = [0.05, 0.5, 0.6] + [None] * 6
    tested = Panel("digits", "steps", tested.lines.with_columns(pl.Series("test", scores, dtype=pl.Float64)))
    figure = plots.lines([tested, plain], "accuracy", "%")
    first, second = figure.axes
    dotted = [
        line for line in first.get_lines() if line.get_linestyle() == ":" and not np.isnan(line.get_ydata()).all()
    ]
    assert [list(line.get_ydata()) for line in dotted] == [pytest.approx([5, 50, 60])]
    assert dotted[0].get_linewidth() < drawn(first)["none"].get_linewidth()
    assert colour(dotted[0]) == colour(drawn(first)["none"])
    assert len(second.get_lines()) == len(ROWS)
    assert first.get_ylim()[0] == 0  # 5% is seen
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [*ROWS, "test"]
    (alone,) = plots.lines([plain], "accuracy", "%").legends
    assert [text.get_text() for text in alone.get_texts()] == list(ROWS)


def test_axes_say_what_is_measured() -> None:
    """Of images top-1 accuracy, of words token accuracy, of both what they have in common."""
    words, images = (
        Panel(p.title, p.axis, p.lines.with_columns(task=pl.lit(task)))
        for p, task in ((panel(ROWS), "reverse"), (panel(ROWS, title="digits"), "images"))
    )
    cases: list[tuple[list[Panel], str, str]] = [
        ([words], "token_accuracy", "validation token accuracy, %"),
        ([images], "token_accuracy", "validation top-1 accuracy, %"),
        ([words, images], "token_accuracy", "validation accuracy, %"),
        ([images], "cross_entropy", "validation cross-entropy, nats an image"),
    ]
    for panels, metric, label in cases:
        assert plots.figures([TABLE], [], panels, metric)["learning-curves"].axes[0].get_ylabel() == label


def test_many_panels_wrap_under_one_legend() -> None:
    panels = [panel({"rope": [0.5, 0.6], f"x{i}": [0.1, 0.2]}, title=f"task {i}") for i in range(5)]
    figure = plots.lines(panels, "token accuracy", "%")
    assert [axes.get_title(loc="left") for axes in figure.axes] == [f"task {i}" for i in range(5)]
    places = [axes.get_subplotspec() for axes in figure.axes]
    assert [(p.rowspan.start, p.colspan.start) for p in places if p] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    assert [bool(axes.get_xlabel()) for axes in figure.axes] == [False, False, True, True, True]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["rope", "x0", "x1", "x2", "x3", "x4"]
    assert len({axes.get_ylim() for axes in figure.axes}) == 1


def test_dots_are_the_cells() -> None:
    (axes,) = plots.dots([TABLE]).axes
    found = drawn(axes)
    assert found["rope"].get_xdata() == pytest.approx([90, 80])
    assert found["none"].get_xdata() == pytest.approx([30])
    for row in found.values():  # each dot within its column's half step to either side
        assert all(abs(y - round(y)) < 0.5 for y in row.get_ydata())
    assert [round(y) for y in found["rope"].get_ydata()] == [0, 1]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["reverse", "copy"]
    bars = [line.get_segments()[0] for line in axes.collections]
    assert [(bar[0][0], bar[1][0]) for bar in bars] == [pytest.approx((25, 35)), pytest.approx((80, 100))]
    (hollow,) = [line for line in axes.get_lines() if line.get_markerfacecolor() == "none"]
    assert list(hollow.get_xdata()) == pytest.approx([97])
    assert axes.get_xlabel() == "token accuracy, %"


def test_too_many_rows_are_no_dots() -> None:
    """They would be a figure of metres."""
    cells: list[Cell | None] = [Cell(0.5, None, 1, False, None)]
    for rows, names in ((60, {"scores", "learning-curves"}), (61, {"learning-curves"})):
        made = table({f"x{i}": cells for i in range(rows)}, ["reverse"])
        assert set(plots.figures([made], [], [panel(ROWS)], "token_accuracy")) == names


def test_a_scheme_has_its_colour_whatever_stands_beside_it() -> None:
    """In each kind of figure, alone or with others, in any order; and so has one that nobody has heard of."""
    everything = [*position.names(), "somebody-s-own", "another"]
    looks: dict[str, set[tuple[str, str]]] = {name: set() for name in everything}
    for names in (everything, everything[::-1], *([name] for name in everything)):
        lines = {name: [0.5, 0.6] for name in names}
        cells: dict[str, list[Cell | None]] = {name: [Cell(0.5, None, 1, False, None)] for name in names}
        for figure in (
            plots.lines([panel(lines)], "token accuracy", "%"),
            plots.dots([table(cells, ["reverse"])]),
        ):
            for name, line in drawn(figure.axes[0]).items():
                looks[name].add((colour(line), str(line.get_marker())))
    assert all(len(found) == 1 for found in looks.values()), looks
    own = [next(iter(looks[name])) for name in position.names()]
    assert len(set(own)) == len(own)


def test_looks_stay_what_they_are() -> None:
    """In another process, on another day: figures that were made apart stand side by side.

    By sha256sum, of `somebody-s-own` d0304180c4a2b99a, colour 2 and mark 3; of `(decay=0.98)`
    58074edfae59bb30, mark 0 and dashes 2.
    """
    assert looks.look("somebody-s-own") == ("#009e73", "v", "-")
    assert looks.look("rope") == ("#2f7fc1", "o", "-")
    assert looks.look("rope (decay=0.98)") == ("#2f7fc1", "o", (0, (5, 1.5, 1, 1.5)))


def test_a_variant_has_its_scheme_s_colour_and_dashes_of_its_own() -> None:
    (axes,) = plots.lines([panel(ROWS)], "token accuracy", "%").axes
    found = drawn(axes)
    assert colour(found["rope"]) == colour(found["rope (decay=0.98)"]) != colour(found["none"])
    assert found["rope"].get_linestyle() == "-"
    assert found["rope (decay=0.98)"].get_linestyle() == "--"  # so matplotlib calls any dashes


def test_colours_can_be_seen_on_white_and_on_dark() -> None:
    def luminance(hexadecimal: str) -> float:
        """Of WCAG 2."""
        rgb = np.array(colors.to_rgb(hexadecimal))
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    dark = luminance("#14171a")
    for name in [*position.names(), *(f"x{i}" for i in range(40))]:
        light = luminance(looks.look(name)[0])
        assert 1.05 / (light + 0.05) > 2.5, name
        assert (light + 0.05) / (dark + 0.05) > 2.5, name


@pytest.mark.parametrize(("kind", "magic"), [("png", b"\x89PNG\r\n"), ("pdf", b"%PDF-"), ("svg", b"<?xml")])
def test_files_are_what_they_say_and_the_same_each_time(kind: str, magic: bytes) -> None:
    def make() -> list[Figure]:
        return list(plots.figures([TABLE], [panel(ROWS, seen=(1, 2))], [panel(ROWS, seeds=2)], "exact_match").values())

    first, again = ([plots.encode(figure, kind) for figure in make()] for _ in range(2))
    assert len(first) == 3
    assert first == again
    for content in first:
        assert content.startswith(magic)
        assert re.search(rb"(19|20)\d\d-\d\d-\d\d|D:20\d\d", content) is None  # no date
    if kind == "svg":
        assert xml.etree.ElementTree.fromstring(first[0]).tag == "{http://www.w3.org/2000/svg}svg"


def test_names_are_drawn_as_they_are() -> None:
    """Neither mathematics nor a warning about a letter that the font lacks; and nobody's own style."""
    with mpl.rc_context({"lines.linewidth": 9, "figure.facecolor": "red", "font.size": 30}):
        figure = plots.lines([panel({"a$b$ (x=猫)": [0.5, 0.6]}, title="$x$ & <y>")], "token accuracy", "%")
        content = plots.encode(figure, "svg")
    assert b"#ff0000" not in content
    (line,) = drawn(figure.axes[0]).values()
    assert line.get_linewidth() == 1.5
    assert figure.axes[0].title.get_parse_math() is False


def test_several_figures_stand_in_one_page() -> None:
    """No id twice, every reference met, nothing to fetch, neutral colours the page's own."""
    figures = plots.figures([TABLE], [panel(ROWS, seen=(1, 2))], [panel(ROWS)], "token_accuracy")
    page = "".join(plots.inline(figure, name) for name, figure in figures.items())
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids)) > 30
    used = re.findall(r'href="#([^"]+)"', page) + re.findall(r"url\(#([^)]+)\)", page)
    assert set(used) <= set(ids)
    assert page.count("<svg") == page.count('role="img"') == 3
    assert "http" not in page
    assert "<?xml" not in page
    assert "currentColor" in page
    assert "#1b1e21" not in page
    assert "#ffffff" not in page


def test_without_matplotlib_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    assert plots.missing() is None
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install matplotlib" in (plots.missing() or "")
