"""A figure of a report in HTML: small figures as SVG, each with its title, and one legend beside all of them.

The panels scroll in a box of their own, so that the legend and the tables stay near.
"""

from __future__ import annotations

from ape_cli.core import escaping
from ape_cli.reports import legend
from ape_cli.reports.palette import Look, drawing
from ape_cli.reports.plots import Plot, inline

_OF_ERRORS = """The axis shows the error, 100% less the score, on a logarithmic scale. An error of 0 has no logarithm.
It stands at 0, in the hatched strip below the scale."""


def drawn(plot: Plot, name: str, title: str, caption: str, axis: str, chosen: dict[str, Look]) -> str:
    """A plot that can be drawn.

    name: put before each id. title: what the figure shows, for readers who do not see it. caption: a text that contains
    no names of the user. axis: one of `scales.KINDS`. chosen: the look of each row.
    """
    assert plot.draw, "a plot without a figure has no place on a page"
    below = f"<figcaption>{caption}{f' {_OF_ERRORS}' if axis == 'error' else ''}</figcaption>"
    if plot.divide is None:
        svg = inline(plot.draw(axis, chosen), name, f"{title}: a plot")
        return f'<figure><div class="panels whole" role="group" tabindex="0">{svg}</div>{below}</figure>'
    pieces = plot.divide(axis, chosen)
    panels, signs = [], []
    for number, (head, figure) in enumerate(pieces.panels):
        svg = inline(figure, f"{name}-{number}", f"{title}, {head}: a plot")
        panels.append(f'<div class="panel"><p>{escaping.html(head)}</p>{svg}</div>')
    for number, handle in enumerate(pieces.handles):
        with drawing():
            sign = inline(legend.swatch(handle), f"{name}-legend-{number}")
        signs.append(f"<li>{sign}<span>{escaping.html(handle.get_label())}</span></li>")
    box = f'<div class="panels" role="group" aria-label="{escaping.html(title)}, plots" tabindex="0">'
    return f"""<figure class="panels-{len(panels)}">{box}
{"".join(panels)}</div>
<ul class="legend" aria-label="Legend" tabindex="0">{"".join(signs)}</ul>
{below}</figure>"""
