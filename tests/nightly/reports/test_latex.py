"""TeX compiles the tables of every view."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ape_cli.reports import rendering, views
from ape_cli.reports.tables import Table
from ape_cli.reports.views import Options
from ape_cli.runs.registry import Registry
from tests.reports.test_aggregation import add
from tests.reports.test_latex import plain
from tests.reports.test_views import ROWS, fill

NAME = r"50% of #1_{x} ~ ^ & $y$ \end{table} [z] <b> | `c`"  # every character with a meaning in LaTeX


@pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="needs pdflatex: `apt-get install texlive-latex-recommended`"
)
def test_tex_compiles_the_tables_of_every_view(tmp_path: Path) -> None:
    """A document that loads the packages which the output names, and refers to every table, has no fault."""
    results = fill(tmp_path / "results")
    add(results, "rope", 0.9, variant={"note": NAME})
    add(results, "rope", 0.9, name=NAME, fingerprint="a" * 64)
    add(results, "rope", 0.9, name="other", fingerprint="b" * 64)
    tables = [
        Table(NAME, [NAME], [NAME], [(NAME, [NAME])], NAME, head=NAME, foot=[(NAME, ["1"])]),
        plain("wide", 9),
        plain("wider", 27),
        Table("long", ["All."], ["x"], [("r", ["1"])] * 120, "%"),
    ]
    for name in views.names():
        view = views.load(name)
        options = Options(compare=ROWS if view.compares else None, against=None)
        tables += view.tables(view.read(Registry(results), options))
    text = rendering.latex(tables)
    packages = re.findall(r"^% +(\\usepackage\{.*\})$", text, re.M)
    assert packages == ["\\usepackage{booktabs}", "\\usepackage{longtable}"]
    references = " ".join(f"\\ref{{{label}}}" for label in re.findall(r"\\label\{(.*)\}", text))
    lines = [
        "\\documentclass{article}",
        *packages,
        r"\setlength{\LTcapwidth}{\linewidth}",
        "\\begin{document}",
        "\\listoftables",
        references,
    ]

    (tmp_path / "document.tex").write_text("\n".join([*lines, text, "\\end{document}", ""]))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "document.tex"]
    for _ in range(2):  # the second one knows the labels
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
        assert done.returncode == 0, done.stdout[-2_000:]
    assert (tmp_path / "document.pdf").read_bytes().startswith(b"%PDF")
    log = (tmp_path / "document.log").read_text(errors="replace")
    for fault in ("undefined", "multiply", "Missing character", "^!"):
        assert re.search(fault, log, re.M) is None, fault
    assert len(tables) <= len(re.findall(r"\\begin\{(?:long)?table\}", text)) > 10
    assert "\\begin{longtable}" in text
