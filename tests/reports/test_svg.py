"""Figures as elements of a page: what is left out, and what is not."""

from __future__ import annotations

from ape_cli.reports.page_figures import slim

SVG = """<svg>
<g id="figure_1">
<defs>
<path id="m0e256" d="M -2.25 2.25 L 2.04 1.00 z" style="stroke-opacity: 0.15"/>
</defs>
<g clip-path="url(#pp1)">
<use href="#m0e256" x="92.80" y="8.98" class="s4"/>
<use href="#m0e256" x="111.13" y="9.04" class="s4"/>
</g>
<g id="text_1">
<g>
<use href="#m0e256" x="1" y="2" class="s4"/>
<use href="#m0e256" x="3" y="4" class="s4"/>
</g>
<text x="5.00">a 1.234 b &lt;g&gt;</text>
</g>
</g>
<clipPath id="pp1"><rect x="0" y="1"/></clipPath>
</svg>"""


def test_what_a_page_does_not_need_is_left_out() -> None:
    """Ids that nothing refers to, groups that say nothing, and the second decimal of a position. Texts stay."""
    assert slim(SVG, "f1") == (
        '<svg><defs><path id="f1-1" d="M -2.2 2.2 L 2 1 z" style="stroke-opacity: 0.15"/></defs>'
        '<g clip-path="url(#f1-0)"><use href="#f1-1" x="92.8" y="9" class="s4"/>'
        '<use href="#f1-1" x="111.1" y="9" class="s4"/></g>'
        '<g class="s4"><use href="#f1-1" x="1" y="2"/><use href="#f1-1" x="3" y="4"/></g>'
        '<text x="5">a 1.234 b &lt;g&gt;</text><clipPath id="f1-0"><rect x="0" y="1"/></clipPath></svg>'
    )
