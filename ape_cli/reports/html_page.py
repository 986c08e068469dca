"""A report as one HTML page that needs nothing else: contents, tables, plots inside, readable by day and by night.

The same registry gives the same page: it has no date.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

from ape_cli.reports.line_plots import FEW
from ape_cli.reports.rendering import fragment
from ape_cli.reports.tables import Table

_STYLE = """
:root { color-scheme: light dark; --back: #fff; --ink: #1b1e21; --soft: #5b646d; --line: #d9dde1; --paper: #00785a; }
@media (prefers-color-scheme: dark) {
  :root { --back: #14171a; --ink: #e6e8ea; --soft: #9aa4ad; --line: #343a40; --paper: #35c79a; }
}
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back);
  margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 62rem; }
h1 { font-size: 1.6rem; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; margin: 3rem 0 0; padding-top: .75rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.75rem 0 .5rem; overflow-wrap: anywhere; }
nav ul { margin: 0; padding-left: 1.25rem; overflow-wrap: anywhere; }
a { color: inherit; text-underline-offset: .2em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; border-top: 2px solid; border-bottom: 2px solid; }
thead th { box-shadow: inset 0 -1px; }
th, td { padding: .25rem .75rem; text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tbody th, tfoot th { font-weight: normal; }
tfoot { color: var(--soft); }
tfoot tr:first-child > * { box-shadow: inset 0 1px; }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--back); }
.best { text-decoration: underline; text-underline-offset: .2em; font-weight: 600; }
.minor, .notes, figcaption { color: var(--soft); }
.notes, figcaption { font-size: .87rem; max-width: 46rem; margin: .5rem 0 0; }
.paper { color: var(--paper); }
figure { margin: 1.5rem 0 0; }
figure svg { display: block; }
@media print { .wide { overflow: visible; } }
"""


_LINES = "A solid line is a scheme with its default settings. A dashed line is a variant of a scheme."
_CAPTIONS = {  # of the plots, by their names
    "scores": f"""These are the scores of the tables below. A thick bar shows one standard deviation over seeds to
either side. A thin line leads from the axis to each dot. {_LINES}""",
    "by-size": f"""These are scores by the size of the source. All lines of a plot are of the same test rows: a dataset
that only some runs were evaluated on has a plot of its own. The training split holds the sizes in the shaded area. A
band, or a bar at a single point, reaches from the smallest to the largest score over seeds. A hollow point has fewer
than {FEW} test rows and is not connected to its neighbours. {_LINES}""",
    "learning-curves": f"""These are validation scores of finished runs. A line is the mean over seeds. A band reaches
from the smallest to the largest score. {_LINES} A dotted line is the test split, which decides nothing.""",
}
_OF_ERRORS = """The axis shows the error, 100% less the score, on a logarithmic scale. An error of 0 has no logarithm.
It stands at 0, in the hatched strip below the scale."""


def page(
    scores: list[Table],
    by_size: list[Table],
    by_epoch: list[Table],
    plots: dict[str, str],
    missing: str | None = None,
    *,
    by_operator: Sequence[Table] = (),
    axis: str = "score",
) -> str:
    """The page. `plots`: SVG elements by their names in `_CAPTIONS`, with an `axis` of `scales.KINDS`.

    `missing`: how to get them, if there are none.
    """
    wanted: list[tuple[str, str, list[Table]]] = [
        ("Scores", "scores", scores),
        ("By size", "by-size", by_size),
        ("By operator", "by-operator", list(by_operator)),
        ("Learning curves", "learning-curves", by_epoch),
    ]
    sections = [_section(t, n, tables, plots.get(n), axis) for t, n, tables in wanted if tables or n in plots]
    contents = "\n".join(link for link, _ in sections)
    body = "\n".join(part for _, part in sections)
    told = f'<p class="notes">Without plots, which need matplotlib: {html.escape(missing)}.</p>' if missing else ""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>ape report</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>{_STYLE}</style></head>
<body>
<h1>ape report</h1>
{told}
<nav><ul>
{contents}
</ul></nav>
{body}
</body></html>
"""


def _section(title: str, name: str, tables: list[Table], plot: str | None, axis: str) -> tuple[str, str]:
    """Its line of the contents, and the part itself: a plot, if there is one, and tables."""
    inner, links = list[str](), list[str]()
    if plot:
        caption = f"<figcaption>{_CAPTIONS[name]}{f' {_OF_ERRORS}' if axis == 'error' else ''}</figcaption>"
        inner.append(f'<figure><div class="wide" tabindex="0">{plot}</div>{caption}</figure>')
    for number, table in enumerate(tables, 1):
        anchor, words = f"{name}-{number}", html.escape(table.title)
        links.append(f'<li><a href="#{anchor}">{words}</a></li>')
        inner.append(f'<h3 id="{anchor}">{words}</h3>\n{fragment(table)}')
    below = f"<ul>{''.join(links)}</ul>" if len(links) > 1 else ""
    body = "\n".join(inner)
    return (
        f'<li><a href="#{name}">{title}</a>{below}</li>',
        f'<section>\n<h2 id="{name}">{title}</h2>\n{body}\n</section>',
    )
