"""CoNLL-U: dependency trees of Universal Dependencies. It needs the package conllu, `pip install 'ape-cli[conllu]'`.

A word is a node below its head, and the word whose head is 0 is the root. The kind is the relation (`deprel`), and the
token is the form. The dependents of a word are in the order of the sentence. Ranges of multiword tokens (`1-2`) and
empty nodes (`1.1`) are left out. A comment `# newdoc` begins a document.

Source: https://universaldependencies.org/format.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from typing import ClassVar

from ape_cli.core import budget
from ape_cli.storage.tree_formats._format import ParsedTree, TreeFormat, Unit, joined
from ape_cli.storage.tree_formats._text import damaged, decoded, lines_of

_FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel")  # the last two fields are not read
_NEW_DOCUMENT = re.compile(r"#\s*newdoc\b")
_OTHER_COLUMNS = re.compile(r"#\s*global\.columns\b")
_Word = tuple[int, str, str]  # head, relation, form


class ConlluFormat(TreeFormat):
    """Sentences and documents."""

    suffixes: ClassVar[tuple[str, ...]] = (".conllu",)
    units: ClassVar[tuple[Unit, ...]] = ("sentence", "document", "file")
    needs: ClassVar[str | None] = "conllu"
    extra: ClassVar[str | None] = "conllu"

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The sentences of a file; or its documents, which are nodes `document` above their sentences; or all of them.

        The root of a whole file is a node `file` above its documents.
        """
        sentences = _sentences(decoded(content))
        if unit == "sentence":
            yield from sentences
        elif unit == "document":
            yield from _documents(sentences)
        else:
            yield joined("file", _documents(sentences))


def _documents(sentences: Iterable[ParsedTree]) -> Iterator[ParsedTree]:
    """The documents that sentences form."""
    for number, group in groupby(sentences, lambda tree: tree.document):
        yield joined("document", group, number)


def _sentences(text: str) -> Iterator[ParsedTree]:
    """The sentences of a file. Empty lines separate them."""
    document, seen = 0, False
    block: list[str] = []
    for line, content in enumerate(chain(lines_of(text), [""]), 1):
        if content.strip():
            block.append(content)
        if len(block) > budget.SENTENCE_WORDS:
            raise damaged(f"a sentence of more than {budget.SENTENCE_WORDS:,} lines", line)
        if content.strip() or not block:
            continue
        first, comments = line - len(block), [part for part in block if part.startswith("#")]
        if any(map(_OTHER_COLUMNS.match, comments)):
            raise damaged("it names columns of its own (CoNLL-U Plus), which are not supported", first)
        document += seen and any(map(_NEW_DOCUMENT.match, comments))
        if len(comments) < len(block):
            yield _tree(_words(block, first), document, first)
            seen = True
        block = []


def _words(block: list[str], first: int) -> list[_Word]:
    """The words of a sentence, which begins in the line `first`. Raises `DataError` for a line that is no word."""
    from conllu import exceptions, parser

    parsers = {field: parser.DEFAULT_FIELD_PARSERS[field] for field in ("id", "head")}
    parsers |= {field: lambda line, at: line[at] for field in _FIELDS if field not in parsers}
    words: list[_Word] = []
    for line, content in enumerate(block, first):
        if content.startswith("#"):
            continue
        if len(content) > budget.LINE_BYTES:
            raise damaged(f"a word of more than {budget.LINE_BYTES:,} characters", line)
        try:
            word = parser.parse_line(content.strip(), _FIELDS, parsers)
        except (exceptions.ParseException, ValueError) as error:  # a number may have too many digits
            raise damaged(f"no word of CoNLL-U: {str(error)[:200]}", line) from error
        number, head, relation = word.get("id"), word.get("head"), word.get("deprel")
        if isinstance(number, tuple):
            continue
        if number != len(words) + 1:
            raise damaged(f"word {len(words) + 1:,} of a sentence is expected, got {number}", line)
        if head is None or relation in (None, "", "_"):
            raise damaged("a word without a head or a relation", line)
        words.append((head, relation, word["form"]))
    return words


def _tree(words: list[_Word], document: int, first: int) -> ParsedTree:
    """The tree of a sentence, which begins in the line `first`. Raises `DataError` if the heads form no tree."""
    below: list[list[int]] = [[] for _ in range(len(words) + 1)]
    for number, (head, _, _) in enumerate(words, 1):
        if not 0 <= head <= len(words):
            raise damaged(f"the head {head} of a word is not in its sentence", first)
        below[head].append(number)
    if len(below[0]) != 1:
        raise damaged(f"a sentence has {len(below[0]):,} roots instead of one", first)
    tree = ParsedTree(document)
    stack = [(below[0][0], -1)]
    while stack:
        number, parent = stack.pop()
        _, relation, form = words[number - 1]
        placed = tree.add(parent, relation, form or None)
        stack += [(child, placed) for child in reversed(below[number])]
    if len(tree.parent) != len(words):
        raise damaged("the heads of a sentence form a cycle", first)
    return tree
