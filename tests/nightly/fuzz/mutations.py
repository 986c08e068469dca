"""Mutations of files: of any bytes, of the values of JSON, and of the words of a text."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Sequence
from typing import Any

from ape_cli.storage import digests

# values that a reader may not expect anywhere
VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    0.5,
    1e308,
    -1e-320,
    2**31,
    2**53,
    2**64,
    2**70,
    10**400,
    "",
    "x",
    "../../x",
    "/etc/passwd",
    "=1+1",
    "a\x1b[2J\x9b|<script>\u202e",
    "\x00",
    "x" * 100_000,
    [],
    [0],
    [[]],
    {},
    {"a": 1},
    float("inf"),
    float("nan"),
]

# pieces of text that a reader may not expect anywhere
TEXTS: list[bytes] = [
    b"",
    b" ",
    b"\t",
    b"\r",
    b"\x0c",
    b"\n",
    b"\n\n",
    b"\x00",
    b"\x1b[2J",
    b"\xff",
    b"\xed\xa0\x80",  # half of a character
    "\u202e\u2028\x9b".encode(),
    "\ufeff".encode(),
    "é\u0301\U0001f600".encode(),
    b"0",
    b"-1",
    b"1e999",
    b"9" * 5000,
    b"x" * 70_000,
    b"<pad>",
    b"../../x",
    b"|<script>",
]


def of_bytes(content: bytes, chosen: random.Random) -> bytes:
    """Returns the content with one of ten changes."""
    changed = bytearray(content)
    size = len(changed)
    place = chosen.randrange(max(1, size))
    length = min(chosen.choice((1, 4, 16, 256)), size - place)
    kind = chosen.randrange(10)
    if kind <= 2 and size:
        changed[place] ^= 1 << chosen.randrange(8)
    elif kind == 3 and size:
        changed[place] = chosen.choice((0, 1, 0x7F, 0x80, 0xFF, 0x30, 0x39))
    elif kind == 4:
        del changed[place : place + length]
    elif kind == 5:
        changed[place:place] = bytes(chosen.randrange(256) for _ in range(length))
    elif kind == 6:
        del changed[place:]
    elif kind == 7:
        changed[place:place] = changed[place : place + length] * chosen.choice((1, 1000))
    elif kind == 8:
        changed[place : place + length] = bytes(length)
    else:
        other = chosen.randrange(max(1, size))
        changed[place : place + length] = changed[other : other + length]
    return bytes(changed)


def of_text(content: bytes, chosen: random.Random, words: Sequence[bytes]) -> bytes:
    """Returns the content with one of its lines or of `words` added, repeated, removed or moved."""
    lines = content.split(b"\n")
    place = chosen.randrange(len(lines))
    word = chosen.choice([*words, *TEXTS])
    column = chosen.choice((0, len(lines[place]), chosen.randrange(len(lines[place]) + 1)))
    kind = chosen.randrange(10)
    if kind <= 4:
        times = min(chosen.choice((1, 1, 1, 2, 300, 1001, 100_000)), 200_000 // max(1, len(word)))
        lines[place] = lines[place][:column] + word * times + lines[place][column:]
    elif kind == 5:
        lines[place : place + 1] = [lines[place]] * chosen.choice((0, 2, 1000))
    elif kind == 6:
        other = chosen.randrange(len(lines))
        lines[place], lines[other] = lines[other], lines[place]
    elif kind == 7:
        parts = re.split(rb"(\W)", lines[place])
        parts[chosen.randrange(len(parts))] = word
        lines[place] = b"".join(parts)
    elif kind == 8:
        lines[place] = re.sub(rb"\w+", lambda found: word, lines[place])
    else:
        encoding = chosen.choice(("utf-16", "utf-32", "utf-8-sig", "latin-1", "cp037"))
        return content.decode(errors="replace").encode(encoding, "replace")
    return b"\n".join(lines)


def _places(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Lists every container in a JSON value with each of its keys or indices."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        found.append((value, key))
        _places(value[key], found)
    return found


def of_json(content: bytes, chosen: random.Random, seal: str) -> bytes:
    """Returns the JSON object with one value changed, removed, added, repeated or nested, in the same form.

    The digest is computed again (`seal` is "sealed"), removed ("unsealed"), or it stays what it was ("json").
    """
    value = json.loads(content)
    digest = value.pop(digests.FIELD, None)
    if seal == "unsealed":
        digest = None
    container, key = chosen.choice(_places(value, []))
    kind = chosen.randrange(8)
    if kind <= 3:
        container[key] = copy.deepcopy(chosen.choice(VALUES))
    elif kind == 4:
        _, (other, its_key) = container[key], chosen.choice(_places(value, []))
        container[key] = copy.deepcopy(other[its_key])
    elif kind == 5:
        del container[key]
    elif kind == 6 and isinstance(container, dict):
        container[chosen.choice(("x", "", "../x", "a\x1b[2J", f"{key}2"))] = chosen.choice(VALUES)
    elif kind == 6:
        container += container[:1] * chosen.choice((1, 1000))
    else:
        deep: Any = container[key]
        for _ in range(chosen.choice((1, 200, 900))):
            deep = [deep]
        container[key] = deep
    text = json.dumps(value, indent=2, ensure_ascii=False)
    if seal == "sealed" and text.startswith("{\n"):
        return digests.sealed(text).encode("utf-8", "surrogatepass")
    if digest is not None and text.startswith("{\n"):
        text = f'{text[:-2]},\n  "sha256": "{digest}"\n}}\n'
    return text.encode("utf-8", "surrogatepass")
