"""Tables in LaTeX: captions, labels and layout."""

from __future__ import annotations

import re

from ape_cli.reports import rendering
from ape_cli.reports.tables import Cell, Table


def plain(title: str, columns: int = 1) -> Table:
    names = [f"column {i}" for i in range(columns)]
    return Table(title, ["See `ape eval`."], names, [("rope", ["1"] * columns)], "%")


def test_each_table_has_a_caption_and_a_label_of_its_own() -> None:
    labels = {
        "Tree tasks, token accuracy": "tab:tree-tasks-token-accuracy",
        "c3/depth by size": "tab:c3-depth-by-size",
        "Tree tasks: token accuracy": "tab:tree-tasks-token-accuracy-2",
        "猫": "tab:table",
        "Tree tasks, 2": "tab:tree-tasks-2",
        "木": "tab:table-2",
        "50% of a_b [c]": "tab:50-of-a-b-c",
    }
    text = rendering.latex([plain(title) for title in labels])
    assert re.findall(r"\\label\{(.*)\}", text) == list(labels.values())
    assert r"\caption[{c3/depth by size}]{c3/depth by size. See \texttt{ape eval}.}\label{tab:c3" in text
    assert r"\caption[{50\% of a\_b {[}c]}]{50\% of a\_b {[}c]. " in text


def test_the_best_scores_are_underlined_or_bold() -> None:
    cells = [Cell(0.995, 0.0025, 3, best, None) for best in (True, False)]
    made = Table("a", ["All."], ["copy"], [("rope", [cells[0]]), ("none", [cells[1]])], "%")
    underlined, bold = (rendering.latex([made], bold=chosen) for chosen in (False, True))
    assert r"rope & \underline{$99.50_{\pm 0.2}$} \\" in underlined
    assert "Underlined: the best mean" in underlined
    assert r"rope & $\mathbf{99.50}_{\pm 0.2}$ \\" in bold
    assert "In bold: the best mean" in bold
    assert r"none & $99.50_{\pm 0.2}$ \\" in bold
    assert "nderlined" not in bold


def test_a_table_with_many_columns_has_a_smaller_font() -> None:
    text = rendering.latex([Table("a", ["All."], ["x", "y"], [("r", ["1", None])], "%", foot=[("rows", ["2", "3"])])])
    assert "\\midrule\nr & $1$ & --- \\\\\n\\midrule\nrows & 2 & 3 \\\\\n\\bottomrule\n\\end{tabular}" in text
    assert [rendering.latex([plain("a", number)]).count("scriptsize") for number in (3, 7)] == [0, 1]


def test_only_a_table_of_more_than_a_page_is_a_longtable() -> None:
    """Two columns of text cannot have one, and a preamble without the package is enough for the others."""
    for rows, kind, other in ((40, "table", "longtable"), (41, "longtable", "table")):
        text = rendering.latex([Table("a", ["All."], ["x"], [("r", ["1"])] * rows, "%")])
        assert (text.count(f"\\end{{{kind}}}"), text.count(f"\\end{{{other}}}")) == (1, 0)
        assert text.count("r & $1$") == rows
        assert ("usepackage{longtable}" in text) is (kind == "longtable")
