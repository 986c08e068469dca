"""Token ids and splits that all datasets share. The symbols of a task have ids from `FIRST_SYMBOL`."""

from __future__ import annotations

PAD, SOS, EOS, FIRST_SYMBOL = 0, 1, 2, 3
SPECIAL = ["<pad>", "<sos>", "<eos>"]
SPLITS = ("train", "validation", "test")
_SHOWN = 80  # characters of a name


def shown(name: str) -> str:
    """The name of an id for a table or a picture, in at most 80 characters. Names of users' own labels can be long.

    >>> shown("x" * 80) == "x" * 80, shown("x" * 81) == "x" * 79 + "…"
    (True, True)
    """
    return name if len(name) <= _SHOWN else f"{name[: _SHOWN - 1]}…"
