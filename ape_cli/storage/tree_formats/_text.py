"""The text of untrusted files, and the errors about it."""

from __future__ import annotations

import codecs
import warnings

from ape_cli.core import budget
from ape_cli.core.errors import DataError

# encodings whose decoder is slow, executes escapes, or gives characters that no file can store
_REFUSED = frozenset({"idna", "punycode", "raw-unicode-escape", "unicode-escape", "utf-7"})


def damaged(what: str, line: int | None = None) -> DataError:
    """The error for content that is not of its format. `line` is counted from 1.

    >>> print(damaged("a bracket is not closed", 3))
    line 3: a bracket is not closed
    """
    return DataError(what if line is None else f"line {line:,}: {what}")


def line_at(text: str, place: int) -> int:
    """The number of the line of a character, counted from 1.

    >>> line_at("a\\nb", 2)
    2
    """
    return text.count("\n", 0, place) + 1


def decoded(content: bytes, encoding: str = "utf-8", *, most: int = budget.TREE_FILE_BYTES) -> str:
    """Decode text. A byte order mark at its start is left out. `most`: the most bytes that its parser can take.

    Raises `DataError` if it is too large or not text in this encoding, if it has a NUL character, or if the encoding is
    unknown.
    """
    if len(content) > most:
        raise DataError(f"it has {len(content):,} bytes, which is too large for its parser", allowed=f"{most:,} bytes")
    try:
        known = codecs.lookup(encoding).name.replace("_", "-")
        if known in _REFUSED:
            raise LookupError
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise damaged(f"it is not text in the encoding {encoding} ({error.reason})", line) from error
    except (LookupError, ValueError) as error:
        raise damaged(f"it has the encoding {encoding!r}, which is not supported") from error
    if "\0" in text:
        raise damaged("it has a NUL character, so it is no text", line_at(text, text.index("\0")))
    return text.removeprefix("\ufeff")
