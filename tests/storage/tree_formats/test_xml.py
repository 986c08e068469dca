"""XML documents, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from ape_cli.core.errors import DataError
from ape_cli.storage import tree_formats
from tests.storage.tree_formats.reading import Nested, nested, parsed

MATHML = """<?xml version="1.0" encoding="UTF-8"?>
<!-- (a+b)/2 -->
<math xmlns="http://www.w3.org/1998/Math/MathML" xmlns:x="urn:x" display="block" x:id="">
  <mfrac><mrow><mi>a</mi><mo> + </mo><mi>b</mi></mrow><mn>2<!-- two --></mn></mfrac>
  <?a program?>
</math>
"""


def text(words: str) -> Nested:
    return ("#text", words, ())


def element(name: str, *below: Nested) -> Nested:
    return (name, name, below)


def test_mathml_worked_out_by_hand() -> None:
    (tree,) = parsed("xml", MATHML)
    row = element("mrow", element("mi", text("a")), element("mo", text("+")), element("mi", text("b")))
    assert nested(tree) == element(
        "math", ("@display", "block", ()), ("@id", "@id", ()), element("mfrac", row, element("mn", text("2")))
    )
    assert tree.parent == [-1, 0, 0, 0, 3, 4, 5, 4, 7, 4, 9, 3, 11]
    assert tree.ranks() == [0, 0, 1, 2, 0, 0, 0, 1, 0, 2, 0, 1, 0]
    assert [nested(found) for found in parsed("xml", MATHML, "file")] == [nested(tree)]


def test_text_around_what_is_left_out_is_one() -> None:
    assert nested(*parsed("xml", "<a>b<!--c-->d<?e f?> g<h/>\n<i/>j&lt;&#65;<![CDATA[<k>]]></a>")) == element(
        "a", text("bd g"), element("h"), element("i"), text("j<A<k>")
    )


def test_encodings() -> None:
    wanted = element("a", text("é"))
    for content in (
        '<?xml version="1.0" encoding="ISO-8859-1"?><a>é</a>'.encode("latin-1"),
        '<?xml version="1.0" encoding="UTF-16"?><a>é</a>'.encode("utf-16"),
        b"\xef\xbb\xbf<a>\xc3\xa9</a>",
    ):
        assert nested(*parsed("xml", content)) == wanted


def test_nothing_else_is_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret")
    outer = f'<!DOCTYPE a SYSTEM "file://{tmp_path}/a.dtd"><a>x&e;y</a>'
    (tmp_path / "a.dtd").write_text('<!ENTITY e "the secret"><!ATTLIST a b CDATA "the secret">')
    assert nested(*parsed("xml", outer)) == element("a", text("x&e;y"))
    for declared in (f'SYSTEM "file://{secret}"', '"the secret"'):
        with pytest.raises(DataError, match="it declares entities"):
            parsed("xml", f"<!DOCTYPE a [<!ENTITY e {declared}>]><a>&e;</a>")
    included = f'<a xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="file://{secret}" parse="text"/></a>'
    assert "the secret" not in parsed("xml", included)[0].token


def test_a_reference_to_another_file_is_shown_in_text_alone() -> None:
    (tree,) = parsed("xml", '<!DOCTYPE a SYSTEM "a.dtd">\n<a b="&amp;&#65;x&nbsp;y">x&nbsp;y</a>')
    assert nested(tree) == element("a", ("@b", "&Axy", ()), text("x&nbsp;y"))


LAUGHS = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 12))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("", "no valid XML: no element found"),
        ('<?xml version="1.0" encoding="klingon"?><a/>', "no valid XML"),
        ("<a>\n</b>", "line 2: no valid XML: mismatched tag"),
        (f'<!DOCTYPE a [<!ENTITY e0 "lol">{LAUGHS}]><a>&e11;</a>', "it declares entities"),
        ('<!DOCTYPE a SYSTEM "x" [%x; <!ENTITY e "lol">]><a b="&e;"/>', "it declares entities"),
        ("<a>" + "<b/>" * 2_001 + "</a>", "more than 2,000 nodes"),
        (b"<a>\xff</a>", "line 1: no valid XML"),
    ],
)
def test_bad_documents(document: str | bytes, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a thousandth of the nodes that are allowed."""
    monkeypatch.setattr(tree_formats, "_MOST_NODES", 2_000)
    with pytest.raises(DataError, match=message):
        parsed("xml", document)
