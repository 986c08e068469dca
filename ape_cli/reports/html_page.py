"""A report as one self-contained HTML page: facts about the report, tables, and figures, in sections.

A section is about one view and one metric. Without a script the page shows all sections below one another. With its own
script it shows those of the selected view and metric, and sorts and filters the rows of tables. The page allows only
this script and loads nothing: its content security policy says so to the browser. The script and the style are the
files in the folder `page`.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from string import Template

from ape_cli.core import escaping
from ape_cli.reports import html_table
from ape_cli.reports.tables import Table


@dataclass(frozen=True)
class Metric:
    """A metric of the page, by its key and its name in words."""

    key: str
    name: str


@dataclass(frozen=True)
class Section:
    """A section of the page: tables, and a figure if there is one."""

    title: str
    tables: Sequence[Table]
    figure: str | None = None  # in HTML (`html_figure`)
    metric: Metric | None = None  # None: the section does not depend on the metric

    @property
    def anchor(self) -> str:
        """The name of the view in links."""
        return anchor(self.title)


@dataclass(frozen=True)
class About:
    """The head of the page: its title, and facts as names and values."""

    title: str = "ape report"
    facts: Sequence[tuple[str, str]] = ()


def anchor(title: str) -> str:
    """The name of a section with this title, in links and as the name of a file.

    >>> anchor("By size"), anchor("<b>../x")
    ('by-size', 'b-x')
    """
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def page(sections: Sequence[Section], missing: str | None = None, about: About | None = None) -> str:
    """The page. Sections without tables and figure are left out. The first section is the one that is shown first.

    missing: how to install what plots need, if it is not installed.
    """
    head = about or About()
    shown = [section for section in sections if section.tables or section.figure]
    names = _names(shown)
    script, style = _file("script.js"), _file("style.css")
    links = (f'<li><a href="#{names[i]}">{_heading(section)}</a></li>' for i, section in enumerate(shown))
    told = f'<p class="notes">Without plots, which need matplotlib: {escaping.html(missing)}.</p>' if missing else ""
    return Template(_file("page.html")).substitute(
        title=escaping.html(head.title),
        policy=f"default-src 'none'; style-src 'unsafe-inline'; script-src '{_digest(script)}'",
        style=style,
        script=script,
        facts="".join(f"<div><dt>{escaping.html(k)}</dt><dd>{escaping.html(v)}</dd></div>" for k, v in head.facts),
        missing=told,
        metrics=_choices("metric", ((s.metric.key, s.metric.name) for s in shown if s.metric)),
        views=_choices("view", ((section.anchor, section.title) for section in shown)),
        links="\n".join(links),
        sections="\n".join(_section(section, names[i]) for i, section in enumerate(shown)),
    )


def _file(name: str) -> str:
    """A file of the folder `page`."""
    return resources.files("ape_cli.reports").joinpath("page", name).read_text(encoding="utf-8")


def _digest(script: str) -> str:
    """The digest of the script for the content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _names(sections: Sequence[Section]) -> list[str]:
    """The id of each section: that of its view, and for further metrics of a view also the metric."""
    found: list[str] = []
    for section in sections:
        of_metric = f"{section.anchor}-{section.metric.key.replace('_', '-')}" if section.metric else section.anchor
        found.append(of_metric if section.anchor in found else section.anchor)
    return found


def _heading(section: Section) -> str:
    """The title of a section, with its metric."""
    of_metric = f'<span class="minor">: {escaping.html(section.metric.name)}</span>' if section.metric else ""
    return escaping.html(section.title) + of_metric


def _choices(name: str, choices: Iterable[tuple[str, str]]) -> str:
    """Radio buttons for a choice. The first one is selected. There are none for a single choice."""
    different = dict(choices)
    if len(different) < 2:
        return ""
    buttons = "".join(
        f'<label><input type="radio" name="{name}" value="{escaping.html(value)}" autocomplete="off"'
        f"{' checked' if number == 0 else ''}><span>{escaping.html(words)}</span></label>"
        for number, (value, words) in enumerate(different.items())
    )
    return f"<fieldset><legend>{name.capitalize()}</legend>{buttons}</fieldset>"


def _section(section: Section, name: str) -> str:
    """A section with the id `name`."""
    inner, links = list[str](), list[str]()
    for number, table in enumerate(section.tables, 1):
        place, words = f"{name}-{number}", escaping.html(table.title)
        if table.title == section.title:  # its only table
            inner.append(html_table.fragment(table, name))
            continue
        links.append(f'<li><a href="#{place}">{words}</a></li>')
        inner.append(f'<h3 id="{place}">{words}</h3>\n{html_table.fragment(table, place)}')
    contents = ""
    if len(links) > 1:
        listed = f"<summary>{len(links)} tables</summary><ul>{''.join(links)}</ul>"
        contents = f'<details class="contents">{listed}</details>'
    of_metric = f' data-metric="{section.metric.key}"' if section.metric else ""
    return f"""<section data-view="{section.anchor}"{of_metric}>
<h2 id="{name}">{_heading(section)}</h2>
{contents}
{section.figure or ""}
{"".join(inner)}
</section>"""
