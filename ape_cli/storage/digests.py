"""Digests inside files: a JSON or safetensors file carries the SHA-256 of its own bytes, so that a change is noticed.

The 64 digits of the digest are a part of the file. While the digest is computed, zeros stand in their place, so that it
covers every other byte. In a JSON file the digest is the last field:

      "sha256": "…"
    }

In a safetensors file it is the first field of the JSON object in the metadata.

A digest shows that a file has the bytes that were written. It does not show who wrote them.
"""

from __future__ import annotations

import hashlib
import mmap
from pathlib import Path
from typing import Any

FIELD = "sha256"
ZEROS = "0" * 64
_BEFORE, _AFTER = b',\n  "sha256": "', b'"\n}\n'  # the end of a JSON file, around the digits
_WITHOUT_DIGITS = _BEFORE + ZEROS.encode() + _AFTER
_TAIL = len(_BEFORE) + len(ZEROS) + len(_AFTER)
_IN_METADATA = rb"{\"sha256\": \""  # the metadata of a safetensors file is JSON within JSON
_HEADER = 1 << 20  # bytes at the start of a safetensors file in which the digits must begin


class AlteredError(ValueError):
    """A file does not have the bytes that were written."""


def sealed(text: str) -> str:
    """Add the digest to a JSON object.

    `text` is the object with an indentation of two spaces, and without a field `sha256`. The result ends with a line
    break.
    """
    body = text.rstrip().removesuffix("}").rstrip().encode()
    assert body.startswith(b"{\n")
    digest = hashlib.sha256(body + _WITHOUT_DIGITS).hexdigest()
    return (body + _BEFORE + digest.encode() + _AFTER).decode()


def is_sealed(raw: bytes, value: Any) -> bool:
    """Whether a JSON file has a digest. `raw` are its bytes, and `value` is its content, which should be an object.

    Raises `AlteredError` if the digest is not that of the bytes.
    """
    if not isinstance(value, dict) or FIELD not in value:
        return False
    tail = raw[-_TAIL:]
    digits = tail[len(_BEFORE) : -len(_AFTER)]
    if tail != _BEFORE + digits + _AFTER:
        raise AlteredError("its last line is not the digest")
    total = hashlib.sha256(memoryview(raw)[:-_TAIL])
    total.update(_WITHOUT_DIGITS)
    found = total.hexdigest()
    if found.encode() != digits:
        raise AlteredError(f"sha256 {found[:16]}…, and the file says {digits[:16].decode(errors='replace')}…")
    return True


def seal_tensors(path: Path) -> None:
    """Write the digest into a safetensors file, whose metadata has zeros in its place."""
    with path.open("r+b") as file:
        place = file.read(_HEADER).index(_IN_METADATA + ZEROS.encode()) + len(_IN_METADATA)
        digest = _around(file.fileno(), place)
        file.seek(place)
        file.write(digest.encode())


def is_sealed_tensors(path: Path) -> bool:
    """Whether a safetensors file has a digest.

    Raises `AlteredError` if the digest is not that of the bytes, and `OSError` if the file cannot be read.
    """
    with path.open("rb") as file:
        start = file.read(_HEADER)
        place = start.find(_IN_METADATA)
        if place < 0:
            return False
        place += len(_IN_METADATA)
        said = start[place : place + len(ZEROS)]
        found = _around(file.fileno(), place)
    if found.encode() != said:
        raise AlteredError(f"sha256 {found[:16]}…, and the file says {said[:16].decode(errors='replace')}…")
    return True


def _around(handle: int, place: int) -> str:
    """The SHA-256 of an open file, with zeros in place of the 64 bytes from `place` on."""
    total = hashlib.sha256()
    with mmap.mmap(handle, 0, access=mmap.ACCESS_READ) as every, memoryview(every) as view:
        total.update(view[:place])
        total.update(ZEROS.encode())
        total.update(view[place + len(ZEROS) :])
    return total.hexdigest()
