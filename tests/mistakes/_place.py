"""Finds the place of a known mistake in the syntax trees of a package, and puts the mistake there.

A place is the name of a definition and a snippet of code in it.

- The name is the qualified name of a function, a method or a class (`collate`, `Rope.rotate`), or of a constant of a
  module or of a class (`PRESETS`, `Rope.dot_only`). It names no file, so files may move. A function in a function is
  called `outer.inner`; the name of the outer one finds its code too.
- The snippet is an expression, a keyword argument (`resume=None`), a statement, or several statements in a row. It is
  compared as a syntax tree, so comments, line breaks, quotes and docstrings do not matter. It must occur exactly once
  in the definitions of that name.

An f-string is compared as a whole, because Python 3.11 does not report the places of its parts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from textwrap import dedent, indent

_SHOWN = 3  # the most places that a message names
_Pair = tuple[Sequence[ast.AST], Sequence[ast.AST]]  # the right nodes and the wrong ones
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class File:
    path: Path
    name: str  # the path of the file in the package
    text: str
    tree: ast.Module  # without docstrings


@dataclass(frozen=True)
class Place:
    """Some nodes of a tree: those from `begin` to `end` in a list, or a field that is not a list."""

    file: File
    parent: ast.AST
    field: str
    begin: int | None = None
    end: int | None = None

    @property
    def nodes(self) -> list[ast.AST]:
        value = getattr(self.parent, self.field)
        return [value] if self.begin is None else value[self.begin : self.end]

    def __str__(self) -> str:
        return f"{self.file.name}:{self.nodes[0].lineno}"

    def find(self, wanted: Sequence[ast.AST]) -> Iterator[Place]:
        """Returns this place if it holds the wanted code, and the places inside it that do."""
        count, dumps = len(wanted), [ast.dump(node) for node in wanted]

        def same(nodes: Sequence[ast.AST]) -> bool:
            return type(nodes[0]) is type(wanted[0]) and [ast.dump(node) for node in nodes] == dumps

        if len(self.nodes) == count and same(self.nodes):
            yield self
        for parent in _descendants(self.nodes):
            for field, value in ast.iter_fields(parent):
                if isinstance(value, list):
                    for begin in range(len(value) - count + 1):
                        if same(value[begin : begin + count]):
                            yield Place(self.file, parent, field, begin, begin + count)
                elif isinstance(value, ast.AST) and count == 1 and same([value]):
                    yield Place(self.file, parent, field)

    def span(self) -> tuple[int, int]:
        """The start and end of the code in the text, in bytes of UTF-8."""
        first, last = self.nodes[0], self.nodes[-1]
        line = min(node.lineno for node in (first, *getattr(first, "decorator_list", [])))
        starts = [0]
        for text in self.file.text.encode().split(b"\n"):
            starts.append(starts[-1] + len(text) + 1)
        return starts[line - 1] + first.col_offset, starts[last.end_lineno - 1] + last.end_col_offset

    def replaced(self, new: Sequence[ast.AST], code: str) -> str:
        """Returns the file's text with `code`, whose nodes are `new`, at this place. The rest does not change."""
        text = self.file.text.encode()
        begin, end = self.span()
        if isinstance(self.nodes[0], ast.expr | ast.keyword):
            candidates = [code, f"({code}\n)"]  # the second one keeps the precedence of operators
        else:
            if not new and len(self.nodes) == len(getattr(self.parent, self.field)):
                new, code = [ast.Pass()], "pass"  # a body must not be empty
            candidates = [self._with_margin(code, is_elif=text.startswith(b"elif", begin))]
        expected = self._dump_with(new)
        for candidate in candidates:
            changed = (text[:begin] + candidate.encode() + text[end:]).decode()
            if _dump(changed) == expected:
                return changed
        raise LookupError(f"the text at {self} cannot be replaced with:\n{indent(code, '    ')}")

    def _with_margin(self, code: str, is_elif: bool) -> str:
        margin = " " * self.nodes[0].col_offset
        if is_elif:
            return f"else:\n{indent(code, margin + '    ')}"
        return indent(code, margin).removeprefix(margin)  # the first line has its margin already

    def _dump_with(self, new: Sequence[ast.AST]) -> str:
        """Returns a dump of the whole file's tree with other nodes at this place."""
        value = getattr(self.parent, self.field)
        changed = new[0] if self.begin is None else [*value[: self.begin], *new, *value[self.end :]]
        setattr(self.parent, self.field, changed)
        try:
            return ast.dump(self.file.tree)
        finally:
            setattr(self.parent, self.field, value)


