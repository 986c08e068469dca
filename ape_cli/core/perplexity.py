"""Perplexity: the exponential of a mean cross-entropy in nats for each token, or for each image. It is at least 1."""

from __future__ import annotations

import math

_LARGE = 1e6  # from here on, numbers are written with a power of ten


def perplexity(nats: float) -> float:
    """The perplexity for a mean cross-entropy. It is infinite above about 709 nats.

    For a difference of two cross-entropies, this is the ratio of their perplexities.

    >>> perplexity(0.0), perplexity(1.0), perplexity(800.0)
    (1.0, 2.718281828459045, inf)
    """
    try:
        return math.exp(nats)
    except OverflowError:
        return math.inf


def perplexity_text(value: float) -> str:
    """A perplexity or its deviation as text.

    >>> perplexity_text(64.8591), perplexity_text(2.5e9)
    ('64.86', '2.5e+09')
    """
    return f"{value:.2f}" if value < _LARGE else f"{value:.3g}"
