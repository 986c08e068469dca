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


def test_a_wide_table_is_divided_and_its_parts_have_the_rows_with_scores() -> None:
    names = [f"column {i}" for i in range(17)]  # 8 or 9 characters and 3 between columns, in 90 beside the 6 of a row
    rows = [(f"row {i}", ["1" if number < 7 or i else None for number in range(17)]) for i in range(20)]
    text = rendering.latex([Table("a", ["All."], names, rows, "%", foot=[("rows", ["2"] * 17)])])
    parts = text.split("\\begin{longtable}")[1:]
    assert [part[: part.index("\n")] for part in parts] == ["{lrrrrrrr}", "{lrrrrrrr}", "{lrrr}"]
    heads = [re.findall(r"column (\d+)", part[: part.index("endfirsthead")]) for part in parts]
    assert [int(number) for head in heads for number in head] == list(range(17))
    assert [part.count("column 0") for part in parts] == [2, 0, 0]  # on the first page, and on those that follow
    assert re.findall(r"\\caption\[\{(.*?)\}\]", text) == [
        f"a, columns {of} of 17" for of in ("1 to 7", "8 to 14", "15 to 17")
    ]
    assert re.findall(r"\\label\{(.*)\}", text) == ["tab:a", "tab:a-2", "tab:a-3"]
    assert (text.count("row 0 &"), text.count("row 19 &"), text.count("rows & 2 ")) == (1, 3, 3)
    assert text.count("All.") == 1
    assert [rendering.latex([plain("a", number)]).count("scriptsize") for number in (3, 7)] == [0, 1]
