"""The 1,797 handwritten digits, 8x8 gray, that are part of scikit-learn. They need no network.

Source: Alpaydin and Kaynak 1998, Optical Recognition of Handwritten Digits (UCI), its test part.
"""

from __future__ import annotations

import numpy as np

from ape_cli.core.errors import UsageError
from ape_cli.core.extras import how_to_install
from ape_cli.storage.sources._source import ImageSource, LabelledImages, chosen, of_labels


def read(label: str | None) -> ImageSource:
    """Read the digits as one split `train`.

    Raises `UsageError` if scikit-learn is not installed, or if `label` is neither None nor "label".
    """
    chosen(label, ["label"])
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        how = how_to_install("image")
        raise UsageError("digits need scikit-learn", got="it is not installed", fix=how) from error
    found = load_digits()
    pixels = np.rint(found.images[..., None] * (255 / 16)).astype(np.uint8)  # scale 0..16 to 0..255; [R, 8, 8, 1]
    return ImageSource("digits", list("0123456789"), {"train": LabelledImages(pixels, of_labels(found.target))})
