"""CoNLL-U: dependency trees of Universal Dependencies. It needs the extra `conllu`.

A word is a node below its head, and the word whose head is 0 is the root. The kind is the relation (`deprel`), and the
token is the form. The dependents of a word are in the order of the sentence. Ranges of multiword tokens (`1-2`) and
empty nodes (`1.1`) are left out. A comment `# newdoc` begins a document.

Source: https://universaldependencies.org/format.html
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from ape_cli.core.errors import DataError
from ape_cli.storage.tree_formats import ParsedTree, TreeFormat, Unit, damaged, decoded, join_trees


class ConlluFormat(TreeFormat):
    """Sentences and documents."""

    suffixes = (".conllu",)
    units = ("sentence", "document", "file")
    needs = "conllu"

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The sentences of a file; or its documents, which are nodes `document` above their sentences; or all of them.

        The root of a whole file is a node `file` above its documents.
        """
        sentences = _sentences(content)
        if unit == "sentence":
            return sentences
        groups = groupby(sentences, lambda tree: tree.document)
        documents = (join_trees("document", group, number) for number, group in groups)
        return documents if unit == "document" else iter([join_trees("file", documents)])


def _sentences(content: bytes) -> Iterator[ParsedTree]:
    """The trees of the sentences of a file. Raises `DataError` with the sentence that is not valid."""
    from conllu import exceptions, parse_incr, parser

    names = parser.DEFAULT_FIELDS
    fields = {field: lambda columns, at: columns[at] for field in names}  # the texts of the columns that are not read
    fields |= {field: parser.DEFAULT_FIELD_PARSERS[field] for field in ("id", "head")}
    document = number = 0
    try:
        for sentence in parse_incr(io.StringIO(decoded(content)), names, fields):
            document += number > 0 and any(comment.split()[0] == "newdoc" for comment in sentence.metadata)
            if sentence:
                tree = _tree(sentence, document)
                number += 1
                yield tree
    except (exceptions.ParseException, ValueError) as error:  # a ValueError: too many digits, or no tree
        if isinstance(error, DataError):
            raise
        raise damaged(f"sentence {number + 1:,}: not valid CoNLL-U: {str(error)[:200]}") from error


def _tree(sentence: Iterable[dict[str, Any]], document: int) -> ParsedTree:
    """The tree of a sentence. Raises `ValueError` if its words are not numbered, or if their heads form no tree."""
    words = [word for word in sentence if not isinstance(word.get("id"), tuple)]
    below: list[list[int]] = [[] for _ in range(len(words) + 1)]
    for number, word in enumerate(words, 1):
        head: Any = word.get("head")
        fits = word.get("id") == number and head in range(len(words) + 1)
        if not fits or word.get("deprel") in (None, "", "_"):
            raise ValueError(f"word {number:,} lacks a valid number, head or relation")
        below[head].append(number)
    tree = ParsedTree(document)
    stack = [(root, -1) for root in below[0]]
    while stack:
        number, parent = stack.pop()
        placed = tree.add(parent, words[number - 1]["deprel"], words[number - 1].get("form"))
        stack += [(child, placed) for child in reversed(below[number])]
    if len(below[0]) != 1 or len(tree.parent) != len(words):
        raise ValueError("the heads of its words do not form a tree with one root")
    return tree
