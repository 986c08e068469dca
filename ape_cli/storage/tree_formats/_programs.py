"""Programs: parse Python within the input budget, and check programs in other languages before they are parsed.

Source: Python's `ast` module. Parsing executes nothing. The parser needs hundreds of bytes of memory for each token,
and quadratic memory for a name of many parts in an import, so both are counted before.
"""

from __future__ import annotations

import ast
import re
import warnings

from ape_cli.core import budget
from ape_cli.core.errors import DataError
from ape_cli.storage.tree_formats._text import damaged, line_at

_TOKEN = re.compile(r"\w++|[^\w\s]")
_BLANK = r"(?:[ \t\f]|\\\r?\n)*+"
_DOTTED = re.compile(rf"\b\w++(?:{_BLANK}\.{_BLANK}\w++){{{budget.DOTTED_NAMES},}}+")


def check_program(text: str) -> None:
    """Check that a program is not too large for a parser. Raises `DataError`."""
    size = len(text.encode(errors="replace")) if len(text) * 4 > budget.PROGRAM_BYTES else 0
    if size > budget.PROGRAM_BYTES:
        raise _too_large(f"{size:,} bytes", f"{budget.PROGRAM_BYTES:,} bytes")
    if len(text) > budget.PROGRAM_TOKENS:  # a token has at least one character
        tokens = sum(1 for _ in _TOKEN.finditer(text))
        if tokens > budget.PROGRAM_TOKENS:
            raise _too_large(f"{tokens:,} words and signs", f"{budget.PROGRAM_TOKENS:,}")


def _too_large(got: str, allowed: str) -> DataError:
    """The error for a program that is too large."""
    return DataError("the program is too large for its parser", got=got, allowed=allowed, fix="split it")


def parsed_module(text: str) -> ast.Module:
    """The syntax tree of a Python module. Raises `DataError` as `_parsed` does."""
    found = _parsed(text, "exec")
    assert isinstance(found, ast.Module)
    return found


def parsed_expression(text: str) -> ast.expr:
    """The syntax tree of a Python expression. Raises `DataError` as `_parsed` does."""
    found = _parsed(text, "eval")
    assert isinstance(found, ast.Expression)
    return found.body


def _parsed(text: str, mode: str) -> ast.AST:
    """Parse Python without warnings.

    Raises `DataError` if it is no valid Python, is nested too deeply, or is too large.
    """
    check_program(text)
    long = _DOTTED.search(text)
    if long:
        raise damaged(f"a name of more than {budget.DOTTED_NAMES} parts", line_at(text, long.start()))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text, mode=mode)
    except SyntaxError as error:
        raise damaged(f"no valid Python: {error.msg}", error.lineno) from error
    except (RecursionError, MemoryError) as error:  # the parser reports an overflow of its stack as MemoryError
        raise damaged("it is nested too deeply for Python's parser") from error
    except (ValueError, OverflowError) as error:
        raise damaged(f"no valid Python: {error}") from error
