"""XML documents, for example MathML, as trees.

| node | kind | token |
|---|---|---|
| element | its name without the prefix | the same |
| attribute | `@` and its name without the prefix | its value |
| text | `#text` | the text, in which white space is one space |

Attributes come before the content of their element. Declarations of namespaces, text that is only white space, comments
and processing instructions are left out. Nothing else is read: no DTD is loaded, and nothing is fetched. No entity is
expanded: a document that declares entities is an error, and so is a reference to an unknown entity in an attribute. In
text, the token shows such a reference as it is written, for example `&nbsp;`.

The parser is Expat, which comes with Python. It takes names of XML 1.0 up to its fourth edition. Prefixes need not be
declared. It needs time in proportion to the document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar
from xml.parsers import expat

from ape_cli.core import budget
from ape_cli.storage.tree_formats._format import ParsedTree, TreeFormat, Unit
from ape_cli.storage.tree_formats._markup import markup_text, too_many_attributes
from ape_cli.storage.tree_formats._text import damaged

_DECLARED = re.compile(rb"""\A\s*<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
_COST = re.compile(r"[<=]")
_KNOWN = rb"&(?:amp|lt|gt|quot|apos|#[0-9a-fA-Fx]++);"
_KNOWN_TAG = re.compile(rb"""<(?:[^"'>]|"(?:[^"&]|%b)*+"|'(?:[^'&]|%b)*+')*+>""" % (_KNOWN, _KNOWN))


class XmlFormat(TreeFormat):
    """A file has one document."""

    suffixes: ClassVar[tuple[str, ...]] = (".xml", ".mml", ".xhtml", ".svg")
    units: ClassVar[tuple[Unit, ...]] = ("document", "file")

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The only document of a file."""
        del unit  # a document is a file
        yield _Document(markup_text(content, _DECLARED, _COST).encode()).tree


class _Document:
    """The tree of a document. Its other methods are called by the parser."""

    def __init__(self, content: bytes) -> None:
        """Parse a document in UTF-8. Raises `DataError` if it is damaged, or declares entities."""
        self.tree = ParsedTree()
        self.content = content
        self.open: list[int] = []  # the elements whose end is not reached
        self.texts: list[str] = []  # since the last tag
        self.attributes = 0  # that the document declares
        self.has_dtd = False  # whether it names a DTD, so that a reference to an unknown entity is not an error
        parser = self.parser = expat.ParserCreate("utf-8")
        parser.buffer_text = parser.ordered_attributes = parser.specified_attributes = True
        # Otherwise, references to parameter entities are not reported. Nothing is loaded, because no handler loads it.
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_ALWAYS)
        parser.StartDoctypeDeclHandler = self.doctype
        parser.AttlistDeclHandler = self.declare_attribute
        parser.EntityDeclHandler = self.declare_entity
        parser.StartElementHandler = self.begin
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.texts.append
        parser.SkippedEntityHandler = self.skip
        try:
            parser.Parse(content, True)
        except expat.ExpatError as error:
            raise damaged(f"no valid XML: {expat.ErrorString(error.code)}", error.lineno) from error
        finally:
            del self.parser, parser  # its handlers refer to this object

    def doctype(self, name: str, system: str | None, public: str | None, internal: bool) -> None:
        self.has_dtd = system is not None

    def declare_attribute(self, *words: object) -> None:
        self.attributes += 1
        if self.attributes > budget.DECLARED_ATTRIBUTES:  # Expat looks at each of them for each element
            raise too_many_attributes("declares too many attributes", self.attributes, budget.DECLARED_ATTRIBUTES)

    def declare_entity(self, *words: object) -> None:
        raise damaged("it declares entities, which are not expanded", self.parser.CurrentLineNumber)

    def begin(self, name: str, attributes: list[str]) -> None:
        # Expat leaves out such a reference in an attribute
        if self.has_dtd and attributes and not _KNOWN_TAG.match(self.content, self.parser.CurrentByteIndex):
            what = "an attribute has a reference to an entity, which is not expanded"
            raise damaged(what, self.parser.CurrentLineNumber)
        self.add_text()
        number = self.tree.add(self.open[-1] if self.open else -1, _local(name))
        for i in range(0, len(attributes), 2):
            if attributes[i] != "xmlns" and not attributes[i].startswith("xmlns:"):
                self.tree.add(number, f"@{_local(attributes[i])}", attributes[i + 1] or None)
        self.open.append(number)

    def end(self, name: str) -> None:
        self.add_text()
        self.open.pop()

    def skip(self, name: str, of_dtd: bool) -> None:
        if of_dtd:  # what is declared after it would not be reported
            raise damaged("it refers to a parameter entity, which is not expanded", self.parser.CurrentLineNumber)
        self.texts.append(f"&{name};")

    def add_text(self) -> None:
        """Add the text since the last tag, if there is any."""
        text = " ".join("".join(self.texts).split())
        self.texts.clear()
        if text:
            self.tree.add(self.open[-1], "#text", text)


def _local(name: str) -> str:
    """A name without the prefix that stands for its namespace.

    >>> _local("m:mi"), _local("mi")
    ('mi', 'mi')
    """
    return name.rpartition(":")[2]
