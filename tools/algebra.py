"""The tables of `docs/explanation/algebra.md`, and its figure, `docs/explanation/algebra.svg`.

The tables are what `ape schemes --algebra` measures, between comments that name them. The text around them is written
by hand. Errors within the limit are not printed, and eigenvalues are rounded before they are drawn, because their last
digits depend on the machine.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ape_cli import position
from ape_cli.cli.algebra_output import COMPARED, algebra_rows
from ape_cli.evaluation import algebra
from ape_cli.reports.palette import INK, SCORES, drawing
from ape_cli.reports.plots import encode
from tools.markdown_text import table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "algebra.md"
FIGURE = PAGE.with_suffix(".svg")
END = "<!-- end -->"
PANELS = [  # scheme, structure, number of steps
    ("rope", "seq", 1),
    ("orthogonal-seq", "seq", 1),
    ("orthogonal-tree", "tree(2)", 1),
    ("orthogonal", "cyclic(6)", 1),
    ("sinusoidal", "seq", 1),
    ("xpos", "seq", 100),
    ("shear", "seq", 1),
    ("mixed-rope", "grid(2)", 1),
    ("lie", "grid(2)", 1),
    ("forget", "seq", 1),
    ("path", "seq", 1),
    ("tree", "tree(2)", 1),
]
COLUMNS, SIZE = 4, 2.0  # panels in a row; inches of a panel
MOST = 1.75  # the largest coordinate of a panel
FORMULAS = {  # how the page writes what a terminal shows
    "bias m j": "bias $m j$",
    "cancels m i": "cancels $m i$",
    "r1 = m, r2 = 1": "$r_1 = m$, $r_2 = 1$",
    "c -> 0": r"$c \to 0$",
    "c = r2": "$c = r_2$",
    "e^-m": "$e^{-m}$",
    "beta -> 0": r"$\beta \to 0$",
    "base^(-2i/K)": r"$\text{base}^{-2i/K}$",
    "base^(-2i/share)": r"$\text{base}^{-2i/\text{share}}$",
    "basis I": "basis $I$",
    "channels i and i + K/2": "channels $i$ and $i + K/2$",
    "2 pi / 6": r"$2\pi/6$",
    "b[u, d] = b[u + d]": "$b[u, d] = b[u + d]$",
    "b[u, d] = b(d - u)": "$b[u, d] = b(d - u)$",
    "b[d] = -m d": "$b[d] = -m d$",
    "b[d] = -r1 log(1 + r2 d)": r"$b[d] = -r_1 \log(1 + r_2 d)$",
    "(softplus q, 0) and (softplus k, 0)": r"$(\mu(q), 0)$ and $(\mu(k), 0)$ with $\mu$ the softplus",
    "1 + (2/N)^(1/2) cos(pi (n + 1/2) / N)": r"$1 + \sqrt{2/N} \cos(\pi (n + \tfrac{1}{2}) / N)$",
    "turned by delta": r"turned by $\delta$",
}
STEPS = (SCORES[2], SCORES[0])  # colours of the first and of the second generator


def measured() -> tuple[list[list[str]], list[algebra.Case]]:
    """The rows of the table of representations, and all special cases."""
    cases = algebra.cases()
    rows = []
    for name in position.names():
        every = [dataclasses.asdict(case) for case in algebra.representations(name)]
        special = [dataclasses.asdict(case) for case in cases if case.names[0] == name]
        rows += algebra_rows({"representations": every, "special_case_of": special}, stable)
    return rows, cases


def stable(case: dict[str, Any]) -> str:
    """An error as text that is the same on every machine."""
    return "holds" if case["holds"] else f"{case['error']:.1f}, fails"


def tables() -> dict[str, str]:
    """The tables of the page by their names, as Markdown."""
    rows, cases = measured()
    heads = ["scheme", "on", "group", "kind", "law", "error", "special case of"]
    of_cases = [
        [
            f"`{case.special}`" if not case.source else f"{case.special} ({case.source})",
            f"`{case.general}`" if case.names[1] in position.names() else case.general,
            typeset(case.about),
            COMPARED[case.compared],
            "holds" if case.holds else f"{case.error:.1f}, fails",
        ]
        for case in cases
    ]
    return {
        "representations": table(
            heads,
            [[f"`{name}`", f"`{on.replace(', ', '`, `')}`", groups(group), *rest] for name, on, group, *rest in rows],
        ),
        "special cases": table(["special case", "of", "with", "equal", "result"], of_cases),
    }


def typeset(about: str) -> str:
    """How parameters are set, with formulas.

    >>> typeset("angles base^(-2i/K), basis I")
    'angles $\\\\text{base}^{-2i/K}$, basis $I$'
    """
    for shown, formula in FORMULAS.items():
        about = about.replace(shown, formula)
    return about


def groups(names: str) -> str:
    """The names of groups as formulas.

    >>> groups("Z^2, Z × F_2, Z/6, N")
    '$\\\\mathbb{Z}^2$, $\\\\mathbb{Z}$ × $F_2$, $\\\\mathbb{Z}/6$, $\\\\mathbb{N}$'
    """
    names = re.sub(r"\b([ZN](?:[\^/]\d+)?|F_\d+)\b", r"$\1$", names)
    return re.sub(r"\$([ZN])", r"$\\mathbb{\1}", names)


def page() -> str:
    """The text of the page with new tables."""
    made = tables()

    def renewed(mark: re.Match[str]) -> str:
        return f"{mark['begin']}\n\n{made[mark['name']]}\n\n{END}"

    return re.sub(
        rf"(?P<begin><!-- tools/algebra.py: (?P<name>[^>]*) -->)\n.*?{END}",
        renewed,
        PAGE.read_text("utf-8"),
        flags=re.S,
    )


def draw() -> bytes:
    """The figure: the eigenvalues of single steps in the complex plane, one panel for each scheme."""
    from matplotlib.figure import Figure

    shown = [panel for panel in PANELS if panel[0] in position.names()]
    rows = -(-len(shown) // COLUMNS)
    with drawing():
        figure = Figure(figsize=(COLUMNS * SIZE, rows * (SIZE + 0.35)), layout="constrained")
        every = figure.subplots(rows, COLUMNS, squeeze=False).flatten()
        for axes, (name, structure, steps) in zip(every, shown, strict=False):
            panel(axes, algebra.representation(name, structure, {}), steps)
        for axes in every[len(shown) :]:
            axes.set_axis_off()
    return encode(figure, "svg")


def panel(axes: Axes, representation: algebra.Representation, steps: int) -> None:
    """Draw the eigenvalues of some steps of one kind, of all sides and heads, and the unit circle.

    Two kinds of steps differ in colour and mark. Open squares belong to matrices that are not diagonalisable.
    """
    from matplotlib.patches import Circle

    axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor=INK, linewidth=0.6, alpha=0.6))
    axes.plot([-MOST, MOST], [0, 0], color=INK, linewidth=0.4, alpha=0.4)
    axes.plot([0, 0], [-MOST, MOST], color=INK, linewidth=0.4, alpha=0.4)
    count = 2 if representation.structure in ("grid(2)", "tree(2)") else 1
    size = len(representation.eigenvalues) // count
    for number in range(count):
        matrices = representation.eigenvalues[number * size : (number + 1) * size]
        values = [complex(*value) ** steps for matrix in matrices for value in matrix]
        points = sorted({(round(v.real, 3) + 0.0, round(v.imag, 3) + 0.0) for v in values})  # without -0.0
        defective = representation.block is not None and representation.block > 1
        axes.plot(
            [x for x, _ in points],
            [y for _, y in points],
            linestyle="none",
            marker="s" if defective else "ox"[number],
            markersize=7 if defective else 3.5,
            markerfacecolor="none" if defective else STEPS[number],
            markeredgecolor=STEPS[number],
            alpha=0.8,
        )
    axes.set_xlim(-MOST, MOST)
    axes.set_ylim(-MOST, MOST)
    axes.set_aspect("equal")
    axes.set_xticks([-1, 0, 1])
    axes.set_yticks([-1, 0, 1])
    axes.tick_params(labelsize=6, length=2)
    parts = (representation.steps or "").replace(" and ", ", ")
    axes.set_title(
        f"{representation.scheme}, {representation.structure}{'' if steps == 1 else f', {steps} steps'}", fontsize=7.5
    )
    axes.set_xlabel(parts if representation.holds else f"{parts}; the law fails", fontsize=7)
