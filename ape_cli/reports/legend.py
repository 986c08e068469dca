"""The legend of a figure, below all of its axes, so that it never covers what is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ape_cli.reports.palette import DOTTED, HOLLOW, INK, LEAD, PAPER, ZERO, Look

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINE_STYLES = "A solid line is a scheme with its default settings. A dashed line is a variant of a scheme."


def row(name: str, look: Look, *, lead: bool = False) -> Any:
    """A row's line; with `lead` the thin one that leads to its dot."""
    from matplotlib.lines import Line2D

    own: dict[str, Any] = {"color": look.colour, "marker": look.mark, "linestyle": look.dashes}
    return Line2D([], [], label=name, **own, **({"linewidth": LEAD["linewidth"]} if lead else {}))


def shade(words: str, opacity: float) -> Any:
    """An area, of no row's colour."""
    from matplotlib.patches import Patch

    return Patch(color=INK, alpha=opacity, linewidth=0, label=words)


def sign(words: str, **drawn: Any) -> Any:
    """What a line or a mark means, whatever row it is of."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=INK, label=words, **drawn)


def words(words: str) -> Any:
    """What something is that has no line and no mark."""
    return sign(words, linestyle="none")


def test() -> Any:
    return sign("the same row on the test split", **DOTTED)


def hollow(words: str) -> Any:
    return sign(words, marker="o", **HOLLOW)


def zero() -> Any:
    from matplotlib.patches import Patch

    return Patch(label="an error of 0, which has no logarithm", **ZERO)


def paper() -> Any:
    return sign("the paper's", **PAPER)


class Legend:
    """As many columns as the widest words leave room for."""

    def __init__(self, handles: list[Any], width: float) -> None:
        """`width`: inches of the figure, at least; `self.width` is what it takes."""
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
        figure.legend(handles=self.handles, loc="outside lower center", ncols=self.columns)
