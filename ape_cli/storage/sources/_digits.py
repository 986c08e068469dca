"""The 1,797 handwritten digits, 8x8 gray, that scikit-learn carries with it: images without any network.

Source: Alpaydin and Kaynak 1998, Optical Recognition of Handwritten Digits (UCI), the test part of it.
"""

from __future__ import annotations

import numpy as np

from ape_cli.core.errors import UsageError
from ape_cli.storage.sources._source import ImageSource, LabelledImages, chosen, of_labels


def read(label: str | None) -> ImageSource:
    chosen(label, ["label"])
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        how = "pip install -c constraints.txt '.[image]'"
        raise UsageError("digits need scikit-learn", got="it is not installed", fix=how) from error
    found = load_digits()
    pixels = np.rint(found.images[..., None] * (255 / 16)).astype(np.uint8)  # 0..16 to 0..255, [R, 8, 8, 1]
    return ImageSource("digits", list("0123456789"), {"train": LabelledImages(pixels, of_labels(found.target))})
