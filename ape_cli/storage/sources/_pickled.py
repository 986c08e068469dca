"""Read the pickles of CIFAR's Python version safely: nothing in them is imported, called or unpickled.

A pickle is a program for a stack machine. This module implements a machine that knows only the instructions for
numbers, texts, lists, dictionaries and arrays of bytes. When the program builds an array, the machine compares the
names and arguments of the numpy calls with the expected ones, and builds the array itself. Everything else that
`pickle.Unpickler` would look up, call or take from the process is an error: any other global, an instance, a copyreg
extension, a persistent id. A key that is not a text is also an error, because the hash of a deeply nested tuple may
take forever.

The published files were written by Python 2. Their texts are read as bytes, and their keys as text. The same structures
pickled by Python 3, with protocols 2 to 4, can be read too.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ape_cli.core.errors import DataError
from ape_cli.storage.sources import _instructions
from ape_cli.storage.sources._instructions import RefusedError

_MOST = 2_000_000  # instructions; 50,000 images with two labels and one name each need 350,000
_MOST_AXES = 8
_SPARE = 2**24  # bytes that a pickle may make beyond those it has
_NUMBERS = ("BININT", "BININT1", "BININT2", "LONG1")
_VALUES = (*_NUMBERS, "BINUNICODE", "SHORT_BINUNICODE", "BINBYTES", "SHORT_BINBYTES")
_OLD_TEXT = ("BINSTRING", "SHORT_BINSTRING")
_FIXED = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_NAMES = {
    "numpy.core.multiarray _reconstruct": "reconstruct",
    "numpy._core.multiarray _reconstruct": "reconstruct",
    "numpy ndarray": "ndarray",
    "numpy dtype": "dtype",
    "_codecs encode": "encode",
}


@dataclass(frozen=True)
class _Global:
    """Placeholder for a global name that a pickle asks for."""

    name: str


@dataclass(eq=False)
class _Array:
    """Placeholder for an array that is being built."""

    values: np.ndarray | None = None


class _Bytes:
    """Placeholder for numpy's dtype of bytes, the only dtype that is supported."""


def load(name: str, content: bytes) -> dict[str, Any]:
    """Read the dictionary that is pickled in `content`.

    The keys of the result are text, arrays are uint8, and texts of Python 2 are bytes. `name` is the file's name, for
    errors.

    Raises `DataError` if the pickle is damaged or contains anything but numbers, texts and arrays of bytes.
    """
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "invalid .*escape sequence", DeprecationWarning)  # from a damaged name
            found = _Machine().run(content)
        if not isinstance(found, dict):
            raise RefusedError(f"a {type(found).__name__} instead of a dictionary")
        return {key: _finished(value) for key, value in found.items()}
    except (RefusedError, ValueError, IndexError, KeyError, TypeError, OverflowError, RecursionError) as error:
        got = str(error) if isinstance(error, RefusedError) else f"damaged: {error}"
        raise DataError(
            f"{name} is not a pickle of numbers, text and arrays of bytes",
            got=got[:200],
            allowed="the files of cifar-10-python.tar.gz and cifar-100-python.tar.gz; no other objects are created",
            fix="fetch the archive again, from where you trust it",
        ) from error


def _finished(value: Any) -> Any:
    """Replace a placeholder of an array by the array. Raises `RefusedError` if it was never filled."""
    if not isinstance(value, _Array):
        return value
    if value.values is None:
        raise RefusedError("an array without content")
    return value.values


