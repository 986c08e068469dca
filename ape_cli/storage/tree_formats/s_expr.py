r"""Trees in round brackets: s-expressions of Lisp, and the bracketed sentences of the Penn Treebank.

In `(S (NP (DT the) (NN cat)))`, the first atom of a list is the label of a node, which is its kind and its token. The
other atoms are leaves of the kind `#atom`, whose token is the atom. A list that does not begin with an atom is a node
of the kind `#list`. An atom ends at white space and at a bracket. Signs such as the `'` of Lisp belong to their atom.

The suffix of a file says which rules it follows, or the name of the format does, for example `s-expr-penn`:

- `penn`, for `.mrg`, `.ptb` and `.psd`: There are no comments and no strings, and a no-break space belongs to its atom.
  The unlabelled pair of brackets around a sentence, `( (S …) )`, is left out.
- `lisp`, for `.lisp`, `.sexp` and `.sexpr`: Text in double quotation marks is one atom, with its marks. So are a
  character such as `#\(`, and a symbol with a part in bars or with a backslash before a sign. Comments are `;` to the
  end of the line, `#|…|#`, which can be nested, `#;` with the expression after it, `#!…!#`, and the first line of a
  script.
- `scheme`, for `.scm`: as `lisp`, and square brackets are brackets too.

Other files, and the texts of Parquet files, are read as Penn trees if no sign in them means something else in Lisp.

Sources: Marcus, Santorini and Marcinkiewicz 1993, Building a Large Annotated Corpus of English: The Penn Treebank;
Common Lisp HyperSpec, chapter 2; Revised⁷ Report on the Algorithmic Language Scheme, section 7.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ape_cli.core.errors import DataError, pick
from ape_cli.storage.tree_formats import ParsedTree, TreeFormat, Unit, damaged, decoded, join_trees, line_at

_SUFFIXES = {"lisp": (".lisp", ".sexp", ".sexpr"), "scheme": (".scm",), "penn": (".mrg", ".ptb", ".psd")}
_DIFFERS = re.compile(r'[";|\\]')
_ENDS = {"#|": re.compile(r"#\||\|#"), "#!": re.compile("!#")}  # of comments; the first kind can be nested


def _lisp(opening: str, closing: str) -> re.Pattern[str]:
    """The parts of a text of Lisp with these brackets, in which `[` and `]` are escaped."""
    end, string = rf'\s";()|\\{opening}{closing}', r'"(?:[^"\\]|\\.)*+"'
    return re.compile(
        rf"(?P<space>\s++|;[^\n\r]*+|\A#!(?:.*?\n!#|[^\n]*+))|(?P<comment>#\||#!(?=\s))|(?P<datum>#;)"
        rf"|(?P<open>[{opening}])|(?P<close>[{closing}])"
        rf"|(?P<sign>[#'`,@][^{end}]*+(?=[{opening}])|['`,@]++(?=\s))"
        rf"|(?P<atom>['`,@]*(?:#\\(?:\s|\S[^{end}]*+)|(?:#[^{end}]*+)?{string}"
        rf"|(?:[^{end}]++|\\.|\|(?:[^|\\]|\\.)*+\|)++))",
        re.DOTALL,
    )


_RULES = {
    "lisp": _lisp("(", ")"),
    "scheme": _lisp(r"(\[", r")\]"),
    "penn": re.compile(r"(?P<space>\s++)|(?P<open>\()|(?P<close>\))|(?P<atom>[^\s()]++)", re.ASCII),
}


class SExprFormat(TreeFormat):
    """A sentence is an expression that is in no other one. A file is one document."""

    suffixes = tuple(suffix for suffixes in _SUFFIXES.values() for suffix in suffixes)
    units = ("sentence", "document", "file")
    variants = dict.fromkeys(_SUFFIXES, ())  # named for other files; the suffix of a file chooses its own rules

    def __init__(self, variant: str | None = None) -> None:
        """Choose the rules. Raises `UsageError` if there are none of this name."""
        super().__init__(variant and pick("rules of s-expr", variant, _SUFFIXES))

    def reads(self, suffix: str) -> bool:
        """Whether files with this suffix, in lower case, have this format."""
        return suffix in self.suffixes

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The sentences of a file, or all of them under a root `document` or `file`."""
        text = decoded(content)
        rules = self.variant or next((name for name, suffixes in _SUFFIXES.items() if self.suffix in suffixes), None)
        if rules is None and (sign := _DIFFERS.search(text)):
            what = f"line {line_at(text, sign.start()):,}: `{sign[0]}` differs between Lisp and Penn trees"
            raise DataError(what, allowed=", ".join(f"s-expr-{name}" for name in _SUFFIXES), fix="choose with `format`")
        sentences = _sentences(text, rules or "penn")
        return sentences if unit == "sentence" else iter([join_trees(unit, sentences)])


def _sentences(text: str, rules: str) -> Iterator[ParsedTree]:
    """The expressions of a text, in order."""
    tree, lists = ParsedTree(), list[tuple[int, re.Match[str]]]()  # the open lists, and their brackets
    is_label = False  # whether the next atom is the label of its list
    parts = _parts(text, _RULES[rules])
    for part in parts:
        if part.lastgroup == "datum":
            _pass_over(parts, text, part)
        elif part.lastgroup == "open":
            lists.append((tree.add(lists[-1][0] if lists else -1, "#list"), part))
            is_label = True
        elif not lists and part.lastgroup != "close":
            raise damaged("text outside of brackets", line_at(text, part.start()))
        elif part.lastgroup == "close":
            if not lists or lists.pop()[1][0] + part[0] not in ("()", "[]"):
                raise damaged("a closing bracket without an opening one", line_at(text, part.start()))
            is_label = False
            if not lists:
                has_pair = tree.kind[0] == "#list" and tree.parent.count(0) == 1 and tree.kind[1] != "#atom"
                yield tree.subtree(1, len(tree.parent) - 1) if rules == "penn" and has_pair else tree
                tree = ParsedTree()
        elif is_label:
            tree.kind[-1] = tree.token[-1] = part[0]
            is_label = False
        else:
            tree.add(lists[-1][0], "#atom", part[0])
    if lists:
        raise damaged("a bracket is not closed", line_at(text, lists[0][1].start()))


def _parts(text: str, rules: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """The brackets and atoms of a text, and the signs `#;`, without white space and comments."""
    at = 0
    while at < len(text):
        part = rules.match(text, at)
        if part is None:
            what = "a quotation mark" if text[at] == '"' else f"`{text[at]}`"
            raise damaged(f"{what} is not closed", line_at(text, at))
        at = part.end()
        if part.lastgroup == "comment":
            at = _end_of_comment(text, part)
        elif part.lastgroup != "space":
            yield part


def _end_of_comment(text: str, begin: re.Match[str]) -> int:
    """Where a comment of several lines ends."""
    depth = 1
    for mark in _ENDS[begin[0]].finditer(text, begin.end()):
        depth += 1 if mark[0] == "#|" else -1
        if not depth:
            return mark.end()
    raise damaged("a comment is not closed", line_at(text, begin.start()))


def _pass_over(parts: Iterator[re.Match[str]], text: str, begin: re.Match[str]) -> None:
    """Pass over the expression after `#;`. A sign such as `'` belongs to the expression after it."""
    depth = 0
    for part in parts:
        if part.lastgroup == "datum":
            _pass_over(parts, text, part)
            continue
        depth += (part.lastgroup == "open") - (part.lastgroup == "close")
        if depth == 0 and part.lastgroup != "sign":
            return
        if depth < 0:
            break
    raise damaged("no expression follows `#;`", line_at(text, begin.start()))
