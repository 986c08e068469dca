"""XML documents, for example MathML, as trees. It needs the package lxml, `pip install 'ape-cli[lxml]'`.

| node | kind | token |
|---|---|---|
| element | its name without the prefix | the same |
| attribute | `@` and its name without the prefix | its value |
| text | `#text` | the text, in which white space is one space |

Attributes come before the content of their element. Declarations of namespaces, text that is white space, comments and
processing instructions are left out. Nothing else is read: no DTD is loaded, and nothing is fetched.

A document that declares entities or attributes is an error. A document type may name entities in another file, which is
not read: in text, the token shows such a reference as it is written, for example `&nbsp;`, and in an attribute, the
parser leaves it out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar

from ape_cli.storage.tree_formats._format import ParsedTree, TreeFormat, Unit, damaged, decoded, line_at

_ENCODING = re.compile(rb"""\A\s*<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
_DECLARATION = re.compile("<!(?:ENTITY|ATTLIST)")  # entities can multiply, and the parser compares all attributes
_MARKS = ((b"\xff\xfe\0\0", "utf-32"), (b"\0\0\xfe\xff", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_ADVICE = re.compile(r",? (?:try|use) XML_PARSE_HUGE.*|, line \d+, column \d+.*", re.DOTALL)


class XmlFormat(TreeFormat):
    """A file has one document."""

    suffixes: ClassVar[tuple[str, ...]] = (".xml", ".mml", ".xhtml", ".svg")
    units = ("document", "file")
    needs = "lxml"
    most_bytes = 32 * 2**20

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The only document of a file."""
        del unit  # a document is a file
        from lxml import etree

        text = markup_text(content, _ENCODING)
        if declaration := _DECLARATION.search(text):
            raise damaged("it declares entities or attributes", line_at(text, declaration.start()))
        parser = etree.XMLParser(encoding="utf-8", resolve_entities=False, no_network=True, huge_tree=True)
        try:
            root = etree.fromstring(text.encode(), parser)
        except etree.XMLSyntaxError as error:
            raise damaged(f"no valid XML: {reason(error.msg)}", error.lineno) from error
        yield element_tree(root)


def markup_text(content: bytes, declared: re.Pattern[bytes]) -> str:
    """The text of a document. `declared` finds the encoding that it declares; UTF-8 if it declares none.

    Raises `DataError` if it is not text in this encoding.
    """
    encoding = next((name for mark, name in _MARKS if content.startswith(mark)), None)
    if encoding is None:
        match = declared.search(content, 0, 2**12)
        encoding = match[1].decode("ascii") if match and not content.startswith(b"\xef\xbb\xbf") else "utf-8"
    return decoded(content, encoding)


def reason(message: str) -> str:
    """What a message of the parser says, without the advice to lift its limits, and without the line.

    >>> reason("Resource limit exceeded: Buffer size limit exceeded, try XML_PARSE_HUGE\\n, line 4, column 1")
    'Resource limit exceeded: Buffer size limit exceeded'
    """
    return _ADVICE.sub("", message).strip()


def element_tree(root: Any) -> ParsedTree:
    """The tree of an element of lxml."""
    tree = ParsedTree()
    _add(tree, -1, root)
    return tree


def _add(tree: ParsedTree, parent: int, element: Any) -> None:
    """Add an element with its attributes, texts and children."""
    from lxml import etree

    number = tree.add(parent, _local(element.tag))
    for value in element.xpath("@*") if element.attrib else ():  # `items` searches for each attribute
        tree.add(number, f"@{_local(value.attrname)}", str(value))
    texts = [element.text or ""]  # before the next child
    for child in (*element, None):
        if child is not None and not isinstance(child.tag, str):  # a comment, an instruction, or a reference
            texts += [child.text if child.tag is etree.Entity else "", child.tail or ""]
            continue
        if text := " ".join("".join(texts).split()):
            tree.add(number, "#text", text)
        if child is not None:
            _add(tree, number, child)
            texts = [child.tail or ""]


def _local(name: str) -> str:
    """A name without the address of its namespace.

    >>> _local("{urn:m}mi"), _local("mi")
    ('mi', 'mi')
    """
    return name.rpartition("}")[2]