class _Machine:
    """The stack machine: a stack of values, marks in the stack, and a memo of values by number.

    `left` is the number of bytes that it may still make: a pickle can name one text again and again, and each time
    have it encoded or used as a key.

    Its methods raise `RefusedError` for anything that is not data.
    """

    def __init__(self) -> None:
        """Start with an empty stack and define the supported instructions."""
        self.left = 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.does: dict[str, Callable[[Any], None]] = {
            "PROTO": lambda _: None,
            "FRAME": lambda _: None,
            "MARK": lambda _: self.marks.append(len(self.stack)),
            "EMPTY_DICT": lambda _: self.stack.append({}),
            "EMPTY_LIST": lambda _: self.stack.append([]),
            "TUPLE": lambda _: self.stack.append(tuple(self._since_mark())),
            "TUPLE1": lambda _: self.stack.append(self._last(1)),
            "TUPLE2": lambda _: self.stack.append(self._last(2)),
            "TUPLE3": lambda _: self.stack.append(self._last(3)),
            "APPEND": lambda _: self._extend(self._last(1)),
            "APPENDS": lambda _: self._extend(self._since_mark()),
            "SETITEM": lambda _: self._update(self._last(2)),
            "SETITEMS": lambda _: self._update(self._since_mark()),
            "BINPUT": self._remember,
            "LONG_BINPUT": self._remember,
            "MEMOIZE": lambda _: self._remember(len(self.memo)),
            "BINGET": lambda number: self.stack.append(self.memo[number]),
            "LONG_BINGET": lambda number: self.stack.append(self.memo[number]),
            "GLOBAL": self._global,
            "STACK_GLOBAL": lambda _: self._global(" ".join(map(self._text, self._last(2)))),
            "REDUCE": lambda _: self.stack.append(self._called(*self._last(2))),
            "BUILD": lambda _: self._build(*self._last(1)),
        }

    def run(self, content: bytes) -> Any:
        """Run the program, and return the only value on the stack at its end."""
        self.left = len(content) + _SPARE
        supported = {*_VALUES, *_OLD_TEXT, *_FIXED, *self.does, "STOP"}
        for count, (name, argument) in enumerate(_instructions.read(content, supported, self._spend)):
            if count == _MOST:
                raise RefusedError(f"more than {_MOST:,} instructions")
            if name in _VALUES:
                self.stack.append(argument)
            elif name in _OLD_TEXT:
                self.stack.append(argument.encode("latin-1"))  # reverses the decoding by pickletools
            elif name in _FIXED:
                self.stack.append(_FIXED[name])
            elif name != "STOP":
                self.does[name](argument)
        (found,) = self.stack
        return found

    def _last(self, count: int) -> tuple[Any, ...]:
        """Pop the last `count` values, which must be after the last mark."""
        if len(self.stack) - count < (self.marks[-1] if self.marks else 0):
            raise RefusedError("fewer values than an instruction takes")
        found = tuple(self.stack[-count:])
        del self.stack[-count:]
        return found

    def _since_mark(self) -> list[Any]:
        """Pop the last mark and all values after it."""
        start = self.marks.pop()
        found = self.stack[start:]
        del self.stack[start:]
        return found

    def _remember(self, number: int) -> None:
        """Store the last value in the memo."""
        self.memo[number] = self.stack[-1]

    def _extend(self, values: Any) -> None:
        """Append `values` to the list on top of the stack."""
        target = self.stack[-1]
        if not isinstance(target, list):
            raise RefusedError("values appended to something that is not a list")
        target.extend(values)

    def _update(self, values: Any) -> None:
        """Add alternating keys and values to the dictionary on top of the stack."""
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise RefusedError("items set in something that is not a dictionary")
        target.update(zip(map(self._text, values[::2]), values[1::2], strict=True))

    def _global(self, name: str) -> None:
        """Push a placeholder for the global `name`, if it is one of those that an array needs."""
        if name not in _NAMES:
            raise RefusedError(f"it asks for {name.replace(' ', '.')}")
        self.stack.append(_Global(_NAMES[name]))

    def _build(self, state: Any) -> None:
        """Apply a state to the placeholder on top of the stack."""
        match self.stack[-1], state:
            case _Array() as target, (_, shape, kind, by_columns, content):
                target.values = _array(shape, kind, by_columns, content)
            case _Bytes(), (3, "|" | b"|", None, None, None, -1, -1, 0):
                pass  # it has no byte order, no fields and no flags
            case ((_Array() | _Bytes()), _):
                raise RefusedError("a state that is not that of an array of bytes")
            case _:
                raise RefusedError("a state for something that is not an array")

    def _called(self, function: Any, arguments: Any) -> Any:
        """The result of calling a placeholder of a numpy function, if the arguments are those of an array of bytes."""
        match function, arguments:
            case _Global("reconstruct"), (_Global("ndarray"), (0,), "b" | b"b"):
                return _Array()
            case _Global("dtype"), ("u1" | b"u1", 0 | 1, 0 | 1):
                return _Bytes()
            case _Global("encode"), (str(text), "latin1"):  # Python 3 writes bytes like this in protocol 2
                self._spend(len(text))
                return text.encode("latin-1")
        if isinstance(function, _Global):
            raise RefusedError(f"{function.name} with other arguments than those of an array of bytes")
        raise RefusedError("a call of something that is not a function")

    def _text(self, value: Any) -> str:
        """A key or name as text; bytes are decoded as Latin-1."""
        if not isinstance(value, bytes | str):
            raise RefusedError("a key or a name that is not text")
        self._spend(len(value))
        return value.decode("latin-1") if isinstance(value, bytes) else value

    def _spend(self, size: int) -> None:
        """Count bytes that are made, before they are. Raises `RefusedError` if there are too many."""
        self.left -= size
        if self.left < 0:
            raise RefusedError("texts that are much larger than the file when they are decoded")


def _array(shape: Any, kind: Any, by_columns: Any, content: Any) -> np.ndarray:
    """Build an array from its pickled state as numpy writes it. Returns uint8 of the given shape, read-only."""
    if not isinstance(kind, _Bytes) or not isinstance(content, bytes):
        raise RefusedError("an array of other values than bytes")
    if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
        raise RefusedError("an array without a shape")
    if len(shape) > _MOST_AXES or max((*shape, 0)) >= 2**48:  # checked before numbers of any size are multiplied
        raise RefusedError(f"an array of {len(content):,} bytes for another shape")
    if math.prod(shape) != len(content):
        raise RefusedError(f"an array of {len(content):,} bytes for the shape {shape}")
    return np.frombuffer(content, np.uint8).reshape(shape, order="F" if by_columns else "C")
