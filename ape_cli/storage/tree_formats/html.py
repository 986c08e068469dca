"""HTML documents as trees. `xml.py` describes their nodes. It needs the package lxml, `pip install 'ape-cli[lxml]'`.

The parser is that of libxml2. As in a browser, a missing or unexpected tag is no error, `html` and `body` are added if
they are missing, and names of characters such as `&nbsp;` become these characters. The encoding is the one that a
`meta` element in the first 16 KiB declares, else UTF-8. Comments, scripts and values of attributes declare nothing.

Deviation from browsers: text in another encoding, more than 256 elements in each other and texts of more than 10 MB are
errors, and so is a tag with more than 2,000 attributes, because the parser compares each with those before. What looks
like such a tag in a script or a comment is one too. Nothing is fetched, and scripts are not executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ape_cli.storage.tree_formats import ParsedTree, Unit, damaged, line_at
from ape_cli.storage.tree_formats.xml import MarkupTree, XmlFormat, markup_text

_HEAD = 2**14  # bytes in which the encoding is declared
_ATTRIBUTE = r"""[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]*+))?+"""
_MANY = re.compile(rf"<[a-z][^\s/>]*+(?:[\s/]++{_ATTRIBUTE}){{2001}}", re.IGNORECASE)
_ADVICE = re.compile(r",? (?:try|use) XML_PARSE_HUGE.*|, line \d+, column \d+.*", re.DOTALL)


class HtmlFormat(XmlFormat):
    """A file has one document."""

    suffixes = (".html", ".htm")
    needs = "lxml"

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The only document of a file."""
        del unit  # a document is a file
        from lxml import etree

        text = markup_text(content, _declared(content))
        if many := _MANY.search(text):
            raise damaged("an element has more than 2,000 attributes", line_at(text, many.start()))
        parser = etree.HTMLParser(encoding="utf-8", no_network=True, huge_tree=False)
        try:
            root = etree.fromstring(text.encode(), parser)
        except etree.XMLSyntaxError as error:
            raise damaged(f"no valid HTML: {_reason(error.msg)}") from error
        # beyond its limits, the parser leaves out the rest of the document without an exception
        failed = next((entry for entry in parser.error_log if entry.level_name == "FATAL"), None)
        if failed is not None:
            raise damaged(f"no valid HTML: {_reason(failed.message)}", failed.line)
        if root is None:
            raise damaged("no valid HTML: the document is empty")
        nodes = MarkupTree()
        for event, each in etree.iterwalk(root, ("start", "end", "comment", "pi")):
            if event == "start":
                values = each.xpath("@*") if each.attrib else ()  # `items` searches for each attribute
                nodes.start(each.tag, {value.attrname: str(value) for value in values})
            elif event == "end":
                nodes.end(each.tag)
            nodes.data((each.text if event == "start" else each.tail) or "")
        yield nodes.tree


def _declared(content: bytes) -> str | None:
    """The encoding in the first `meta` element that declares one; None if there is none."""
    from lxml import etree

    parser = etree.HTMLPullParser(events=("start",), tag="meta", encoding="iso-8859-1")
    parser.feed(content[:_HEAD])
    for _, meta in parser.read_events():
        is_type = meta.get("http-equiv", "").lower() == "content-type"
        after = meta.get("content", "").lower().partition("charset")[2] if is_type else ""
        name = meta.get("charset", "").strip() or after.lstrip(" =").partition(";")[0].strip("\"' ")
        if name:
            return str(name)
    return None


def _reason(message: str) -> str:
    """What a message of the parser says, without the advice to lift its limits, and without the line.

    >>> _reason("Resource limit exceeded: Buffer size limit exceeded, try XML_PARSE_HUGE\\n, line 4, column 1")
    'Resource limit exceeded: Buffer size limit exceeded'
    """
    return _ADVICE.sub("", message).strip()
