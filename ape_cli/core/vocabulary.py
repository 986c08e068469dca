"""Token ids and splits that all datasets share. The symbols of a task have ids from `FIRST_SYMBOL`."""

from __future__ import annotations

PAD, SOS, EOS, FIRST_SYMBOL = 0, 1, 2, 3
SPECIAL = ["<pad>", "<sos>", "<eos>"]
SPLITS = ("train", "validation", "test")
