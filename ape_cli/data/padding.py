"""How long the rows of a batch are made: as long as its longest, or one of a few lengths.

On a GPU the operations of a step are recorded once for each shape of batch, so few shapes are better than few padded
places. Padding changes no result: it is masked, and has no labels.
"""

from __future__ import annotations

from collections.abc import Callable

Padding = Callable[[int], int]  # from the longest row of a batch, in tokens, to the length of all rows


def exact_length(length: int) -> int:
    """No longer than needed."""
    return length


def few_lengths(length: int) -> int:
    """A multiple of 8 up to 128 tokens, of 16 up to 256, of 32 up to 512, and so on: at most an eighth is added."""
    step = max(8, 1 << max(0, (length - 1).bit_length() - 4))
    return max(step, -(-length // step) * step)
