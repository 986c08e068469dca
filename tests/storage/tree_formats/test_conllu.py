"""Dependency trees of CoNLL-U."""

from __future__ import annotations

import pytest

from ape_cli.core.errors import DataError
from tests.storage.tree_formats.reading import Nested, nested, parsed

TEXT = """\
# newdoc id = one
# sent_id = 1
# text = They don't buy books
1\tThey\tthey\tPRON\tPRP\tCase=Nom|Number=Plur\t4\tnsubj\t4:nsubj\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t4\tadvmod\t_\t_
4\tbuy\tbuy\tVERB\tVB\t_\t0\troot\t_\t_
5\tbooks\tbook\tNOUN\tNNS\t_\t4\tobj\t_\tSpaceAfter=No
5.1\tbuy\tbuy\t_\t_\t_\t_\t_\t4:conj\t_

# sent_id = 2
1\tNew\tnew\t_\t_\t_\t2\tamod\t_\t_
2\tYork\tYork\t_\t_\t_\t0\troot\t_\t_

# newdoc
1\t_\t_\t_\t_\t_\t0\troot\t_\t_
"""


def word(relation: str, form: str, *below: Nested) -> Nested:
    return (relation, form, below)


FIRST = word(
    "root", "buy", word("nsubj", "They"), word("aux", "do"), word("advmod", "n't"), word("obj", "books")
)  # in the order of the sentence, without 2-3 and 5.1
SECOND = word("root", "York", word("amod", "New"))
THIRD = word("root", "_")


@pytest.mark.parametrize("text", [TEXT, TEXT.replace("\n", "\r\n"), TEXT.rstrip()])
def test_sentences(text: str) -> None:
    trees = parsed("conllu", text)
    assert [nested(tree) for tree in trees] == [FIRST, SECOND, THIRD]
    assert [tree.document for tree in trees] == [0, 0, 1]


def test_documents() -> None:
    trees = parsed("conllu", TEXT, "document")
    assert [nested(tree) for tree in trees] == [
        ("document", "document", (FIRST, SECOND)),
        ("document", "document", (THIRD,)),
    ]
    assert [tree.document for tree in trees] == [0, 1]
    (file,) = parsed("conllu", TEXT, "file")
    assert nested(file) == ("file", "file", tuple(nested(tree) for tree in trees))


def test_sentences_before_the_first_document_are_one() -> None:
    one = "1\ta\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
    text = one + one + "# newdoc\n" + one + "#newdoc id = 3\n" + one + "# newdocs = no\n" + one
    assert [tree.document for tree in parsed("conllu", text)] == [0, 0, 1, 2, 2]


def rows(*heads: object) -> str:
    return "".join(f"{n}\tw\t_\t_\t_\t_\t{head}\tr\t_\t_\n" for n, head in enumerate(heads, 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (rows(0) + "\n" + rows(2, 1), "sentence 2: .*do not form a tree with one root"),
        (rows(0, 0), "do not form a tree with one root"),
        (rows(0, "x"), "not valid CoNLL-U"),
        (rows(0).replace("\tr\t", "\t_\t"), "word 1 lacks a valid number, head or relation"),
        (b"\n1\t\xff", "line 2: it is not text"),
    ],
)
def test_bad_sentences(text: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parsed("conllu", text)
