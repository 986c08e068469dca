"""The figures of an HTML page: small pictures beside one legend, as far as they can be read.

A picture with more than `MOST_ROWS` rows is not drawn, because its rows cannot be told apart. The pictures of a page
are drawn in its order, which begins with the selected metric, until they have `MOST_LINES` lines. So a page of a few
dozen runs has all pictures. Each figure says what is not drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ape_cli.reports.palette import Looks, drawing, swatch
from ape_cli.reports.plots import Plot, inline

MOST_ROWS = 24  # of a picture: as many as there are built-in schemes
MOST_LINES = 100  # of all pictures of a page
_OF_ERRORS = """ The axis shows the error, 100% less the score, on a logarithmic scale. An error of 0 has no logarithm.
It stands at 0, in the hatched strip below the scale."""


@dataclass(frozen=True)
class PageFigure:
    """A figure in panels beside one legend. Without `signs` it is one drawing with a legend of its own."""

    title: str
    caption: str
    panels: Sequence[tuple[str, Markup]]  # titles and SVG elements; there are none if nothing can be read
    signs: Sequence[tuple[Markup, str]] = ()  # the legend: SVG elements and words


class PageFigures:
    """Draws the figures of one page. `chosen` is the look of each row."""

    def __init__(self, chosen: Looks) -> None:
        """Nothing is drawn yet."""
        self._chosen = chosen
        self._left, self._figures = MOST_LINES, 0
        self._swatches: dict[tuple[str, float], Any] = {}  # a row looks the same in all figures

    def draw(self, plot: Plot, title: str, caption: str, axis: str) -> PageFigure | None:
        """Draw a plot, or None if it has no figure.

        title: what the figure shows, for readers who do not see it. axis: one of `plots.KINDS`.
        """
        name = f"f{self._figures}"
        self._figures += 1
        caption = " ".join(f"{caption}{_OF_ERRORS if axis == 'error' else ''}".split())
        with drawing():
            if plot.divide is None:
                if plot.draw is None:
                    return None
                whole = inline(plot.draw(axis, self._chosen), name, f"{title}: a plot")
                return PageFigure(title, caption, [("", whole)])
            wanted, missing = self._wanted(plot)
            if not wanted:
                return PageFigure(title, missing, [])
            panels, handles = plot.divide(axis, self._chosen, wanted)
            drawn = [(head, inline(x, f"{name}-{i}", f"{title}, {head}: a plot")) for i, (head, x) in enumerate(panels)]
            signs = [(self._swatch(x, f"{name}-l{i}"), x.get_label()) for i, x in enumerate(handles)]
        return PageFigure(title, f"{caption} {missing}".rstrip(), drawn, signs)

    def _wanted(self, plot: Plot) -> tuple[list[int], str]:
        """The numbers of the panels that are drawn, and a sentence about the others, which is empty without any."""
        readable = [number for number, rows in enumerate(plot.panels) if len(rows) <= MOST_ROWS]
        wanted = list[int]()
        for number in readable:
            if len(plot.panels[number]) > self._left:
                break
            wanted.append(number)
            self._left -= len(plot.panels[number])
        reasons = {
            f"with more than {MOST_ROWS} rows, which cannot be told apart": len(plot.panels) - len(readable),
            f"because those above have {MOST_LINES} lines already": len(readable) - len(wanted),
        }
        parts = [f"{count} plot{'s' * (count > 1)} {why}" for why, count in reasons.items() if count]
        fix = "`--plots` writes more plots to files. Select runs with `--scheme` or `--task`, or another `--metric`."
        return wanted, f"Not drawn: {'; '.join(parts)}. {fix}" if parts else ""

    def _swatch(self, handle: Any, name: str) -> Markup:
        """The sign of a handle, which is drawn once for all figures."""
        key = handle.get_label(), handle.get_linewidth()
        if key not in self._swatches:
            self._swatches[key] = inline(swatch(handle), "NAME")
        return Markup(self._swatches[key].replace("NAME", name))
