"""XML documents, for example MathML, as trees.

| node | kind | token |
|---|---|---|
| element | its name without the prefix | the same |
| attribute | `@` and its name without the prefix | its value |
| text | `#text` | the text, in which white space is one space |

Attributes come before the content of their element. Declarations of namespaces, text that is white space, comments and
processing instructions are left out. The parser is expat, from Python's standard library. Nothing else is read: no DTD
is loaded, and nothing is fetched.

A document that declares entities or attributes, or refers to parameter entities, is an error. A document type may name
entities in another file, which is not read: in text, the token shows such a reference as it is written, for example
`&nbsp;`, and in an attribute, it is left out.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NoReturn
from xml.parsers import expat

from ape_cli.storage.tree_formats import ParsedTree, TreeFormat, Unit, damaged


class XmlFormat(TreeFormat):
    """A file has one document."""

    declares_encoding = True
    suffixes: ClassVar[tuple[str, ...]] = (".xml", ".mml", ".xhtml", ".svg")
    units = ("document", "file")
    most_bytes = 32 * 2**20

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The only document of a file."""
        del unit  # a document is a file
        # what a text after a byte order mark declares does not count
        encoding = "utf-8" if content.startswith(codecs.BOM_UTF8) else None
        nodes, parser = MarkupTree(), expat.ParserCreate(encoding, "}")

        def refuse(*_: Any) -> NoReturn:
            """Entities can multiply, and what a parameter entity stands for may declare some."""
            raise damaged("it declares entities or attributes", parser.CurrentLineNumber)

        parser.EntityDeclHandler = parser.AttlistDeclHandler = refuse
        parser.SkippedEntityHandler = lambda name, parameter: refuse() if parameter else nodes.data(f"&{name};")
        # so that they are not passed over
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_UNLESS_STANDALONE)
        parser.StartElementHandler, parser.EndElementHandler = nodes.start, nodes.end
        parser.CharacterDataHandler = nodes.data
        try:
            parser.Parse(content, True)
        except (expat.ExpatError, LookupError, ValueError) as error:  # a LookupError or ValueError: of its encoding
            raise damaged(f"no valid XML: {error}", getattr(error, "lineno", None)) from error
        yield nodes.tree


class MarkupTree:
    """Builds a tree from what a parser of XML or HTML finds, in the order of the document."""

    def __init__(self) -> None:
        """Begin without a node."""
        self.tree = ParsedTree()
        self._open = [-1]  # the elements that are not closed, with what is above the root
        self._texts: list[str] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Add an element with its attributes, and the text before it."""
        self._add_text()
        number = self.tree.add(self._open[-1], _local(tag))
        for name, value in attributes.items():
            self.tree.add(number, f"@{_local(name)}", value)
        self._open.append(number)

    def end(self, tag: str) -> None:
        """Close an element."""
        self._add_text()
        self._open.pop()

    def data(self, text: str) -> None:
        """Keep a part of a text, which what is left out does not end."""
        self._texts.append(text)

    def _add_text(self) -> None:
        """Add the text before a tag if it is not white space."""
        if text := " ".join("".join(self._texts).split()):
            self.tree.add(self._open[-1], "#text", text)
        self._texts.clear()


def _local(name: str) -> str:
    """A name without the address of its namespace.

    >>> _local("urn:m}mi"), _local("mi")
    ('mi', 'mi')
    """
    return name.rpartition("}")[2]
