"""Datasets on disk: `dataset.open(DIR)` opens one.

This example reads the sample in the repository:

    >>> from ape_cli import dataset
    >>> split = dataset.open("datasets/sample/tree-ops-breadth").split("train")
    >>> len(split)
    20
    >>> batch = next(split.batches(batch_size=2))  # without a seed, the shortest rows are first
    >>> batch.source_positions[0].tolist()  # heap indices, 0 for padding
    [1, 2, 3, 0, 0]
"""

from ape_cli.data.loader import Dataset, open_dataset

open = open_dataset

__all__ = ["Dataset", "open"]
