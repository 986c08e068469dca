"""What a constant guess reaches: the score of answering every label with the most frequent one.

A trained model has to be better than that. The most frequent label is that of the evaluated split itself, so no
constant answer is better. It may be the end of a sequence, which is a label of words.
"""

from __future__ import annotations

import numpy as np

from ape_cli.data.loader import ImageSplit, Split

_ROWS = 256  # in a batch; the result does not depend on it


def constant_guess(split: Split | ImageSplit) -> float:
    """The share of the labels of a split that are its most frequent label, from 0 to 1. 0 for a split without rows."""
    counts = np.zeros(1, dtype=np.int64)
    for batch in split.batches(_ROWS):
        found = np.bincount(batch.labels[batch.label_mask].numpy())
        counts = np.pad(counts, (0, max(0, len(found) - len(counts))))
        counts[: len(found)] += found
    return float(counts.max() / max(1, counts.sum()))
