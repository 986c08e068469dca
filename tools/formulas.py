"""Typeset the formulas of the documentation: a Markdown extension that turns `$…$` and `$$…$$` into MathML.

Browsers draw MathML without a script, a font or a request, and GitHub renders the same source. `zensical.toml` loads
this file when the site is built. A formula that cannot be converted ends the build.
"""

from __future__ import annotations

import html
import re
from typing import Any
from xml.etree import ElementTree

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.treeprocessors import Treeprocessor
from markdown.util import AtomicString
from pymdownx.arithmatex import ArithmatexExtension

NAMESPACE = "http://www.w3.org/1998/Math/MathML"


def mathml(formula: str, display: str = "inline") -> ElementTree.Element:
    r"""A formula of LaTeX as an element of MathML. Raises ValueError if it has an unknown command or an open brace.

    >>> ElementTree.tostring(mathml("x_1")).decode()
    '<math display="inline"><mrow><msub><mi>x</mi><mn>1</mn></msub></mrow></math>'
    >>> mathml(r"\sqroot{2}")
    Traceback (most recent call last):
    ValueError: the formula \sqroot{2} has an unknown command: \sqroot
    """
    bare = re.sub(r"\\.", "", formula)  # without escaped braces
    if bare.count("{") != bare.count("}"):
        raise ValueError(f"the formula {formula} has an open brace")
    try:
        element = ElementTree.fromstring(convert(formula, display=display).replace(f' xmlns="{NAMESPACE}"', ""))
    except Exception as error:  # the library has many kinds
        raise ValueError(f"the formula {formula} cannot be converted: {error!r}") from error
    for part in element.iter():
        if (part.text or "").startswith("\\"):
            raise ValueError(f"the formula {formula} has an unknown command: {part.text}")
        if part.text:
            part.text = AtomicString(part.text)  # Markdown leaves it alone
    return element


class Formulas(Treeprocessor):
    """Replaces the text of each formula that the extension below has marked."""

    def run(self, root: ElementTree.Element) -> None:
        """Put MathML into every element of class `arithmatex`."""
        for element in root.iter():
            if element.get("class") == "arithmatex":
                display = "block" if element.tag == "div" else "inline"
                element.append(mathml(html.unescape((element.text or "").strip()), display))
                element.text = None


class FormulaExtension(ArithmatexExtension):
    """Finds formulas as `pymdownx.arithmatex` does, and converts them."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802, the name is that of Markdown
        """Register the parts of both."""
        super().extendMarkdown(md)
        md.treeprocessors.register(Formulas(md), "formulas", 5)  # after inline patterns (20)


def makeExtension(**settings: Any) -> FormulaExtension:  # noqa: N802
    """What Markdown calls to load the extension."""
    plain = {"generic": True, "tex_inline_wrap": ["", ""], "tex_block_wrap": ["", ""]}
    return FormulaExtension(**plain, block_syntax=["dollar"], inline_syntax=["dollar"], **settings)
