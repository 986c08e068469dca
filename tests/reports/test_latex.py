"""Tables in LaTeX: captions, labels and layout."""

from __future__ import annotations

import re

from ape_cli.reports import rendering
from ape_cli.reports.tables import Cell, Table


def plain(title: str, columns: int = 1) -> Table:
    names = [f"column {i}" for i in range(columns)]
    return Table(title, ["See `ape eval`."], names, [("rope", ["1"] * columns)], "%")


def test_each_table_has_a_caption_and_a_label_of_its_own() -> None:
    titles = [
        "Tree tasks, token accuracy",
        "c3/depth by size",
        "Tree tasks: token accuracy",
        "猫",
        "Tree tasks, 2",
        "木",
    ]
    text = rendering.latex([plain(title) for title in titles])
    assert re.findall(r"\\label\{(.*)\}", text) == [
        "tab:tree-tasks-token-accuracy",
        "tab:c3-depth-by-size",
        "tab:tree-tasks-token-accuracy-2",
        "tab:table",
        "tab:tree-tasks-2",
        "tab:table-2",
    ]
    assert r"\caption[{c3/depth by size}]{c3/depth by size. See \texttt{ape eval}.}" in text
    for table in text.split("\\begin{table}")[1:]:  # a label is the number of the caption before it
        assert table.index("\\caption") < table.index("\\label") < table.index("\\end{table}")


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


def test_a_wide_table_is_divided_into_parts_with_the_same_rows() -> None:
    made = plain("a", 17)  # 8 or 9 characters and 3 between columns, in 96 beside the 6 of "Scheme"
    (text,) = rendering.latex([made]).split("\\begin{table}")[1:]
    parts = text.split("\\begin{tabular}")[1:]
    assert [part[: part.index("\n")] for part in parts] == ["{lrrrrrrrr}", "{lrrrrrrr}", "{lrr}"]
    heads = [re.findall(r"column (\d+)", part) for part in parts]
    assert [int(number) for head in heads for number in head] == list(range(17))
    assert all(part.count("rope & $1$ ") == 1 for part in parts)
    assert text.count("\\caption[") == text.count("\\label") == 1
    assert rendering.latex([plain("a", 8)]).count("\\begin{tabular}") == 1
    assert rendering.latex([plain("a", 8)]).count("resizebox") == 1
    assert "resizebox" not in rendering.latex([plain("a", 3)])
    assert r"\caption[{50\% of a\_b {[}c]}]{50\% of a\_b {[}c]. " in rendering.latex([plain("50% of a_b [c]")])


def test_a_table_that_is_too_long_for_a_page_is_several_tables() -> None:
    names = [f"column {i}" for i in range(17)]
    rows = [(f"row {i}", ["1" if number < 8 or i else None for number in range(17)]) for i in range(20)]
    text = rendering.latex([Table("a", [], names, rows, "%")])
    assert re.findall(r"\\label\{(.*)\}", text) == ["tab:a", "tab:a-2"]
    assert re.findall(r"\\caption\[\{(.*?)\}\]", text) == ["a, part 1 of 2", "a, part 2 of 2"]
    assert [part.count("\\begin{tabular}") for part in text.split("\\begin{table}")[1:]] == [2, 1]
    assert text.count("row 0 &") == 1  # a part leaves out the rows without a score in it
    assert text.count("row 19 &") == 3
