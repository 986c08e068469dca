"""The figures of an HTML page: small pictures beside one legend, as far as they can be read.

A picture with more than `MOST_ROWS` rows is not drawn, because its rows cannot be told apart. The pictures of a page
are drawn in its order, which begins with the selected metric, until they have `MOST_LINES` lines. So a page of a few
dozen runs has all pictures. Each figure says what is not drawn.

matplotlib gives each part of a figure a group and an id, and repeats the style of a line at each of its points. Without
these, an SVG element is a third as large and looks the same. Lengths are in points, and have one decimal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from ape_cli.core import escaping
from ape_cli.reports.builtin import ON_DARK
from ape_cli.reports.palette import INK, Looks, drawing, swatch
from ape_cli.reports.plots import Plot, encode

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS = 24  # of a picture: as many as there are built-in schemes
MOST_LINES = 100  # of all pictures of a page
_OF_ERRORS = """ The axis shows the error, 100% less the score, on a logarithmic scale. An error of 0 has no logarithm.
It stands at 0, in the hatched strip below the scale."""
_TAG = re.compile(r"<(/?)(\w+)([^>]*?)(/?)>\s*")
_POSITIONS = re.compile(r'(?<= )(?:d|x|y|transform)="[^"]*"')


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


def inline(figure: Figure, name: str, label: str = "") -> Markup:
    """A figure as an SVG element for an HTML page, with the font and the text colour of the page and no background.

    `name` is put before every id, so that one page can have several figures. `label` describes the figure to readers
    who do not see it; without one they are not told of it. The figure stays transparent afterwards.
    """
    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
    svg = encode(figure, "svg").decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.S)
    svg = re.sub(r' (?:xmlns(?::\w+)?|version)="[^"]*"', "", svg)
    svg = re.sub(r'(class="|\n\.)(?=s\d+["{])', rf"\1{name}-", svg).replace("xlink:href", "href")
    svg = slim(svg, name)
    svg = re.sub(r"font-family: [^;\"}]*; ", "", svg).replace(INK, "currentColor")
    for colour, on_dark in ON_DARK.items():
        svg = svg.replace(colour, f"light-dark({colour}, {on_dark})")
    said = f'role="img" aria-label="{escaping.html(label)}"' if label else 'aria-hidden="true"'
    return Markup(svg.replace("<svg", f"<svg {said}", 1))


def slim(svg: str, name: str) -> str:
    """An SVG element with only the ids that it refers to, numbered after `name`, and with few groups and decimals."""
    used = dict.fromkeys(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    numbers = {old: f"{name}-{number}" for number, old in enumerate(used)}
    svg = re.sub(r' id="([^"]*)"', lambda id: f' id="{numbers[id[1]]}"' if id[1] in used else "", svg)
    svg = re.sub(r'(href="#|url\(#)([^")]+)', lambda link: link[1] + numbers[link[2]], svg)
    svg = re.sub(r"<g>\s*((?:<use [^>]*/>\s*)+)</g>", _share_class, svg)
    svg = _POSITIONS.sub(lambda values: re.sub(r"\d+\.\d+", _rounded, values[0]), svg)
    return "".join(_without_bare_groups(svg))


def _rounded(number: re.Match[str]) -> str:
    """A number with one decimal, or none if it is 0."""
    return f"{float(number[0]):.1f}".removesuffix(".0")


def _share_class(group: re.Match[str]) -> str:
    """A group of `use` elements with their class, if all of them have the same one."""
    classes = set(re.findall(r' class="([^"]*)"', group[1]))
    if len(classes) != 1 or group[1].count(" class=") != group[1].count("<use "):
        return group[0]
    return f'<g class="{classes.pop()}">' + re.sub(r' class="[^"]*"', "", group[1]) + "</g>"


def _without_bare_groups(svg: str) -> Iterator[str]:
    """The parts of an SVG element without the groups that have no attributes."""
    bare, end = list[bool](), 0  # of each open group, whether it has no attributes
    for tag in _TAG.finditer(svg):
        yield svg[end : tag.start()]
        end = tag.end()
        closes, element, attributes, is_empty = tag.groups()
        if element != "g":
            yield tag[0].rstrip()
        elif closes:
            yield "" if bare.pop() else "</g>"
        elif not is_empty:
            bare.append(not attributes)
            yield "" if bare[-1] else f"<g{attributes}>"
    yield svg[end:]