class Package:
    """The definitions of all files in a folder, by their qualified names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.definitions: dict[str, list[Place]] = {}
        for path in sorted(folder.rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            tree = ast.parse(text)
            _drop_docstrings(tree)
            file = File(path, path.relative_to(folder).as_posix(), text, tree)
            for name, place in _definitions(file, tree):
                self.definitions.setdefault(name, []).append(place)

    def put(self, where: str, right: str, wrong: str) -> tuple[Path, str]:
        """Returns the file that contains the code `right`, and its text with `wrong` instead.

        Raises `LookupError` if `right` does not occur exactly once in the definitions called `where`.
        """
        right, wrong = dedent(right).strip(), dedent(wrong).strip()
        pairs = _pairs(_parsed(right), _parsed(wrong))
        old, new = pairs[0]
        if not old:
            raise LookupError(f"a mistake in {where} has no code to replace")
        if [*map(ast.dump, old)] == [*map(ast.dump, new)]:
            raise LookupError(f"a mistake in {where} changes nothing:\n{indent(wrong, '    ')}")
        scopes = self.definitions.get(where, [])
        found = [(place, new) for old, new in pairs for scope in scopes for place in scope.find(old)]
        if len(found) != 1:
            places = [place for place, _ in found]
            raise LookupError(f"{self._problem(where, places, pairs)}:\n{indent(right, '    ')}")
        place, new = found[0]
        return place.file.path, place.replaced(new, wrong)

    def _problem(self, where: str, found: Sequence[Place], pairs: Sequence[_Pair]) -> str:
        if found:
            return f"this code stands {len(found)} times in {where}, at {_listed(found)}"
        elsewhere = self._elsewhere(pairs)
        if where in self.definitions:
            return f"{where} at {_listed(self.definitions[where])} does not contain this code{elsewhere}"
        near = get_close_matches(where, self.definitions, n=_SHOWN)
        similar = f", but {_listed(near)}" if near else ""
        return f"nothing in {self.folder.name} is called {where}{similar}{elsewhere}"

    def _elsewhere(self, pairs: Sequence[_Pair]) -> str:
        """Names the definitions that contain the code, which helps if its function was renamed or split."""
        found = {
            name: place
            for name, scopes in self.definitions.items()
            for scope in scopes
            for old, _ in pairs
            for place in scope.find(old)
        }
        inner = [f"{n} at {place}" for n, place in found.items() if not any(m.startswith(f"{n}.") for m in found)]
        return f"; it stands in {_listed(inner)}" if inner else ""


def _pairs(old: list[ast.stmt], new: list[ast.stmt]) -> list[_Pair]:
    """Returns the pairs of code to find and replacement. `a = b` is a statement and may also be a keyword argument."""
    match old, new:
        case [ast.Expr(right)], [ast.Expr(wrong)]:
            return [([right], [wrong])]
        case [ast.Assign([ast.Name(a)], right)], [ast.Assign([ast.Name(b)], wrong)]:
            return [(old, new), ([ast.keyword(a, right)], [ast.keyword(b, wrong)])]
    return [(old, new)]


def _listed(places: Sequence[object]) -> str:
    return ", ".join(map(str, places[:_SHOWN])) + (", ..." if len(places) > _SHOWN else "")


def _parsed(code: str) -> list[ast.stmt]:
    """Returns the statements of a snippet. An expression is one statement."""
    for text in (code, f"({code}\n)"):  # `x for x in y` is an expression only in parentheses
        with suppress(SyntaxError):
            tree = ast.parse(text)
            break
    else:
        raise LookupError(f"this code of a mistake is not valid Python:\n{indent(code, '    ')}")
    for statement in tree.body:
        _drop_docstrings(statement)
    return tree.body


def _dump(text: str) -> str:
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return ""
    _drop_docstrings(tree)
    return ast.dump(tree)


def _drop_docstrings(tree: ast.AST) -> None:
    for node in ast.walk(tree):
        if isinstance(node, (*_DEFINITIONS, ast.Module)) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]


def _descendants(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yields the nodes and all nodes below them, except for the parts of f-strings."""
    rest = [*nodes]
    while rest:
        node = rest.pop()
        if not isinstance(node, ast.JoinedStr):
            yield node
            rest.extend(ast.iter_child_nodes(node))


def _definitions(file: File, parent: ast.AST, prefix: str = "", local: bool = False) -> Iterator[tuple[str, Place]]:
    """Yields the functions, classes and constants in a node with qualified names. Local variables are not constants."""
    for field, value in ast.iter_fields(parent):
        for i, node in enumerate(value if isinstance(value, list) else []):
            place = Place(file, parent, field, i, i + 1)
            if isinstance(node, _DEFINITIONS):
                name = prefix + node.name
                yield name, place
                yield from _definitions(file, node, f"{name}.", local or not isinstance(node, ast.ClassDef))
            elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and not local:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for each in (n for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)):
                    yield prefix + each.id, place
            elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
                yield from _definitions(file, node, prefix, local)
