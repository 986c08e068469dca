"""The value of `--source`: digits, an address or a path."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ape_cli.core.errors import DataError, UsageError
from ape_cli.storage.sources import open_source
from tests.interpreters import python


def test_digits(here: Path) -> None:
    """The first digit is a zero. Its pixels 0, 5, 13, 9, 1 of 16 are 0, 79.7, 207.2, 143.4, 15.9 of 255."""
    (here / "digits").mkdir()
    found = open_source("digits")
    pictures = found.splits["train"]
    assert (found.name, found.classes, list(found.splits)) == ("digits", list("0123456789"), ["train"])
    assert pictures.pixels.shape == (1797, 8, 8, 1)
    assert pictures.pixels.dtype == np.uint8
    assert pictures.labels.dtype == np.int64
    assert pictures.pixels[0, 0, :, 0].tolist() == [0, 0, 80, 207, 143, 16, 0, 0]
    assert (pictures.pixels.min(), pictures.pixels.max()) == (0, 255)
    assert pictures.labels[:11].tolist() == [*range(10), 0]
    with pytest.raises(UsageError, match="unknown label"):
        open_source("digits", "fine")


def test_addresses_are_copied_first() -> None:
    with pytest.raises(UsageError, match="must be a local path"):
        open_source("https://example.org/x.tar.gz")


def test_what_is_not_there_or_not_known(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file or folder"):
        open_source(str(tmp_path / "cifar"))
    (tmp_path / "notes.txt").write_text("hello")
    for place in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(DataError, match="no images of a known format"):
            open_source(str(place))


def test_importing_it_imports_no_library_of_images() -> None:
    code = "import sys, ape_cli.storage.sources; print([m for m in ('PIL', 'sklearn', 'torch') if m in sys.modules])"
    assert python("-c", code).stdout.strip() == "[]"
