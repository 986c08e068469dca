"""What XML and HTML have in common: the encoding of a document, the tree of an element, and the message of a parser."""

from __future__ import annotations

import re
from typing import Any

from ape_cli.core import budget
from ape_cli.storage.tree_formats._format import ParsedTree
from ape_cli.storage.tree_formats._text import decoded

_MARKS = ((b"\xff\xfe\0\0", "utf-32"), (b"\0\0\xfe\xff", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_ADVICE = re.compile(r",? (?:try|use) XML_PARSE_HUGE.*|, line \d+, column \d+.*", re.DOTALL)


def markup_text(content: bytes, declared: re.Pattern[bytes]) -> str:
    """The text of a document. `declared` finds the encoding that it declares; UTF-8 if it declares none.

    Raises `DataError` if it is not text in this encoding, or if it is too large.
    """
    encoding = next((name for mark, name in _MARKS if content.startswith(mark)), None)
    if encoding is None:
        match = declared.search(content, 0, 2**12)
        encoding = match[1].decode("ascii") if match and not content.startswith(b"\xef\xbb\xbf") else "utf-8"
    return decoded(content, encoding, most=budget.DOCUMENT_BYTES)


def reason(message: str) -> str:
    """What a message of the parser says, without the advice to lift its limits, and without the line.

    >>> reason("Resource limit exceeded: Buffer size limit exceeded, try XML_PARSE_HUGE\\n, line 4, column 1")
    'Resource limit exceeded: Buffer size limit exceeded'
    """
    return _ADVICE.sub("", message).strip()


def element_tree(root: Any) -> ParsedTree:
    """The tree of an element of lxml. `xml.py` describes its nodes."""
    from lxml import etree

    tree = ParsedTree()
    stack: list[tuple[int, Any, list[str]]] = []  # node, the children that follow, and the text before the next one

    def begin(element: Any, parent: int) -> None:
        number = tree.add(parent, _local(element.tag))
        for value in element.xpath("@*") if element.attrib else ():  # `items` searches for each attribute
            tree.add(number, f"@{_local(value.attrname)}", str(value))
        stack.append((number, iter(element), [element.text or ""]))

    begin(root, -1)
    while stack:
        number, following, texts = stack[-1]
        child = next(following, None)
        if child is not None and not isinstance(child.tag, str):  # a comment, an instruction, or a reference
            texts += [child.text if child.tag is etree.Entity else "", child.tail or ""]
            continue
        text = " ".join("".join(texts).split())
        texts.clear()
        if text:
            tree.add(number, "#text", text)
        if child is None:
            stack.pop()
        else:
            texts.append(child.tail or "")
            begin(child, number)
    return tree


def _local(name: str) -> str:
    """A name without the address of its namespace.

    >>> _local("{urn:m}mi"), _local("mi")
    ('mi', 'mi')
    """
    return name.rpartition("}")[2]
