"""XML documents, for example MathML, as trees. It needs the package lxml, `pip install 'ape-cli[lxml]'`.

| node | kind | token |
|---|---|---|
| element | its name without the prefix | the same |
| attribute | `@` and its name without the prefix | its value |
| text | `#text` | the text, in which white space is one space |

Attributes come before the content of their element. Declarations of namespaces, text that is white space, comments and
processing instructions are left out. Nothing else is read: no DTD is loaded, and nothing is fetched.

A document that declares entities or attributes is an error, and so is a reference to an unknown entity in an attribute.
In text, the token shows such a reference as it is written, for example `&nbsp;`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from ape_cli.storage.tree_formats._format import ParsedTree, TreeFormat, Unit
from ape_cli.storage.tree_formats._markup import element_tree, markup_text, reason
from ape_cli.storage.tree_formats._text import damaged, line_at

_ENCODING = re.compile(rb"""\A\s*<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
_DECLARATION = re.compile("<!(?:ENTITY|ATTLIST)")  # entities can multiply, and the parser compares all attributes
_KNOWN = "&(?:amp|lt|gt|quot|apos|#[0-9a-fA-Fx]++);"
_LOST = re.compile(rf"""=\s*+(?:"(?:[^"<&]|{_KNOWN})*+&|'(?:[^'<&]|{_KNOWN})*+&)""")


class XmlFormat(TreeFormat):
    """A file has one document."""

    suffixes: ClassVar[tuple[str, ...]] = (".xml", ".mml", ".xhtml", ".svg")
    units: ClassVar[tuple[Unit, ...]] = ("document", "file")
    needs: ClassVar[str | None] = "lxml"
    extra: ClassVar[str | None] = "lxml"

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The only document of a file."""
        del unit  # a document is a file
        from lxml import etree

        text = markup_text(content, _ENCODING)
        if declaration := _DECLARATION.search(text):
            raise damaged(
                "it declares entities or attributes, which is not supported", line_at(text, declaration.start())
            )
        if "<!DOCTYPE" in text and (lost := _LOST.search(text)):  # the parser would leave it out
            raise damaged("an attribute has a reference to an unknown entity", line_at(text, lost.start()))
        parser = etree.XMLParser(encoding="utf-8", resolve_entities=False, no_network=True, huge_tree=True)
        try:
            root = etree.fromstring(text.encode(), parser)
        except etree.XMLSyntaxError as error:
            raise damaged(f"no valid XML: {reason(error.msg)}", error.lineno) from error
        yield element_tree(root)
