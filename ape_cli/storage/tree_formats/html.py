"""HTML documents as trees. `xml.py` describes their nodes. It needs the package lxml, `pip install 'ape-cli[lxml]'`.

The parser is that of libxml2. As in a browser, a missing or unexpected tag is no error, `html` and `body` are added if
they are missing, and names of characters such as `&nbsp;` become these characters. The encoding is the one that the
document declares, else UTF-8.

Deviation from browsers: text in another encoding, more than 256 elements in each other and texts of more than 10 MB are
errors, and so is a tag with more than 2,000 attributes, because the parser compares each with those before. What looks
like such a tag in a script or a comment is one too. Nothing is fetched, and scripts are not executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ape_cli.storage.tree_formats._format import ParsedTree, Unit, damaged, line_at
from ape_cli.storage.tree_formats.xml import XmlFormat, element_tree, markup_text, reason

_ENCODING = re.compile(rb"""<meta\s[^>]*?charset\s*=\s*["']?\s*([A-Za-z0-9._-]{1,40})""", re.IGNORECASE)
_ATTRIBUTE = r"""[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]*+))?+"""
_MANY = re.compile(rf"<[a-z][^\s/>]*+(?:[\s/]++{_ATTRIBUTE}){{2001}}", re.IGNORECASE)


class HtmlFormat(XmlFormat):
    """A file has one document."""

    suffixes = (".html", ".htm")

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The only document of a file."""
        del unit  # a document is a file
        from lxml import etree

        text = markup_text(content, _ENCODING)
        if many := _MANY.search(text):
            raise damaged("an element has more than 2,000 attributes", line_at(text, many.start()))
        parser = etree.HTMLParser(encoding="utf-8", no_network=True, huge_tree=False)
        try:
            root = etree.fromstring(text.encode(), parser)
        except etree.XMLSyntaxError as error:
            raise damaged(f"no valid HTML: {reason(error.msg)}") from error
        # beyond its limits, the parser leaves out the rest of the document without an exception
        failed = next((entry for entry in parser.error_log if entry.level_name == "FATAL"), None)
        if failed is not None:
            raise damaged(f"no valid HTML: {reason(failed.message)}", failed.line)
        if root is None:
            raise damaged("no valid HTML: the document is empty")
        yield element_tree(root)
