"""Read the text of a JSON document into a tree of its objects, keys and values, without recursion."""

from __future__ import annotations

import json
import re
from json import decoder

from ape_cli.core import budget
from ape_cli.core.errors import DataError
from ape_cli.storage.tree_formats._format import ParsedTree
from ape_cli.storage.tree_formats._text import damaged, line_at

_SPACE = re.compile(r"[ \t\n\r]*+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+")
_WORDS = {"true": "boolean", "false": "boolean", "null": "null"}
_WORD = re.compile("|".join(_WORDS))
_OPEN = 2 * budget.TREE_DEPTH  # objects and arrays in each other; a tree with labels has two of them for each level


def json_tree(text: str, first_line: int = 1) -> ParsedTree:
    """The tree of a JSON document, which begins in the line `first_line` of its file.

    >>> json_tree('{"a": [1]}').kind
    ['object', 'key', 'array', 'number']

    Raises `DataError` if the text is not one JSON document, or is nested too deeply.
    """
    return _Reader(text, first_line).read()


class _Reader:
    """Reads a text. `at` is the place of the next character."""

    def __init__(self, text: str, first_line: int) -> None:
        """Begin at the first character that is not white space."""
        self.text = text
        self.first_line = first_line
        self.at = 0
        self.tree = ParsedTree()
        self.open: list[tuple[int, set[str] | None]] = []  # node of each open array or object; the object's keys so far

    def read(self) -> ParsedTree:
        """Read the document."""
        parent = -1
        while True:
            complete, parent = self._value(parent)
            if complete:
                following = self._after_value()
                if following is None:
                    return self.tree
                parent = following

    def _value(self, parent: int) -> tuple[bool, int]:
        """Read a value, or the beginning of one. Returns whether it is complete, and the parent of the next value."""
        char = self._next()
        if char in ("{", "["):
            number = self.tree.add(parent, "object" if char == "{" else "array")
            self.at += 1
            if self._next() == ("}" if char == "{" else "]"):
                self.at += 1
                return True, number
            self.open.append((number, set() if char == "{" else None))
            if len(self.open) > _OPEN:
                raise self._error(f"more than {_OPEN:,} objects and arrays in each other")
            return False, self._key(number) if char == "{" else number
        if char == '"':
            self.tree.add(parent, "string", _quoted(self._string()))
        elif word := _WORD.match(self.text, self.at):
            self.tree.add(parent, _WORDS[word[0]], word[0])
            self.at = word.end()
        elif number_text := _NUMBER.match(self.text, self.at):
            self.tree.add(parent, "number", number_text[0])
            self.at = number_text.end()
        else:
            raise self._error("a JSON value is expected")
        return True, parent

    def _after_value(self) -> int | None:
        """Close what ends after a value. Returns the parent of the next value, or None at the end of the document."""
        while self.open:
            number, keys = self.open[-1]
            char = self._next()
            self.at += 1
            if char == ",":
                return number if keys is None else self._key(number)
            if char != ("]" if keys is None else "}"):
                self.at -= 1
                raise self._error("a comma or a closing bracket is expected")
            self.open.pop()
        if self._next():
            raise self._error("more text follows the document")
        return None

    def _key(self, number: int) -> int:
        """Read a key of the object `number`, with its colon. Returns the node of the key."""
        if self._next() != '"':
            raise self._error("a key in quotation marks is expected")
        key = self._string()
        keys = self.open[-1][1]
        assert keys is not None
        if key in keys:
            raise self._error("a key occurs twice in an object")
        keys.add(key)
        if self._next() != ":":
            raise self._error("a colon is expected")
        self.at += 1
        return self.tree.add(number, "key", _quoted(key))

    def _next(self) -> str:
        """The next character that is not white space; empty at the end."""
        space = _SPACE.match(self.text, self.at)
        assert space is not None  # it matches everywhere
        self.at = space.end()
        return self.text[self.at : self.at + 1]

    def _string(self) -> str:
        """Read a string."""
        try:
            found, self.at = decoder.scanstring(self.text, self.at + 1, True)  # type: ignore[attr-defined]
        except json.JSONDecodeError as error:
            self.at = error.pos
            raise self._error(f"no valid string: {error.msg}") from error
        return found

    def _error(self, what: str) -> DataError:
        """The error at this place."""
        return damaged(f"no valid JSON: {what}", self.first_line - 1 + line_at(self.text, self.at))


def _quoted(text: str) -> str:
    """The JSON text of a string."""
    return json.dumps(text, ensure_ascii=False)
