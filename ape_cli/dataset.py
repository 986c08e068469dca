"""Datasets on disk: `dataset.open(DIR)` opens one.

`open` is `ape_cli.data.loader.open_dataset`, which documents its arguments and errors.
"""

from ape_cli.data.loader import Dataset, open_dataset

open = open_dataset

__all__ = ["Dataset", "open"]
