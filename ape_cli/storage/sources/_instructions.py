"""The instructions of a pickle, each with its argument. Nothing is executed, and no argument is read in vain.

An argument is as long as the pickle says, so an instruction that is not supported is refused before its argument is
read. The name of the instruction and the first characters of its argument are shown.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable, Collection, Iterator
from typing import Any

_KNOWN = {operation.code.encode("latin-1"): operation for operation in pickletools.opcodes}
_SHOWN = 80  # characters of an argument in a message
_TEXTS = {"BINUNICODE": 4, "SHORT_BINUNICODE": 1}  # bytes of the length before a text
_LATIN = 0xC3  # the largest byte in the UTF-8 of a text of Latin-1


class RefusedError(Exception):
    """The pickle contains something that is not data."""


def read(content: bytes, supported: Collection[str], spend: Callable[[int], None]) -> Iterator[tuple[str, Any]]:
    """Yield the name and the argument of each instruction up to STOP.

    Texts beyond Latin-1 need up to four times as much memory as the pickle. `spend` is told of it, in bytes, before
    they are decoded.

    Raises `RefusedError` for an instruction that is not among the `supported`, and `ValueError` for a damaged pickle.
    """
    stream = io.BytesIO(content)
    while code := stream.read(1):
        known = _KNOWN.get(code)
        if known is None:
            raise ValueError(f"at position {stream.tell() - 1}, an unknown instruction {code!r}")
        if known.name not in supported:
            raise RefusedError(f"the instruction {known.name}{_beginning(known, stream)}")
        if known.name in _TEXTS:
            yield known.name, _text(stream, _TEXTS[known.name], spend)
        else:
            yield known.name, None if known.arg is None else known.arg.reader(stream)
        if known.name == "STOP":
            return
    raise ValueError("no STOP at the end")


def _text(stream: io.BytesIO, width: int, spend: Callable[[int], None]) -> str:
    """Read a text, after its length of `width` bytes."""
    size = int.from_bytes(_exactly(stream, width), "little")
    data = _exactly(stream, size)
    if max(data, default=0) > _LATIN:
        spend(4 * size)
    return data.decode("utf-8", "surrogatepass")


def _exactly(stream: io.BytesIO, size: int) -> bytes:
    """Read `size` bytes. Raises `ValueError` if there are fewer."""
    data = stream.read(size)
    if len(data) < size:
        raise ValueError(f"{size:,} bytes expected, {len(data):,} are left")
    return data


def _beginning(known: pickletools.OpcodeInfo, stream: io.BytesIO) -> str:
    """The argument of an instruction for a message, if it is short."""
    if known.arg is None:
        return ""
    try:
        return f" {known.arg.reader(io.BytesIO(stream.read(2 * _SHOWN)))!r:.{_SHOWN}}"
    except ValueError:
        return ""
