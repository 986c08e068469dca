"""JSON files: read within the input budget. `digests.py` describes their digest, and `files.write_json` writes them."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from ape_cli.core import budget
from ape_cli.storage import files
from ape_cli.storage.paths import StoragePath


def read_json(path: StoragePath, limit: int = budget.JSON_BYTES) -> tuple[bytes, Any]:
    """The bytes of a JSON file of at most `limit` bytes, and the value in it.

    Raises `OSError` if the file cannot be read or is too large, and `ValueError` if it is not JSON or has too many
    values, because a parser needs hundreds of bytes of memory for each of them.
    """
    raw = files.read_bytes(path, limit)
    return raw, parse_json(raw)


def parse_json(raw: bytes, most: int = budget.JSON_VALUES) -> Any:
    """The value in JSON of at most `most` values. Raises `ValueError` if there are more, or if it is not JSON."""
    values = sum(map(raw.count, (b",", b"[", b"{"))) if len(raw) > most else 0  # a value has at least one byte
    if values > most:
        raise ValueError(f"it has up to {values:,} values; at most {most:,} are possible")
    return from_json(raw, allow_inf_nan=False)
