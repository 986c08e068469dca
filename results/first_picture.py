"""Draw the picture at the top of the README: token accuracy by depth on `tree-rotate`, from the committed runs.

`make record` runs this file through `record.py`. It writes `docs/pictures/first-light.svg` and `first-dark.svg`, which
have transparent backgrounds. The bytes depend on the version of matplotlib, which `constraints.txt` pins.

The runs are those of `table2.toml` whose source is written breadth first and whose target depth first. Depths with
fewer than 30 test trees are left out. A band is the standard deviation over seeds.
"""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl
from matplotlib.figure import Figure

from ape_cli.reports import palette
from ape_cli.reports.palette import ON_DARK

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
WORDS = ["--by", "size", "--format", "csv"]  # of `ape report` on the sweep `table2`
COLUMN = {"task": "tree-rotate", "order": "breadth-to-depth"}
TITLE = "Mirroring a tree: token accuracy by depth of the tree"
GROUPS = {75: "↑ read the path to each node", 66: "↓ read a sequence of nodes"}  # by height, between the lines
LEAST_ROWS = 30
INKS = {"light": palette.INK, "dark": palette.INK_ON_DARK}
SIZE = 7.5, 2.6  # inches; a browser shows 96 pixels for each
APART = 8.0  # points of accuracy between two labels


def lines(csv: str) -> pl.DataFrame:
    """The points of the picture, in percent: one line for each scheme and depth."""
    points = pl.read_csv(io.StringIO(csv)).filter(pl.col("rows") >= LEAST_ROWS, **COLUMN)
    return points.select("scheme", "size", "seeds", "rows", mean=100 * pl.col("mean"), std=100 * pl.col("std"))


def label_heights(ends: dict[str, float]) -> dict[str, float]:
    """The heights of the labels of lines that end at `ends`: the same, but at least `APART` from each other."""
    heights: dict[str, float] = {}
    for name in sorted(ends, key=lambda name: -ends[name]):
        heights[name] = min(ends[name], min(heights.values(), default=200.0) - APART)
    return heights


def picture(points: pl.DataFrame, page: str) -> str:
    """The picture as SVG, for a `light` or a `dark` page."""
    names = points["scheme"].unique(maintain_order=True).to_list()
    looks, depths = palette.looks(names), sorted(set(points["size"]))
    if page == "dark":
        looks = {name: look._replace(colour=ON_DARK.get(look.colour, look.colour)) for name, look in looks.items()}
    parts = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "grid.color")
    sizes = {"font.size": 10, "axes.titlesize": 11}
    with palette.drawing(**dict.fromkeys(parts, INKS[page]), **sizes):
        figure = Figure(SIZE)
        axes = figure.add_axes((0.075, 0.12, 0.655, 0.74))
        ends = {}
        for name in names:
            of = points.filter(scheme=name).sort("size")
            x, mean, std = (of[key].to_numpy() for key in ("size", "mean", "std"))
            axes.plot(x, mean, **looks[name].style, linewidth=2.2, markersize=6, clip_on=False)
            axes.fill_between(x, mean - std, (mean + std).clip(max=100), color=looks[name].colour, alpha=0.18, lw=0)
            ends[name] = float(mean[-1])
        for name, height in label_heights(ends).items():
            axes.text(depths[-1] + 0.1, height, f"{name}  {ends[name]:.1f}%", va="center")
        for height, words in GROUPS.items():
            axes.text(depths[-1] + 0.1, height, words, va="center", alpha=0.7, size=8.5)
        axes.set_title(TITLE, pad=10)
        axes.set_xticks(depths, [f"depth {depth}" for depth in depths])
        axes.set_yticks(range(0, 101, 25), [f"{tick}%" for tick in range(0, 101, 25)])
        axes.set_ylim(0, 100)
        axes.set_xlim(depths[0] - 0.3, depths[-1])
        axes.tick_params(length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="y")
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return out.getvalue()


def drawn(csv: str) -> dict[str, str]:
    """The pictures by their files, from what `ape report` prints with `WORDS`."""
    return {f"first-{name}.svg": picture(lines(csv), name) for name in INKS}
