"""The tree of a document that lxml has parsed: elements, attributes and text. `xml.py` describes it."""

from __future__ import annotations

import re
from typing import Any

from ape_cli.core import budget
from ape_cli.core.errors import DataError
from ape_cli.storage.tree_formats._format import ParsedTree
from ape_cli.storage.tree_formats._text import decoded

_MARKS = ((b"\xff\xfe\0\0", "utf-32"), (b"\0\0\xfe\xff", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))

_ADVICE = re.compile(r",? (?:try|use) XML_PARSE_HUGE.*", re.DOTALL)


def markup_text(content: bytes, declared: re.Pattern[bytes], cost: re.Pattern[str]) -> str:
    """The text of a document. `declared` finds the encoding that it declares; UTF-8 if it declares none.

    Raises `DataError` if it is not text in this encoding, or if it is too large for the memory of a parser: each match
    of `cost` may begin an element or an attribute.
    """
    encoding = next((name for mark, name in _MARKS if content.startswith(mark)), None)
    if encoding is None:
        found = declared.search(content, 0, 2**12)
        encoding = found[1].decode("ascii") if found and not content.startswith(b"\xef\xbb\xbf") else "utf-8"
    text = decoded(content, encoding)
    if len(text) > budget.TREE_SIZE:  # an element or an attribute has at least one character
        parts = sum(1 for _ in cost.finditer(text))
        if parts > budget.TREE_SIZE:
            got, allowed = f"up to {parts:,} elements and attributes", f"{budget.TREE_SIZE:,}"
            raise DataError("the document is too large", got=got, allowed=allowed, fix="split the file")
    return text


def reason(message: str) -> str:
    """What a message of the parser says, without the advice to lift its limits.

    >>> reason("Resource limit exceeded: Buffer size limit exceeded, try XML_PARSE_HUGE\\n, line 4, column 1")
    'Resource limit exceeded: Buffer size limit exceeded'
    """
    return _ADVICE.sub("", message).strip()


def markup_tree(root: Any) -> ParsedTree:
    """The tree of an element. `root` is an element of lxml.

    Text between two tags is one node, also around comments and processing instructions, which are left out.
    """
    from lxml import etree

    tree = ParsedTree()
    stack: list[tuple[int, Any, list[str]]] = []  # node, the children that follow, and the text before the next one

    def begin(element: Any, parent: int) -> None:
        number = tree.add(parent, _local(element.tag))
        for name, value in element.attrib.items():
            tree.add(number, f"@{_local(name)}", value or None)
        stack.append((number, iter(element), [element.text or ""]))

    begin(root, -1)
    while stack:
        number, following, texts = stack[-1]
        child = next(following, None)
        if child is not None and not isinstance(child.tag, str):
            if child.tag is etree.Entity:
                texts.append(child.text)  # the reference itself, for example `&nbsp;`
            texts.append(child.tail or "")
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

    >>> _local("{http://www.w3.org/1998/Math/MathML}mi"), _local("mi")
    ('mi', 'mi')
    """
    return name.rpartition("}")[2]
