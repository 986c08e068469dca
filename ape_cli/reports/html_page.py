"""A report as one self-contained HTML page: contents, tables and inline plots, with light and dark colours.

The page has no date, so the same registry always gives the same page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ape_cli.core import escaping
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


_OF_ERRORS = """The axis shows the error, 100% less the score, on a logarithmic scale. An error of 0 has no logarithm.
It stands at 0, in the hatched strip below the scale."""


@dataclass(frozen=True)
class Section:
    """A section of the page: tables, and a plot if there is one."""

    title: str
    tables: Sequence[Table]
    plot: str | None = None  # an SVG element
    caption: str = ""  # the caption of the plot

    @property
    def anchor(self) -> str:
        """The target of links to this section."""
        return anchor(self.title)


def anchor(title: str) -> str:
    """The name of a section with this title, in links and as the name of a file.

    >>> anchor("By size")
    'by-size'
    """
    return title.lower().replace(" ", "-")


def page(sections: Sequence[Section], missing: str | None = None, *, axis: str = "score") -> str:
    """The page. Sections without tables and plot are left out.

    missing: how to install what plots need, if it is not installed. axis: one of `scales.KINDS`, which plots show.
    """
    made = [_section(section, axis) for section in sections if section.tables or section.plot]
    contents = "\n".join(link for link, _ in made)
    body = "\n".join(part for _, part in made)
    told = f'<p class="notes">Without plots, which need matplotlib: {escaping.html(missing)}.</p>' if missing else ""
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


def _section(section: Section, axis: str) -> tuple[str, str]:
    """The entry of a section in the contents, and the section itself."""
    inner, links = list[str](), list[str]()
    if section.plot:
        caption = f"<figcaption>{section.caption}{f' {_OF_ERRORS}' if axis == 'error' else ''}</figcaption>"
        inner.append(f'<figure><div class="wide" tabindex="0">{section.plot}</div>{caption}</figure>')
    for number, table in enumerate(section.tables, 1):
        place, words = f"{section.anchor}-{number}", escaping.html(table.title)
        links.append(f'<li><a href="#{place}">{words}</a></li>')
        inner.append(f'<h3 id="{place}">{words}</h3>\n{fragment(table)}')
    title = escaping.html(section.title)
    below = f"<ul>{''.join(links)}</ul>" if len(links) > 1 else ""
    body = "\n".join(inner)
    return (
        f'<li><a href="#{section.anchor}">{title}</a>{below}</li>',
        f'<section>\n<h2 id="{section.anchor}">{title}</h2>\n{body}\n</section>',
    )
