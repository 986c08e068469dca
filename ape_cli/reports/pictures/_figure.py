"""Pictures as figures of matplotlib. `plots.encode` writes one to a file, and the same picture gives the same bytes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ape_cli.core import escaping
from ape_cli.reports.palette import INK, SCORES, drawing
from ape_cli.reports.pictures import Curve, Diagram, HeatMap, Panel, colour, steady
from ape_cli.reports.pictures._places import coordinates, edges, names
from ape_cli.structure import Cyclic, Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL, _MAP = (3.3, 2.9), (2.5, 2.5)  # inches of a panel, and of a heat map beside others of the same kind
_CHARACTER = 0.076  # inches of a character of the title
_MOST_WORDS = 40  # tokens that are written along an axis
_TICKS = 8  # places that are named along an axis
_FEW = 40  # places that are named in their circles
_TINY = 6  # points: the size of the names of tokens and places


def figure(title: str, rows: Sequence[Sequence[Panel]]) -> Figure:
    """The figure of a picture. matplotlib has to be installed (`plots.require`)."""
    from matplotlib.figure import Figure

    rows = [[steady(panel) for panel in row] for row in rows]
    first = rows[0][0]
    width, height = _MAP if isinstance(first, HeatMap) and first.words else _PANEL
    columns = max(map(len, rows))
    with drawing():
        whole = Figure(figsize=(columns * width + 0.6, len(rows) * height + 0.4), layout="constrained")
        every = whole.subplots(len(rows), columns, squeeze=False)
        coloured: list[tuple[Axes, Any, HeatMap | Diagram]] = []
        for line, row in zip(every, rows, strict=True):
            for axes, panel in zip(line, row, strict=False):
                axes.set_title(escaping.one_line(panel.title))
                if isinstance(panel, Curve):
                    _curve(axes, panel)
                else:
                    drawn = _heat_map(axes, panel) if isinstance(panel, HeatMap) else _diagram(axes, panel)
                    coloured.append((axes, drawn, panel))
            for axes in line[len(row) :]:
                axes.set_axis_off()
        if coloured:
            _colour_bar(whole, coloured)
        wide = int(whole.get_figwidth() / _CHARACTER)
        whole.suptitle(textwrap.fill(escaping.one_line(title), wide), x=0.01, ha="left", fontsize=9)
        whole.draw_without_rendering()  # the layout of a file is the second one, which knows the ticks of the first
    return whole


def _curve(axes: Axes, panel: Curve) -> None:
    """Draw a mean as a line, and its range over heads as a band."""
    from matplotlib.ticker import MaxNLocator

    if panel.heads > 1:
        label = f"range over {panel.heads} heads"
        axes.fill_between(panel.x, panel.low, panel.high, color=SCORES[2], alpha=0.2, linewidth=0, label=label)
    label = "mean over heads" if panel.heads > 1 else "one score for all heads"
    axes.plot(panel.x, panel.mean, color=SCORES[2], label=label, marker="o" if len(panel.x) <= 20 else "", markersize=3)
    low, high = panel.y_range
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    axes.set_ylim(low - margin, high + margin)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label, fontsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=True)
    axes.legend(fontsize=7, handlelength=1.6, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.19))  # below all


def _heat_map(axes: Axes, panel: HeatMap) -> Any:
    """Draw numbers as colours, the first row at the top. Returns the image."""
    image = axes.imshow(panel.values, **_colours(panel), interpolation="none", aspect="equal")
    for side in ("top", "right"):
        axes.spines[side].set_visible(True)
    axes.tick_params(length=2)
    for axis, labels in ((axes.xaxis, panel.columns), (axes.yaxis, panel.rows)):
        shown = _shown(labels, panel.words)
        axis.set_ticks(shown, [escaping.one_line(labels[i]) for i in shown])
    axes.tick_params(axis="both", labelsize=_TINY if panel.words else 7)
    axes.tick_params(axis="x", rotation=90 if panel.words or max(map(len, panel.columns)) > 3 else 0)
    axes.set_xlabel("key")
    axes.set_ylabel("query")
    return image


def _shown(labels: Sequence[str], words: bool) -> list[int]:
    """The indices of the labels that are written: all tokens if they fit, the beginnings of rows of a grid, or some."""
    if words and len(labels) <= _MOST_WORDS:
        return list(range(len(labels)))
    begins = [i for i, label in enumerate(labels) if label.endswith(",1")]
    if begins and not words and len(begins) <= 2 * _TICKS:
        return begins
    return list(range(0, len(labels), max(1, -(-len(labels) // _TICKS))))


def _diagram(axes: Axes, panel: Diagram) -> Any:
    """Draw places as circles with lines between neighbours. Returns the circles."""
    from matplotlib.collections import LineCollection

    at = coordinates(panel.structure, panel.places)
    assert at is not None
    span = np.maximum(np.ptp(at, axis=0), 1.0)
    if isinstance(panel.structure, Tree):  # as high as it is wide
        at = at * (1.0, max(1.0, 0.7 * span[0] / span[1]))
    lines = [(at[i], at[j]) for i, j in edges(panel.structure, panel.places)]
    axes.add_collection(LineCollection(lines, colors=INK, linewidths=0.5, alpha=0.5, zorder=1))
    size = float(np.clip(150 / _widest(panel), 4, 15)) ** 2
    circles = axes.scatter(
        at[:, 0],
        at[:, 1],
        s=size,
        c=panel.values,
        **_colours(panel),
        edgecolors=INK,
        linewidths=[2.0 if i == panel.node else 0.5 for i in range(len(at))],
        zorder=2,
    )
    if len(at) <= _FEW and size > 60:
        for (x, y), text, value in zip(at, names(panel.places), panel.values, strict=True):
            ink = "#ffffff" if sum(colour(value / panel.limit)) < 360 else INK
            axes.text(x, y, text, ha="center", va="center_baseline", fontsize=4.5, color=ink, zorder=3)
    axes.set_axis_off()
    axes.margins(0.08)
    axes.set_aspect("auto" if isinstance(panel.structure, Tree) else "equal")
    return circles


def _widest(panel: Diagram) -> float:
    """The number of circles that have to fit side by side."""
    if isinstance(panel.structure, Tree):
        return float(panel.structure.branching ** int(panel.structure.level(panel.places).max()))
    return len(panel.places) / 3 if isinstance(panel.structure, Cyclic) else float(panel.places.max())


def _colours(panel: HeatMap | Diagram) -> dict[str, Any]:
    """The colours of the numbers from -limit to limit."""
    from matplotlib.colors import ListedColormap, Normalize

    colours = ListedColormap([tuple(part / 255 for part in colour(i / 128)) for i in range(-128, 129)])
    return {"cmap": colours, "norm": Normalize(-panel.limit, panel.limit)}


def _colour_bar(whole: Figure, coloured: list[tuple[Axes, Any, HeatMap | Diagram]]) -> None:
    """One colour bar for all panels: it shows the numbers from the lowest to the highest, and 0."""
    _, scale, panel = coloured[0]
    bar = whole.colorbar(scale, ax=[axes for axes, *_ in coloured], shrink=0.85, pad=0.02)
    numbers = np.concatenate([panel.values.ravel() for *_, panel in coloured])
    low, high = float(numbers.min(initial=0.0)), float(numbers.max(initial=0.0))
    if low < high:
        bar.ax.set_ylim(low, high)
    bar.set_label(panel.label, fontsize=7)
    bar.ax.tick_params(labelsize=7)
    bar.outline.set_linewidth(0.5)
