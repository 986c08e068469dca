"""HTML documents as trees. `xml.py` describes their nodes. It needs the extra `lxml`.

The parser is that of libxml2. As in a browser, a missing or unexpected tag is no error, `html` and `body` are added if
they are missing, and names of characters such as `&nbsp;` become these characters. The encoding is the one that the
first `meta` tag with a `charset` in the first 16 KiB declares, else UTF-8.

Deviation from browsers: text in another encoding, more than 256 elements in each other and texts of more than 10 MB are
errors. Nothing is fetched, and scripts are not executed.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from ape_cli.storage.tree_formats import ParsedTree, Unit, damaged, decoded
from ape_cli.storage.tree_formats.xml import MarkupTree, XmlFormat

_CHARSET = re.compile(rb"""<meta\s[^>]*charset\s*=\s*["']?\s*([A-Za-z0-9._-]{1,40})""", re.IGNORECASE)


class HtmlFormat(XmlFormat):
    """A file has one document."""

    suffixes = (".html", ".htm")
    needs = "lxml"

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The only document of a file."""
        del unit  # a document is a file
        from lxml import etree

        text = decoded(content, _encoding(content))
        parser = etree.HTMLParser(encoding="utf-8", no_network=True, huge_tree=False)
        try:
            root = etree.fromstring(text.encode(), parser)
        except etree.XMLSyntaxError as error:
            raise damaged(f"no valid HTML: {error.msg}") from error
        # beyond its limits, the parser leaves out the rest of the document without an exception
        failed = next((entry for entry in parser.error_log if entry.level_name == "FATAL"), None)
        if failed is not None:
            raise damaged(f"no valid HTML: {failed.message}", failed.line)
        if root is None:
            raise damaged("no valid HTML: the document is empty")
        nodes = MarkupTree()
        for event, element in etree.iterwalk(root, ("start", "end", "comment", "pi")):
            if event == "start":
                values = element.xpath("@*") if element.attrib else ()  # `items` searches for each attribute
                nodes.start(element.tag, {value.attrname: str(value) for value in values})
            elif event == "end":
                nodes.end(element.tag)
            nodes.data((element.text if event == "start" else element.tail) or "")
        yield nodes.tree


def _encoding(content: bytes) -> str:
    """The encoding that the first 16 KiB declare, else UTF-8.

    >>> _encoding(b"<meta charset=latin-1>"), _encoding(b"<p>")
    ('latin-1', 'utf-8')
    """
    declared = None if content.startswith(codecs.BOM_UTF8) else _CHARSET.search(content, 0, 2**14)
    encoding = declared[1].decode() if declared else "utf-8"
    return "utf-8" if encoding.lower().startswith(("utf-16", "utf-32")) else encoding  # it could not be read
