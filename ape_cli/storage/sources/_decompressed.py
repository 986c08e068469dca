"""Decompress a file of gzip, bzip2 or xz as it is read, in limited memory.

The reader of the standard library gives an archive of xz the memory that it asks for, which may be gigabytes, and takes
its time with millions of empty streams.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from typing import Any, BinaryIO

from ape_cli.core import budget

_CHUNK = 2**16  # compressed bytes that are read at once
_BUFFER = 2**12  # decompressed bytes that are read for a header; files are read without it


class _Gzip:
    """A stream of gzip, with the methods of `bz2.BZ2Decompressor`."""

    def __init__(self) -> None:
        """Start before the header."""
        self.one = zlib.decompressobj(wbits=31)  # with the header and the checksum of gzip

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """At most `max_length` bytes. Raises `zlib.error` if the stream is damaged."""
        return self.one.decompress(self.one.unconsumed_tail + data, max_length)

    @property
    def eof(self) -> bool:
        """Whether the stream is complete."""
        return self.one.eof

    @property
    def needs_input(self) -> bool:
        """Whether there may be no more output without input."""
        return not self.one.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        """What follows the stream."""
        return self.one.unused_data


def _xz() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(memlimit=budget.ARCHIVE_MEMORY)


_KINDS: dict[bytes, Any] = {b"\x1f\x8b": _Gzip, b"BZh": bz2.BZ2Decompressor, b"\xfd7zXZ\x00": _xz}  # by first bytes
STARTS = tuple(_KINDS)


def opened(file: BinaryIO) -> BinaryIO:
    """The decompressed content of a file that is open at its start, or the file itself if it is not compressed.

    Reading it raises `EOFError` if the file is cut short, and `OSError`, `zlib.error` or `lzma.LZMAError` if it is
    damaged, if it needs too much memory, or if it has too many streams.
    """
    head = file.read(16)
    file.seek(0)
    make = next((make for start, make in _KINDS.items() if head.startswith(start)), None)
    return file if make is None else io.BufferedReader(_Decompressed(file, make), _BUFFER)


class _Decompressed(io.RawIOBase):
    """The content of the streams in a compressed file. Zeros after a stream are skipped. It cannot seek backwards."""

    def __init__(self, file: BinaryIO, make: Any) -> None:
        """Start at the beginning of `file`; `make` makes the decompressor of a stream."""
        self.file, self.make = file, make
        self.stream: Any = None
        self.rest = b""  # input that was read and not used
        self.streams = self.position = 0

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def seekable(self) -> bool:
        """Whether it can seek: only forwards."""
        return True

    def tell(self) -> int:
        """The number of bytes that were read."""
        return self.position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Read up to the position `offset`. Raises `OSError` if it is behind, or relative to another place."""
        wanted = offset + (self.position if whence == io.SEEK_CUR else 0)
        if whence == io.SEEK_END or wanted < self.position:
            raise OSError("a compressed archive is read only once")
        while self.position < wanted and self.read(min(_CHUNK, wanted - self.position)):
            pass
        return self.position

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer as far as one step of decompression goes. Returns the number of bytes, 0 at the end."""
        data = b""
        while not data and self._in_a_stream():
            more = self._input() if self.stream.needs_input else b""
            data = self.stream.decompress(more, len(buffer))
            if self.stream.eof:
                self.rest, self.stream = self.stream.unused_data, None
            elif not data and not more and self.stream.needs_input:
                raise EOFError("the compressed file is cut short")
        buffer[: len(data)] = data
        self.position += len(data)
        return len(data)

    def _in_a_stream(self) -> bool:
        """Begin the next stream if none is open, and tell whether there is one."""
        while self.stream is None:
            self.rest = (self.rest or self.file.read(_CHUNK)).lstrip(b"\0" if self.streams else b"")
            if self.rest:
                self.streams += 1
                self.stream = self.make()
            elif not self.file.peek(1):  # type: ignore[attr-defined]
                return False
        if self.streams > budget.ARCHIVE_ENTRIES:
            raise OSError(f"more than {budget.ARCHIVE_ENTRIES:,} compressed streams")
        return True

    def _input(self) -> bytes:
        """The next compressed bytes; none at the end of the file."""
        found, self.rest = self.rest or self.file.read(_CHUNK), b""
        return found
