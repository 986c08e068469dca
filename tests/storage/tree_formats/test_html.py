"""HTML documents, against Python's own parser."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from ape_cli.core.errors import DataError
from ape_cli.storage import tree_formats
from tests.storage.tree_formats.reading import Nested, depths, nested, parsed
from tests.storage.tree_formats.test_xml import element, text

PAGE = """<!DOCTYPE html>
<html lang="en">
<head><title>A &amp; B</title><meta charset="utf-8"></head>
<body class="x y"><!-- a comment -->
<p id="1">Some <b>bold</b> text&nbsp;here.</p>
<ul><li>one</li><li>two<br>lines</li></ul>
<script>if (a < b) { c("<p>"); }</script>
</body></html>
"""


class Reference(HTMLParser):
    """Lists (depth, kind, token) of a page that has all its closing tags, except for those of `meta` and `br`."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[int, str, str]] = []
        self.depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((self.depth, tag, tag))
        self.found += [(self.depth + 1, f"@{name}", value or f"@{name}") for name, value in attrs]
        self.depth += tag not in ("meta", "br")

    def handle_endtag(self, tag: str) -> None:
        self.depth -= 1

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.found.append((self.depth, "#text", " ".join(data.split())))


def test_a_page_against_another_parser() -> None:
    reference = Reference()
    reference.feed(PAGE)
    (tree,) = parsed("html", PAGE)
    assert len(reference.found) == 24
    assert depths(tree) == reference.found


@pytest.mark.parametrize(
    ("document", "below"),
    [
        ("<p>a<p>b", (element("p", text("a")), element("p", text("b")))),
        ("<div a b=1></div></span>", (element("div", ("@a", "@a", ()), ("@b", "1", ())),)),
        ("<div>a<!-- -->b&foo;</div>", (element("div", text("ab&foo;")),)),
    ],
)
def test_what_a_browser_would_repair(document: str, below: tuple[Nested, ...]) -> None:
    assert nested(*parsed("html", document)) == element("html", element("body", *below))


def test_attributes_are_in_order() -> None:
    (tree,) = parsed("html", "<p " + "".join(f'a{i}="{i}"' for i in range(100)) + " data-x b:c>")
    assert tree.token[3:] == [*map(str, range(100)), "@data-x", "@b:c"]


@pytest.mark.parametrize(
    ("declared", "encoding"),
    [
        ('<meta charset="latin-1">', "latin-1"),
        ("<META\nname=x CHARSET = latin-1 />", "latin-1"),
        ('<meta content="text/html; charset=latin-1" http-equiv="Content-Type">', "latin-1"),
        ("", "utf-8"),
        ('<meta charset="utf-16">', "utf-8"),  # the declaration itself contradicts it
    ],
)
def test_a_declared_encoding(declared: str, encoding: str) -> None:
    (tree,) = parsed("html", declared.encode() + "<p>é</p>".encode(encoding))
    assert tree.token[-1] == "é"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("", "the document is empty|no valid HTML"),
        ("<div>" * 300 + "x" + "</div>" * 300 + "y", "no valid HTML: Excessive depth"),
        ("<p>" + "x" * (11 * 2**20) + "<p>y", "no valid HTML: "),
        ("<p>" + "<br>" * 2_001, "more than 2,000 nodes"),
        (b"<p>\xff</p>", "line 1: it is not text in the encoding utf-8"),
    ],
)
def test_bad_documents(document: str | bytes, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a thousandth of the nodes that are allowed."""
    monkeypatch.setattr(tree_formats, "_MOST_NODES", 2_000)
    with pytest.raises(DataError, match=message):
        parsed("html", document)
