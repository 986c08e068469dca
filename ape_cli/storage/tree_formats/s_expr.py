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

from ape_cli.storage.tree_formats._format import ParsedTree, TreeFormat, Unit, damaged, decoded, joined, line_at

_SPACE = r"\s++|;(?!\))[^\n]*+"
_ATOM = r'"(?=[\s)]|\Z)|"(?:[^"\\]|\\.)*+"|[^\s()"][^\s()]*+'
_PART = re.compile(
    rf"(?P<space>{_SPACE})|(?P<open>\((?:{_SPACE})*+(?P<label>{_ATOM})?+)|(?P<close>\))|(?P<atom>{_ATOM})", re.DOTALL
)


class SExprFormat(TreeFormat):
    """A sentence is an expression that is in no other one. A file is one document."""

    suffixes = (".sexp", ".sexpr", ".mrg", ".ptb", ".psd", ".lisp", ".scm")
    units = ("sentence", "document", "file")

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The sentences of a file, or all of them under a root `document` or `file`."""
        sentences = _sentences(decoded(content))
        return sentences if unit == "sentence" else iter([joined(unit, sentences)])


def _sentences(text: str) -> Iterator[ParsedTree]:
    """The expressions of a text, in order."""
    tree, lists = ParsedTree(), list[int]()  # the nodes of the open lists
    at = start = 0  # the end of the last part, and the beginning of the last expression
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            raise damaged("a quotation mark is not closed", line_at(text, at))
        if part["open"]:
            start = start if lists else at
            lists.append(tree.add(lists[-1] if lists else -1, part["label"] or "#list"))
        elif not part["space"] and not lists:
            what = "a closing bracket without an opening one" if part["close"] else "text outside of brackets"
            raise damaged(what, line_at(text, at))
        elif part["atom"]:
            tree.add(lists[-1], "#atom", part["atom"])
        elif part["close"]:
            lists.pop()
            if not lists:
                yield _without_pair(tree)
                tree = ParsedTree()
        at = part.end()
    if lists:
        raise damaged("a bracket is not closed", line_at(text, start))


def _without_pair(tree: ParsedTree) -> ParsedTree:
    """An expression without the unlabelled pair of brackets around a single one."""
    if tree.kind[0] == "#list" and tree.parent.count(0) == 1 and tree.kind[1] != "#atom":
        return tree.subtree(1, len(tree.parent) - 1)
    return tree
