"""HTML documents as trees. `xml.py` describes their nodes. It needs the package lxml, `pip install 'ape-cli[lxml]'`.

The parser is that of libxml2. As in a browser, a missing or unexpected tag is no error, `html` and `body` are added if
they are missing, and names of characters such as `&nbsp;` become these characters. The encoding is the one that the
document declares, else UTF-8.

Deviation from browsers: text in another encoding, more than 256 elements in each other and texts of more than 10 MB are
errors, and so is an element with thousands of attributes, because the parser compares each with those before. Nothing
is fetched, and scripts are not executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar

from ape_cli.core import budget
from ape_cli.storage.tree_formats._format import ParsedTree, TreeFormat, Unit
from ape_cli.storage.tree_formats._markup import markup_text, too_many_attributes
from ape_cli.storage.tree_formats._text import damaged

_DECLARED = re.compile(rb"""<meta\s[^>]*?charset\s*=\s*["']?\s*([A-Za-z0-9._-]{1,40})""", re.IGNORECASE)
_COST = re.compile(r"<|\s++")  # an attribute needs no value
_ATTRIBUTE = r"""[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]*+))?+"""
_ATTRIBUTES = re.compile(_ATTRIBUTE)
# Comments, elements whose content has no tags, and other tags, as the HTML standard divides a document into tokens
_TAG = re.compile(
    rf"""<!--(?:-?>|.*?(?:--!?>|\Z))
    |<(?P<raw>script|style|xmp|iframe|noembed|noframes|textarea|title)(?=[\s/>])(?P<of_raw>(?:[\s/]|{_ATTRIBUTE})*+)
     .*?(?:(?=</(?P=raw)[\s/>])|\Z)
    |<[a-z][^\s/>]*+(?P<own>(?:[\s/]|{_ATTRIBUTE})*+)""",
    re.DOTALL | re.IGNORECASE | re.VERBOSE,
)
_ADVICE = re.compile(r",? (?:try|use) XML_PARSE_HUGE.*", re.DOTALL)
_AT_ONCE = 2**16  # bytes that are parsed at once; signals are handled after them


class HtmlFormat(TreeFormat):
    """A file has one document."""

    suffixes: ClassVar[tuple[str, ...]] = (".html", ".htm")
    units: ClassVar[tuple[Unit, ...]] = ("document", "file")
    needs: ClassVar[str | None] = "lxml"
    extra: ClassVar[str | None] = "lxml"

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The only document of a file."""
        del unit  # a document is a file
        from lxml import etree

        text = markup_text(content, _DECLARED, _COST)
        _check_tags(text)
        parser = etree.HTMLParser(encoding="utf-8", no_network=True, huge_tree=False)
        content = text.encode()
        try:
            for start in range(0, len(content), _AT_ONCE):
                parser.feed(content[start : start + _AT_ONCE])
            root = parser.close()
        except etree.XMLSyntaxError as error:
            raise damaged(f"no valid HTML: {_reason(error.msg)}") from error
        # beyond its limits, the parser leaves out the rest of the document without an exception
        failed = next((entry for entry in parser.feed_error_log if entry.level_name == "FATAL"), None)
        if failed is not None:
            raise damaged(f"no valid HTML: {_reason(failed.message)}", failed.line)
        if root is None:
            raise damaged("no valid HTML: the document is empty")
        yield _tree(root)


def _check_tags(text: str) -> None:
    """Check that no tag has too many attributes. Raises `DataError`."""
    for tag in _TAG.finditer(text):
        attributes = tag["own"] or tag["of_raw"] or ""
        if len(attributes) > budget.MARKUP_ATTRIBUTES:  # an attribute has at least one character
            count = sum(1 for _ in _ATTRIBUTES.finditer(attributes))
            if count > budget.MARKUP_ATTRIBUTES:
                raise too_many_attributes("has an element with too many attributes", count, budget.MARKUP_ATTRIBUTES)


def _reason(message: str) -> str:
    """What a message of the parser says, without the advice to lift its limits.

    >>> _reason("Resource limit exceeded: Buffer size limit exceeded, try XML_PARSE_HUGE\\n, line 4, column 1")
    'Resource limit exceeded: Buffer size limit exceeded'
    """
    return _ADVICE.sub("", message).strip()


def _tree(root: Any) -> ParsedTree:
    """The tree of an element. `root` is an element of lxml.

    Text between two tags is one node, also around comments and processing instructions, which are left out.
    """
    tree = ParsedTree()
    stack: list[tuple[int, Any, list[str]]] = []  # node, the children that follow, and the text before the next one

    def begin(element: Any, parent: int) -> None:
        number = tree.add(parent, element.tag)
        for value in element.xpath("@*") if element.attrib else ():  # `items` searches for each attribute
            tree.add(number, f"@{value.attrname}", str(value) or None)
        stack.append((number, iter(element), [element.text or ""]))

    begin(root, -1)
    while stack:
        number, following, texts = stack[-1]
        child = next(following, None)
        if child is not None and not isinstance(child.tag, str):
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
