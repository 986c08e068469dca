"""Finds the place of a known mistake in the syntax trees of a package, and puts the mistake there.

A place is the name of a definition and a snippet of code in it.

- The name is the qualified name of a function, a method or a class (`collate`, `Rope.rotate`), or of a constant of a
  module or of a class (`PRESETS`, `Rope.dot_only`). It names no file, so files may move. A function in a function is
  called `outer.inner`; the name of the outer one finds its code too.
- The snippet is an expression, a keyword argument (`resume=None`), a statement, or several statements in a row. It is
  compared as a syntax tree, so comments, line breaks and quotes do not matter. It must occur exactly once in the
  definitions of that name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent


@dataclass(frozen=True)
class Place:
    """Some nodes of a tree: those from `begin` to `end` in a list, or a field that is not a list."""

    path: Path
    tree: ast.Module
    parent: ast.AST
    field: str
    begin: int | None = None
    end: int | None = None

    @property
    def nodes(self) -> list[ast.AST]:
        value = getattr(self.parent, self.field)
        return [value] if self.begin is None else value[self.begin : self.end]

    def find(self, code: Sequence[ast.AST]) -> Iterator[Place]:
        """This place if it holds the code, and the places inside it that do."""
        dumps = [*map(ast.dump, code)]
        if [*map(ast.dump, self.nodes)] == dumps:
            yield self
        for parent in (each for node in self.nodes for each in ast.walk(node)):
            for field, value in ast.iter_fields(parent):
                if isinstance(value, list):
                    for begin in range(len(value) - len(code) + 1):
                        part = value[begin : begin + len(code)]
                        if type(part[0]) is type(code[0]) and [*map(ast.dump, part)] == dumps:
                            yield Place(self.path, self.tree, parent, field, begin, begin + len(code))
                elif type(value) is type(code[0]) and [ast.dump(value)] == dumps:
                    yield Place(self.path, self.tree, parent, field)

    def replaced(self, code: Sequence[ast.AST]) -> str:
        """The text of the whole file with other code at this place, without comments."""
        value = getattr(self.parent, self.field)
        changed = code[0] if self.begin is None else [*value[: self.begin], *code, *value[self.end :]] or [ast.Pass()]
        setattr(self.parent, self.field, changed)
        try:
            return ast.unparse(self.tree)
        finally:
            setattr(self.parent, self.field, value)


class Package:
    """The definitions of all files in a folder, by their qualified names."""

    def __init__(self, folder: Path) -> None:
        self.definitions: dict[str, list[Place]] = {}
        for path in sorted(folder.rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for name, place in _definitions(path, tree, tree):
                self.definitions.setdefault(name, []).append(place)

    def put(self, where: str, right: str, wrong: str) -> tuple[Path, str]:
        """The file that contains the code `right`, and its text with `wrong` instead.

        Raises `LookupError` if `right` does not occur exactly once in the definitions called `where`.
        """
        places = [
            (place, new)
            for old, new in _pairs(_parsed(right), _parsed(wrong))
            for scope in self.definitions.get(where, [])
            for place in scope.find(old)
        ]
        if len(places) != 1:
            raise LookupError(f"this code stands {len(places)} times in {where}, not once: {right.strip()}")
        place, new = places[0]
        return place.path, place.replaced(new)


def _pairs(old: list[ast.stmt], new: list[ast.stmt]) -> list[tuple[Sequence[ast.AST], Sequence[ast.AST]]]:
    """The pairs of code to find and replacement. `a = b` is a statement and may also be a keyword argument."""
    match old, new:
        case [ast.Expr(right)], [ast.Expr(wrong)]:
            return [([right], [wrong])]
        case [ast.Assign([ast.Name(a)], right)], [ast.Assign([ast.Name(b)], wrong)]:
            return [(old, new), ([ast.keyword(a, right)], [ast.keyword(b, wrong)])]
    return [(old, new)]


def _parsed(code: str) -> list[ast.stmt]:
    """The statements of a snippet. An expression is one statement."""
    code = dedent(code).strip()
    with suppress(SyntaxError):
        return ast.parse(code).body
    return ast.parse(f"({code}\n)").body  # `x for x in y` is an expression only in parentheses


def _definitions(
    path: Path, tree: ast.Module, parent: ast.AST, prefix: str = "", local: bool = False
) -> Iterator[tuple[str, Place]]:
    """The functions, classes and constants in a node with qualified names. Local variables are not constants."""
    for field, value in ast.iter_fields(parent):
        for i, node in enumerate(value if isinstance(value, list) else []):
            place = Place(path, tree, parent, field, i, i + 1)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield prefix + node.name, place
                inner = local or not isinstance(node, ast.ClassDef)
                yield from _definitions(path, tree, node, f"{prefix}{node.name}.", inner)
            elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and not local:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for each in (n for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)):
                    yield prefix + each.id, place
            elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
                yield from _definitions(path, tree, node, prefix, local)
