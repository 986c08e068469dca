"""Abacus: the position of a digit is its place within its number.

Source: McLeish et al. 2024, arXiv:2405.17399, section 3 ("Abacus Embeddings"). The digits of each number, in source and
target, have positions 1, 2, … from the first one written, so numbers have to be written least significant digit first
(`reverse` of `addition`). In training, all numbers of a row start at the same random position, uniform on $1..k$, where
$k$ is the option `largest_start`; the default, 100, is that of the paper. In validation and evaluation, numbers start
at 1. All other tokens, including SOS and EOS, have position 0. The source adds a learned vector for each position to
the embeddings: that is `learned` with this map. It also combines these vectors with other encodings, which read plain
positions. Here, every scheme for sequences can read the positions of this map instead; this is ours.

The first symbols of the vocabulary have to be digits: `0`, `1` and so on, as many as the option `digits` says. The
digits of a number are neighbours, so an index hint between two digits begins a new number.

There are two published forms: the release's `abacus.py` draws starts from 1 to 100, as the paper says. The program of
its experiments draws shifts from 0 to 100, so its starts are 1 to 101. This map is the former.

Deviations: the start is drawn for each row; the release draws one for each batch. The release has a fixed table of
1,024 vectors. Here, `learned` has one for each position up to the length of the longest row of training plus the
largest shift, and larger positions share the last one.

Shapes: B rows of a batch, L tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ape_cli.core import rng
from ape_cli.core.errors import UsageError
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.data.position_maps import PositionSampler

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_MOST = 1_000_000


class Abacus(PositionSampler):
    """The place of each digit within its number, from a random start in training.

    Arguments: `largest_start`, the largest position of a first digit in training; `digits`, their number. Raises
    `UsageError` for values out of range.
    """

    synonyms = ("digit", "digits", "place-value")
    about = "the place of a digit in its number, from a random start in training"
    reads_tokens = True
    source = "McLeish et al. 2024, arXiv:2405.17399, section 3"
    option_help: ClassVar[dict[str, str]] = {
        "largest_start": "Largest position of the first digit of a number in training.",
        "digits": "Number of digits, which are the first symbols of the vocabulary.",
    }

    def __init__(self, largest_start: int = 100, digits: int = 10) -> None:
        """Check the options."""
        for name, value, least, most in (
            ("largest_start", largest_start, 1, _MOST),
            ("digits", digits, 2, len(_DIGITS)),
        ):
            if not least <= value <= most:
                allowed = f"{least} to {most:,}"
                raise UsageError(f"bad {name}", got=value, allowed=allowed, fix="choose one of those")
        self.largest_start, self.digits = largest_start, digits

    def positions(self, keys: U64, counts: I64, most: int) -> I64:
        """The places in a number of each row, shifted. uint64 [B], int64 [B] -> int64 [B, `most`]"""
        shift = rng.below(rng.bits(keys, np.array(1)), self.largest_start)
        return np.arange(1, most + 1) + shift[:, None]

    def places(self, ids: I64) -> I64:
        """The place of each digit among its neighbours that are digits, from 1; 0 for other tokens. int64 [B, L]"""
        is_digit = (ids >= FIRST_SYMBOL) & (ids < FIRST_SYMBOL + self.digits)
        index = np.arange(1, ids.shape[1] + 1)
        before = np.maximum.accumulate(np.where(is_digit, 0, index), axis=1)  # the last token that is not a digit
        return index - before

    def in_evaluation(self) -> Abacus:
        """The same without a random start."""
        return Abacus(1, self.digits)

    def greatest(self, most: int) -> int:
        """The last place, shifted as far as possible."""
        return most + self.largest_start - 1

    def misfit(self, names: Sequence[str]) -> str:
        """The reason, unless exactly the first `digits` symbols are digits, in order."""
        symbols = names[FIRST_SYMBOL:]
        found = next((n for n, name in enumerate(symbols) if name != _DIGITS[n : n + 1]), len(symbols))
        if found < 2:
            return "these symbols are not the digits of numbers, as they are in `addition`"
        return "" if found == self.digits else f"the first {found} symbols are digits, which is `digits={found}`"
