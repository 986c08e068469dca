"""Trees in round brackets: s-expressions of Lisp, and the bracketed sentences of the Penn Treebank.

In `(S (NP (DT the) (NN cat)))`, the first atom of a list is the label of a node, which is its kind and its token. The
other atoms are leaves of the kind `#atom`, whose token is the atom. A list that does not begin with an atom is a node
of the kind `#list`. The unlabelled pair around a sentence of the Penn Treebank, `( (S …) )`, is left out.

An atom ends at white space and at a bracket. Text in double quotation marks is one atom, with its marks, unless the
first mark stands alone, as the Penn Treebank writes it. A `;` at the beginning of an atom begins a comment, unless a
bracket follows at once, as in `(: ;)`. Other signs of Lisp, such as `'`, belong to their atom.

Source: Marcus, Santorini and Marcinkiewicz 1993, Building a Large Annotated Corpus of English: The Penn Treebank.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from ape_cli.core import budget
from ape_cli.storage.tree_formats._format import ParsedTree, TreeFormat, Unit, joined
from ape_cli.storage.tree_formats._text import damaged, decoded, line_at

_PART = re.compile(
    r"""(?P<space>\s++|;(?!\))[^\n]*+)|(?P<bracket>[()])|"""
    r"""(?P<atom>"(?=[\s)]|\Z)|"(?:[^"\\]|\\.)*+"|[^\s()"][^\s()]*+)""",
    re.DOTALL,
)


class SExprFormat(TreeFormat):
    """A sentence is an expression that is in no other one. A file is one document."""

    suffixes: ClassVar[tuple[str, ...]] = (".sexp", ".sexpr", ".mrg", ".ptb", ".psd", ".lisp", ".scm")
    units: ClassVar[tuple[Unit, ...]] = ("sentence", "document", "file")

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The sentences of a file, or all of them under a root `document` or `file`."""
        sentences = _sentences(decoded(content))
        if unit == "sentence":
            yield from sentences
        else:
            yield joined(unit, sentences)


def _sentences(text: str) -> Iterator[ParsedTree]:
    """The expressions of a text, in order."""
    builder = _Builder()
    at = start = 0  # the end of the last part, and the beginning of the last expression
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            raise damaged("a quotation mark is not closed", line_at(text, at))
        if part["bracket"] == "(":
            if not builder.open:
                start = at
            if len(builder.open) >= budget.TREE_DEPTH + 1:  # the outermost pair may be left out
                raise damaged(f"more than {budget.TREE_DEPTH:,} brackets in each other", line_at(text, at))
            builder.opened()
        elif not part["space"] and not builder.open:
            what = "a closing bracket without an opening one" if part["bracket"] else "text outside of brackets"
            raise damaged(what, line_at(text, at))
        elif part["bracket"]:
            if (tree := builder.closed()) is not None:
                yield tree
        elif part["atom"]:
            builder.atom(part["atom"])
        at = part.end()
    if builder.open:
        raise damaged("a bracket is not closed", line_at(text, start))


class _Builder:
    """Builds one expression after the other. `open` has the node of each open list, None before it has one."""

    def __init__(self) -> None:
        """Begin without an expression."""
        self.tree = ParsedTree()
        self.open: list[int | None] = []
        self.unlabelled = False  # whether the outermost list has no label

    def opened(self) -> None:
        """An opening bracket."""
        if self.open:
            self._placed()
        self.open.append(None)

    def atom(self, text: str) -> None:
        """An atom in a list."""
        if self.open[-1] is None:
            self.open[-1] = self.tree.add(self._parent(), text)
        else:
            self.tree.add(self.open[-1], "#atom", text)

    def closed(self) -> ParsedTree | None:
        """A closing bracket. Returns the tree if the expression is complete."""
        self._placed()
        self.open.pop()
        if self.open:
            return None
        tree, unlabelled = self.tree, self.unlabelled
        self.tree, self.unlabelled = ParsedTree(), False
        if unlabelled and tree.parent.count(0) == 1 and tree.kind[1] != "#atom":
            return tree.subtree(1, len(tree.parent) - 1)
        return tree

    def _placed(self) -> None:
        """Give the innermost list a node if it has none, because it does not begin with an atom."""
        if self.open[-1] is None:
            self.unlabelled |= len(self.open) == 1
            self.open[-1] = self.tree.add(self._parent(), "#list")

    def _parent(self) -> int:
        """The node of the list around the innermost one; -1 if there is none."""
        above = self.open[-2] if len(self.open) > 1 else -1
        assert above is not None  # a list gets its node before the next bracket
        return above
