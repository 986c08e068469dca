"""The length to which the rows of a batch are padded: that of the longest row, or one of a few lengths.

On a GPU the operations of a step are recorded once for each shape of batch. There, a small number of shapes matters
more than a small number of padded positions. Padding does not change results, because it is masked and has no labels.
"""

from __future__ import annotations

from collections.abc import Callable

Padding = Callable[[int], int]  # maps the length of a batch's longest row, in tokens, to the length of all rows


def exact_length(length: int) -> int:
    """The length of the longest row itself."""
    return length


def few_lengths(length: int) -> int:
    """Round up to a multiple of 8 up to 128 tokens, of 16 up to 256, of 32 up to 512, and so on.

    From 64 tokens on, this adds at most an eighth.
    """
    step = max(8, 1 << max(0, (length - 1).bit_length() - 4))
    return max(step, -(-length // step) * step)
