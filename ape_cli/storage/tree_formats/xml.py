"""XML documents, for example MathML, as trees. It needs the package lxml, `pip install 'ape-cli[lxml]'`.

| node | kind | token |
|---|---|---|
| element | its name without the namespace | the same |
| attribute | `@` and its name without the namespace | its value |
| text | `#text` | the text, in which white space is one space |

Attributes come before the content of their element. Text that is only white space, comments and processing
instructions are left out. Nothing else is read: no DTD is loaded, and nothing is fetched. No entity is expanded: a
document that declares entities is an error, and so is a reference to an unknown entity in an attribute. In text, the
token shows such a reference as it is written, for example `&nbsp;`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from ape_cli.storage.tree_formats._format import ParsedTree, TreeFormat, Unit
from ape_cli.storage.tree_formats._markup import markup_text, markup_tree, reason
from ape_cli.storage.tree_formats._text import damaged, line_at

_DECLARED = re.compile(rb"""\A\s*<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
_COST = re.compile(r"[<=]")
_REFERENCE = r"&(?!(?:amp|lt|gt|quot|apos|#[0-9a-fA-FxX]++);)"
_IN_ATTRIBUTE = re.compile(rf"""=\s*+(?:"[^"<&]*+(?:&[^"<&]*+)*?{_REFERENCE}|'[^'<&]*+(?:&[^'<&]*+)*?{_REFERENCE})""")


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

        text = markup_text(content, _DECLARED, _COST)
        parser = etree.XMLParser(
            encoding="utf-8", resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False, recover=False
        )
        try:
            root = etree.fromstring(text.encode(), parser)
        except etree.XMLSyntaxError as error:
            raise damaged(f"no valid XML: {reason(error.msg)}") from error
        dtd = root.getroottree().docinfo.internalDTD
        if dtd is not None and any(True for _ in dtd.iterentities()):
            raise damaged("it declares entities, which are not expanded")
        # lxml gives an attribute without the reference, and warns only
        unknown = any(entry.type_name == "WAR_UNDECLARED_ENTITY" for entry in parser.error_log)
        if unknown and (found := _IN_ATTRIBUTE.search(text)):
            line = line_at(text, found.end())
            raise damaged("an attribute has a reference to an entity, which is not expanded", line)
        yield markup_tree(root)
