"""The ids and splits that every dataset has. Symbols of a task have the ids from `FIRST_SYMBOL` on."""

from __future__ import annotations

PAD, SOS, EOS, FIRST_SYMBOL = 0, 1, 2, 3
SPECIAL = ["<pad>", "<sos>", "<eos>"]
SPLITS = ("train", "validation", "test")
