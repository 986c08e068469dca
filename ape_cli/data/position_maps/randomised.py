"""Randomised: the positions of each row are an ordered draw, without replacement, from 1 to a maximum.

Source: Ruoss et al. 2023, arXiv:2305.16843, section 3. For a sequence of $n$ tokens, $n$ different positions are drawn
uniformly from $1..L$ and sorted, with $L$ beyond the longest sequence of training and test. The positions of long
sequences are therefore not new to a model trained on short ones. $L$ is the option `maximum`; the default, 2048, is
that of the paper.

$n$ must follow from the source alone, because the gaps between positions reveal how many were drawn. If $n$ were the
number of tokens of the answer, a position would reveal its length. An answer is therefore assumed to be `answer` times
as long as its source. In an encoder-decoder, source and target share a draw, and $n$ is `answer` times the number of
source tokens (with EOS). In a decoder-only model, where the target continues the source, it is `answer` + 1 times that
number. For tasks whose answer is as long as the source, such as `copy` and `reverse`, $n$ is exactly the length of the
sequence. A shorter answer leaves the last positions of the draw unused. A longer one raises an error that says what to
set.

Deviations: $n$ follows from the source alone; the paper's model is given the places of the answer, so it knows their
number. Evaluation draws once for each row. In an encoder-decoder, SOS has position 0, which is not drawn.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ape_cli.core import rng
from ape_cli.core.errors import UsageError
from ape_cli.core.rng import I64, U64
from ape_cli.data.position_maps import PositionSampler

_MOST = 65_536  # positions: a draw of nearly all of them takes time and memory in proportion


class Randomised(PositionSampler):
    """An ordered draw without repetition.

    Arguments: `maximum`, the greatest position; `answer`, for how many tokens of an answer positions are drawn, in
    tokens for each token of the source. Raises `UsageError` for values out of range.
    """

    synonyms = ("randomized", "random", "rpe")
    about = "an ordered draw without replacement from 1 to `maximum`"
    source = "Ruoss et al. 2023, arXiv:2305.16843, section 3"
    option_help: ClassVar[dict[str, str]] = {
        "maximum": "Largest position that can be drawn.",
        "answer": "Length of the longest answer, as a multiple of the length of its source.",
    }

    def __init__(self, maximum: int = 2048, answer: int = 1) -> None:
        """Check the options."""
        for name, value, limit in (("maximum", maximum, _MOST), ("answer", answer, 1000)):
            if not 1 <= value <= limit:
                raise UsageError(f"bad {name}", got=value, allowed=f"1 to {limit:,}", fix="choose one of those")
        self.maximum, self.answer = maximum, answer

    def positions(self, keys: U64, counts: I64, most: int) -> I64:
        """The first different values of each row's stream, as many as `counts` says, in order.

        They are a uniform draw without repetition. The first `most` of them are returned.

        uint64 [B], int64 [B] -> int64 [B, `most`], 0 beyond the counts
        """
        length = int(counts.max(initial=1))  # of the streams
        enough = False
        while not enough:  # the result does not depend on the length
            length *= 2
            values = 1 + rng.below(rng.bits(keys[:, None], np.arange(1, length + 1)), self.maximum)
            order = np.argsort(values, axis=1, kind="stable")
            ordered = np.take_along_axis(values, order, axis=1)
            first = np.ones(ordered.shape, dtype=bool)  # whether it is the first of equal values
            first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
            enough = bool((first.sum(axis=1) >= counts).all())
        index = np.where(first, order, length)  # where in the stream each value occurs first
        last = np.take_along_axis(np.sort(index, axis=1), counts[:, None] - 1, axis=1)
        result = np.zeros((len(keys), max(length, most)), dtype=np.int64)
        result[np.arange(result.shape[1]) < counts[:, None]] = ordered[index <= last]
        return result[:, :most]

    def capacity(self, sources: I64, *, joined: bool) -> I64:
        """The number of positions that are drawn for each row. int64 [B] -> the same

        Raises `UsageError` if a row needs more than there are.
        """
        counts = sources * (self.answer + joined)
        if (largest := int(counts.max(initial=0))) > self.maximum:
            what = "a row needs more positions than can be drawn"
            fix = "choose a larger `maximum`"
            raise UsageError(what, got=f"{largest:,} positions", allowed=f"{self.maximum:,} (maximum)", fix=fix)
        return counts

    def greatest(self, most: int) -> int:
        """The maximum."""
        return self.maximum

    def too_long(self, row: int, source: int, target: int) -> UsageError:
        """The error for an answer that is longer than positions were drawn for."""
        error = super().too_long(row, source, target)
        error.fix = f"`answer={-(-target // source)}`, or more"
        return error
