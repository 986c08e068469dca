"""What XML and HTML have in common: the encoding of a document, and its limits."""

from __future__ import annotations

import re

from ape_cli.core import budget
from ape_cli.core.errors import DataError
from ape_cli.storage.tree_formats._text import decoded

_MARKS = ((b"\xff\xfe\0\0", "utf-32"), (b"\0\0\xfe\xff", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


def markup_text(content: bytes, declared: re.Pattern[bytes], cost: re.Pattern[str]) -> str:
    """The text of a document. `declared` finds the encoding that it declares; UTF-8 if it declares none.

    Raises `DataError` if it is not text in this encoding, or if it is too large for the memory of a parser: each match
    of `cost` may begin an element or an attribute.
    """
    encoding = next((name for mark, name in _MARKS if content.startswith(mark)), None)
    if encoding is None:
        found = declared.search(content, 0, 2**12)
        encoding = found[1].decode("ascii") if found and not content.startswith(b"\xef\xbb\xbf") else "utf-8"
    text = decoded(content, encoding)
    if len(text) > budget.TREE_SIZE:  # an element or an attribute has at least one character
        parts = sum(1 for _ in cost.finditer(text))
        if parts > budget.TREE_SIZE:
            got, allowed = f"up to {parts:,} elements and attributes", f"{budget.TREE_SIZE:,}"
            raise DataError("the document is too large", got=got, allowed=allowed, fix="split the file")
    return text


def too_many_attributes(what: str, count: int, most: int) -> DataError:
    """The error for a document that has or declares more attributes in one place than a parser can take quickly."""
    return DataError(f"the document {what}", got=f"{count:,}", allowed=f"{most:,}", fix="leave the file out")
