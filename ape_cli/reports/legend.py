"""The legend of a figure. It is below all axes, so that it never covers a plot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ape_cli.core import escaping
from ape_cli.reports.palette import DOTTED, HOLLOW, INK, LEAD, PAPER, ZERO, Look

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINE_STYLES = "A solid line is a scheme with its default settings. A dashed line is a variant of a scheme."


def row(name: str, look: Look, *, lead: bool = False) -> Any:
    """The handle of a row. With `lead` it is as thin as the line that leads to a dot."""
    from matplotlib.lines import Line2D

    own: dict[str, Any] = {"color": look.colour, "marker": look.mark, "linestyle": look.dashes}
    return Line2D([], [], label=escaping.one_line(name), **own, **({"linewidth": LEAD["linewidth"]} if lead else {}))


def shade(words: str, opacity: float) -> Any:
    """The handle of a shaded area in the neutral colour."""
    from matplotlib.patches import Patch

    return Patch(color=INK, alpha=opacity, linewidth=0, label=words)


def sign(words: str, **drawn: Any) -> Any:
    """The handle of a line or a mark that means the same for all rows. `drawn`: how matplotlib draws it."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=INK, label=words, **drawn)


def words(words: str) -> Any:
    """The handle of an explanation without a line and a mark."""
    return sign(words, linestyle="none")


def test() -> Any:
    """The handle of curves on the test split."""
    return sign("the same row on the test split", **DOTTED)


def hollow(words: str) -> Any:
    """The handle of hollow points."""
    return sign(words, marker="o", **HOLLOW)


def zero() -> Any:
    """The handle of the hatched strip for errors of 0."""
    from matplotlib.patches import Patch

    return Patch(label="an error of 0, which has no logarithm", **ZERO)


def paper() -> Any:
    """The handle of the paper's scores."""
    return sign("the paper's", **PAPER)


def swatch(handle: Any) -> Figure:
    """The sign of a handle as a small figure without its label, for a legend in HTML."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(0.45, 0.17))
    figure.legend(handles=[handle], labels=[""], loc="center", borderpad=0, handletextpad=0, borderaxespad=0)
    return figure


class Legend:
    """A legend with as many columns as its widest label leaves room for.

    handles: matplotlib artists with labels. width: the least width of the figure in inches. The attributes `width` and
    `height` are the width that the figure needs and the height of the legend, in inches.
    """

    def __init__(self, handles: list[Any], width: float) -> None:
        """Measure the labels, and compute the size and the number of columns."""
        from matplotlib import rcParams
        from matplotlib.font_manager import FontProperties
        from matplotlib.textpath import text_to_path

        self.handles = handles
        font = FontProperties(family=rcParams["font.family"], size=rcParams["font.size"])
        words = [str(handle.get_label()) for handle in handles]
        widest = max(text_to_path.get_text_width_height_descent(x, font, ismath=False)[0] for x in words)
        ems = rcParams["legend.handlelength"] + rcParams["legend.handletextpad"] + rcParams["legend.columnspacing"]
        beside = ems * rcParams["font.size"]
        column, margins = (widest + beside) / 72, 0.3  # inches
        self.width = max(width, column + margins)
        self.columns = max(1, min(len(handles), int((self.width - margins) / column)))
        self.height = 0.15 + 0.19 * -(-len(handles) // self.columns)  # inches

    def put(self, figure: Figure) -> None:
        """Add the legend below all axes of `figure`."""
        figure.legend(handles=self.handles, loc="outside lower center", ncols=self.columns)
