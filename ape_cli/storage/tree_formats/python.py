"""Python programs: the abstract syntax trees of Python's own `ast` module. No program is executed.

The children of a node are those of `ast.iter_child_nodes`, without the contexts `Load`, `Store` and `Del`. The kind is
the name of the node's class. The token is the node's own text:

- an identifier, an attribute, an argument, a keyword, or the name of a function, class or imported module;
- a constant as Python writes it (`repr`), with hexadecimal digits for whole numbers of more than 4,300 digits;
- names of `global`, `nonlocal` and keyword patterns, separated by spaces; `a as b` for an import with another name;
- leading dots of a relative import; `!r`, `!s` or `!a` of an f-string; `async` of an asynchronous comprehension.

Comments and line breaks are not part of the tree. A later version of Python may parse the same file to another tree.
"""

from __future__ import annotations

import ast
import codecs
import io
import tokenize
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from ape_cli.storage.tree_formats import ParsedTree, TreeFormat, Unit, damaged, decoded

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class PythonFormat(TreeFormat):
    """A function is an outermost one: of the module, or a method of a class, but not one within a function."""

    declares_encoding = True
    suffixes = (".py", ".pyi")
    units = ("function", "file")
    most_bytes = 4 * 2**20  # the parser needs hundreds of bytes for each token

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The functions of a file with their decorators, or the whole file, whose root is `Module`."""
        module = _parsed(content)
        for root in [module] if unit == "file" else _functions(module):
            tree = ParsedTree()
            _add(tree, -1, root)
            yield tree


def _parsed(content: bytes) -> ast.Module:
    """The syntax tree of a module, without warnings. Parsing executes nothing.

    Raises `DataError` if it is not valid Python, or is nested too deeply.
    """
    try:
        encoding = "utf-8"
        if not content.startswith(codecs.BOM_UTF8):  # whatever it declares, for example in a column of decoded texts
            encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        text = decoded(content, encoding)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        raise damaged(f"no valid Python: {error.msg}", error.lineno) from error
    except (RecursionError, MemoryError) as error:  # the parser reports an overflow of its stack as MemoryError
        raise damaged("it is nested too deeply for Python's parser") from error
    except (ValueError, OverflowError) as error:
        raise damaged(f"no valid Python: {error}") from error


def _functions(node: ast.AST) -> Iterator[ast.AST]:
    """The outermost functions below a node, in the order of the file."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _FUNCTIONS):
            yield child
        elif not isinstance(child, ast.expr):  # an expression has no function, only lambdas
            yield from _functions(child)


def _add(tree: ParsedTree, parent: int, node: ast.AST) -> None:
    """Add a node with the nodes below it."""
    node_type, values = type(node), [value for _, value in ast.iter_fields(node)]
    flat = [item for value in values for item in (value if isinstance(value, list) else [value])]
    texts = [item for item in flat if isinstance(item, str)]
    number = tree.add(
        parent, node_type.__name__, _TOKENS[node_type](node) if node_type in _TOKENS else " ".join(texts) or None
    )
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr_context):
            _add(tree, number, child)


def _literal(value: Any) -> str:
    """A constant as Python writes it. Python refuses to write whole numbers of more than 4,300 digits as decimals."""
    try:
        return repr(value)
    except ValueError:
        return hex(value)


_TOKENS: dict[type, Callable[[Any], str | None]] = {  # nodes whose token is not just their texts
    ast.Constant: lambda node: _literal(node.value),
    ast.MatchSingleton: lambda node: _literal(node.value),
    ast.alias: lambda node: f"{node.name} as {node.asname}" if node.asname else node.name,
    ast.ImportFrom: lambda node: "." * (node.level or 0) + (node.module or ""),
    ast.FormattedValue: lambda node: f"!{chr(node.conversion)}" if node.conversion > 0 else None,
    ast.comprehension: lambda node: "async" if node.is_async else None,
}
