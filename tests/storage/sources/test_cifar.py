"""CIFAR's binary version: the same dataset as from the hub, and errors that say what is wrong."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import numpy as np
import pytest

from ape_cli.core.errors import DataError, UsageError
from ape_cli.storage.sources import ImageSource, _cifar, open_source
from ape_cli.storage.sources._source import CLASSES
from tests.storage.sources import formats

TRAIN, TEST = [formats.part(i, 2) for i in range(5)], formats.part(9, 3)
WIDE, WIDE_TEST = formats.part(20, 6, 100), formats.part(21, 4, 100)
FINE, COARSE = CLASSES["cifar-100"], CLASSES["cifar-100-coarse"]
BINARY = formats.cifar_10_binary(TRAIN, TEST)
BINARY_100 = formats.cifar_100_binary(WIDE, WIDE_TEST, FINE, COARSE)


def hub_10(root: Path) -> Path:
    train = np.concatenate([p.pixels for p in TRAIN]), [label for p in TRAIN for label in p.labels]
    for split, (pixels, labels) in {"train": train, "test": (TEST.pixels, TEST.labels)}.items():
        file = root / f"plain_text/{split}-00000-of-00001.parquet"
        formats.parquet(file, "img", formats.pngs(pixels), {"label": labels}, {"label": formats.AIRPLANES})
    return root


def hub_100(root: Path) -> Path:
    """Class names with the misprint of the copy on the hub."""
    names = {"fine_label": ["cra" if name == "crab" else name for name in FINE], "coarse_label": COARSE}
    for split, p in {"train": WIDE, "test": WIDE_TEST}.items():
        labels = {"fine_label": p.labels, "coarse_label": p.coarse}
        file = root / f"cifar100/{split}-00000-of-00001.parquet"
        formats.parquet(file, "img", formats.pngs(p.pixels), labels, names)
    return root


def publish(monkeypatch: pytest.MonkeyPatch, path: Path, which: int) -> Path:
    """Take an archive for the published one of CIFAR-10 (0) or CIFAR-100 (1)."""
    versions = list(_cifar.VERSIONS)
    versions[which] = dataclasses.replace(versions[which], md5=hashlib.md5(path.read_bytes()).hexdigest())
    monkeypatch.setattr(_cifar, "VERSIONS", versions)
    return path


def check(source: ImageSource, name: str, train: np.ndarray, train_labels: list[int], test: np.ndarray) -> None:
    assert source.name == name
    assert source.classes == CLASSES[name]
    assert list(source.splits) == ["train", "test"]
    images = source.splits["train"]
    assert images.pixels.dtype == np.uint8
    assert images.labels.dtype == np.int64
    np.testing.assert_array_equal(images.pixels, train)
    assert images.labels.tolist() == train_labels
    np.testing.assert_array_equal(source.splits["test"].pixels, test)


def test_cifar_10_is_the_same_in_every_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [formats.tar(tmp_path / "binary.tar.gz", BINARY), hub_10(tmp_path / "hub")]
    publish(monkeypatch, paths[0], 0)
    pixels, labels = np.concatenate([p.pixels for p in TRAIN]), [label for p in TRAIN for label in p.labels]
    for path in paths:
        source = open_source(str(path))
        check(source, "cifar-10", pixels, labels, TEST.pixels)
        assert source.splits["test"].labels.tolist() == TEST.labels


def test_cifar_100_is_the_same_in_every_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [formats.tar(tmp_path / "binary.tar.gz", BINARY_100), hub_100(tmp_path / "hub")]
    publish(monkeypatch, paths[0], 1)
    for path in paths:
        for label in (None, "fine"):
            check(open_source(str(path), label), "cifar-100", WIDE.pixels, WIDE.labels, WIDE_TEST.pixels)
        check(open_source(str(path), "coarse"), "cifar-100-coarse", WIDE.pixels, WIDE.coarse, WIDE_TEST.pixels)
        with pytest.raises(UsageError, match=r"label.*\n.*'course'\n.*coarse.*fine"):
            open_source(str(path), "course")


def test_a_record_is_planes_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: byte 1 + 1024 c + 32 y + x of a record is channel c at row y and column x."""
    content = bytearray(3073)
    content[0], content[1 + 1024 * 2 + 32 * 5 + 7], content[1 + 32 * 9] = 3, 200, 100  # blue, red
    files = BINARY | {"cifar-10-batches-bin/data_batch_1.bin": bytes(content)}
    path = publish(monkeypatch, formats.tar(tmp_path / "cifar-10-binary.tar.gz", files), 0)
    first = open_source(str(path)).splits["train"]
    assert [p.name for p in tmp_path.rglob("*")] == [path.name]  # nothing is extracted
    assert first.labels[0] == 3
    assert first.pixels[0, 5, 7].tolist() == [0, 0, 200]
    assert first.pixels[0, 9, 0].tolist() == [100, 0, 0]
    assert first.pixels[0].sum() == 300


@pytest.mark.parametrize("content", [b"<html>404</html>", b""])
def test_another_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (path := tmp_path / "cifar-10-binary.tar.gz").write_bytes(content)
    with pytest.raises(DataError, match=r"not the published binary version of CIFAR\n.*MD5 [0-9a-f]{32}\n"):
        open_source(str(path))
