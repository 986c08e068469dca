"""The numbers of the paper (tables 1 to 3), and the comparison of our scores with them.

If a run has the size of the paper's runs (`paper_size`), the comparison has the difference of the means, and whether
the paper's mean lies in our 95% interval over seeds. This interval does not take into account that the paper's mean
over 3 seeds is uncertain too. Welch's test with the paper's deviations is not possible: they are rounded to a tenth of
a percent (8 of 60 to 0.0), 3 are missing, and the paper does not say whether they are of a sample or of a population.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources
from typing import Any

import polars as pl

from ape_cli.reports.builtin import is_image

# A `depth` column of the paper's table 2 can be read in two ways. These two of our columns are compared with it.
DEPTH = ("depth", "breadth-to-depth")
TWO_READINGS = (
    "The paper has one `depth` column: its text (section 4.1) describes sources and targets in the same order, like "
    "our `depth`; the first release of its authors' code always writes sources breadth first, like our "
    "`breadth-to-depth`."
)
DOUBTED = (
    "†: in the first release of the authors' code, this model adds one vector to all tokens, so it has no positions; "
    "which code made the paper's numbers is not known."
)
SOURCE, IMAGES_ROWS = "cifar-10", (50_000, 10_000)  # the images of table 3: rows for training, and other rows
IMAGES = f"images/{SOURCE}"  # their column
_ROUNDED = 0.5e-4  # the paper rounds means to hundredths of a percent

_COLUMNS = {
    "paper_mean": pl.Float64,
    "paper_std": pl.Float64,
    "paper_difference": pl.Float64,
    "paper_in_interval": pl.Boolean,
}


@cache
def table(number: int) -> dict[tuple[str, str], tuple[float, float | None]]:
    """The mean and the deviation of each (scheme, column) of a table of the paper, 1 to 3, as fractions."""
    content = json.loads(resources.files("ape_cli.reports").joinpath("paper_tables.json").read_text(encoding="utf-8"))
    own = content[f"table{number}"]
    return {
        (scheme, column): (mean / 100, None if std is None else std / 100)
        for scheme, cells in own["rows"].items()
        for column, (mean, std) in zip(own["columns"], cells, strict=True)
        if mean is not None
    }


@cache
def scores() -> dict[tuple[str, str], tuple[float, float | None]]:
    """The mean and the deviation of each (scheme, column) of tables 1 to 3 of the paper, as fractions.

    The column `images/cifar-10 @150` of table 3 is the best score on images until epoch 150. A `depth` column of table
    2 appears twice, for example as `tree-copy/depth` and as `tree-copy/breadth-to-depth` (see `TWO_READINGS`).
    """
    return {
        (scheme, before + name): score
        for number, before in ((1, ""), (2, ""), (3, f"{IMAGES} "))
        for (scheme, column), score in table(number).items()
        for name in _ours(column)
    }


def _ours(column: str) -> list[str]:
    """Our columns that are compared with a column of the paper.

    >>> _ours("c3/depth"), _ours("c3/breadth")
    (['c3/depth', 'c3/breadth-to-depth'], ['c3/breadth'])
    """
    task, _, order = column.partition("/")
    return [f"{task}/{ours}" for ours in DEPTH] if order == "depth" else [column]


# Settings that a run may have beside those of the paper: the number format of products, and the size of bounded
# schemes, which is the mean in the paper's text and larger in its authors' code.
_FREE = re.compile(r"(precision=tf32|max_size=\d+|, )*")
_ROTATIONS = re.compile(r" \(rotation [a-z]+\)$")  # the other forms of tree-rotate in the authors' code


def is_doubted(scheme: str, task: str) -> bool:
    """Whether the paper's number of a scheme on a task has the mark of `DOUBTED`."""
    return scheme == "sinusoidal" and not is_image(task)


def number(scheme: str, column: str, variant: str) -> tuple[float, float | None] | None:
    """The paper's mean and deviation of a scheme in a column (see `scores`), or None if the paper has none.

    `variant`: the settings of our runs as text; the paper has numbers for few others than the defaults.
    """
    return scores().get((scheme, _ROTATIONS.sub("", column))) if _FREE.fullmatch(variant) else None


def beside(lines: pl.DataFrame, columns: list[str]) -> pl.DataFrame:
    """Add the paper's mean and deviation to the lines of a report.

    Lines of the paper's size also get the difference of the means, ours minus the paper's, and whether the paper's mean
    lies in our interval. `columns` has the name of each line's column in the paper's tables.
    """
    compared = []
    for line, column in zip(lines.iter_rows(named=True), columns, strict=True):
        kind = (line["metric"], line["decode"], line["split"])
        plain = kind == ("token_accuracy", "teacher", "test") and line["fingerprint"] == line["trained_fingerprint"]
        score = number(line["scheme"], column, line["variant"]) if plain else None
        compared.append((None,) * len(_COLUMNS) if score is None else (*score, *_compared(line, score[0])))
    return lines.hstack(pl.DataFrame(compared, schema=_COLUMNS, orient="row"))


def _compared(line: dict[str, Any], paper_mean: float) -> tuple[float | None, bool | None]:
    """The difference from the paper's mean, and whether that mean lies in our interval. None if not comparable."""
    if not line["paper_size"]:
        return None, None
    inside = None
    if line["low"] is not None:
        inside = line["low"] - _ROUNDED <= paper_mean <= line["high"] + _ROUNDED
    return line["mean"] - paper_mean, inside
