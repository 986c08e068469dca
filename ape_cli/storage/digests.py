"""Digests inside JSON files: a file carries the SHA-256 of its own bytes in its last field, so a change is noticed.

      "sha256": "…"
    }

While the digest is computed, zeros stand in the place of its 64 digits, so that it covers every other byte.
"""

from __future__ import annotations

import hashlib
from typing import Any

FIELD = "sha256"
ZEROS = "0" * 64
_BEFORE, _AFTER = b',\n  "sha256": "', b'"\n}\n'  # the end of a JSON file, around the digits
_WITHOUT_DIGITS = _BEFORE + ZEROS.encode() + _AFTER
_TAIL = len(_BEFORE) + len(ZEROS) + len(_AFTER)


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
