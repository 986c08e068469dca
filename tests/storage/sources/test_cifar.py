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


def binary(root: Path, files: dict[str, bytes]) -> list[Path]:
    """An archive, a folder that contains the extracted folder, and that folder."""
    inside = formats.folder(root / "inside", files)
    return [formats.tar(root / "binary.tar.gz", files), inside, next(inside.iterdir())]


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
    paths = [*binary(tmp_path, BINARY), hub_10(tmp_path / "hub")]
    publish(monkeypatch, paths[0], 0)
    pixels, labels = np.concatenate([p.pixels for p in TRAIN]), [label for p in TRAIN for label in p.labels]
    for path in paths:
        source = open_source(str(path))
        check(source, "cifar-10", pixels, labels, TEST.pixels)
        assert source.splits["test"].labels.tolist() == TEST.labels


def test_cifar_100_is_the_same_in_every_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [*binary(tmp_path, BINARY_100), hub_100(tmp_path / "hub")]
    publish(monkeypatch, paths[0], 1)
    for path in paths:
        for label in (None, "fine"):
            check(open_source(str(path), label), "cifar-100", WIDE.pixels, WIDE.labels, WIDE_TEST.pixels)
        check(open_source(str(path), "coarse"), "cifar-100-coarse", WIDE.pixels, WIDE.coarse, WIDE_TEST.pixels)
        with pytest.raises(UsageError, match=r"label.*\n.*'course'\n.*coarse.*fine"):
            open_source(str(path), "course")


def test_a_record_is_planes_of_rows(tmp_path: Path) -> None:
    """By hand: byte 1 + 1024 c + 32 y + x of a record is channel c at row y and column x."""
    content = bytearray(3073)
    content[0], content[1 + 1024 * 2 + 32 * 5 + 7], content[1 + 32 * 9] = 3, 200, 100  # blue, red
    files = BINARY | {"cifar-10-batches-bin/data_batch_1.bin": bytes(content)}
    first = open_source(str(formats.folder(tmp_path, files))).splits["train"]
    assert first.labels[0] == 3
    assert first.pixels[0, 5, 7].tolist() == [0, 0, 200]
    assert first.pixels[0, 9, 0].tolist() == [100, 0, 0]
    assert first.pixels[0].sum() == 300


def test_other_classes_in_the_same_format_are_no_cifar(tmp_path: Path) -> None:
    files = BINARY | {"cifar-10-batches-bin/batches.meta.txt": "\n".join("abcdefghij").encode()}
    source = open_source(str(formats.folder(tmp_path / "My Letters", files)))
    assert source.name == "my-letters"
    assert source.classes == list("abcdefghij")


BATCH, META = "cifar-10-batches-bin/data_batch_3.bin", "cifar-10-batches-bin/batches.meta.txt"
BROKEN: dict[str, tuple[dict[str, bytes], str]] = {
    "a missing file": (
        {k: v for k, v in BINARY.items() if k != BATCH},
        r"cannot read .*data_batch_3\.bin\n.*No such file",
    ),
    "a wrong length": (BINARY | {BATCH: BINARY[BATCH][:-1]}, r"data_batch_3\.bin has a wrong length\n.*6,145 bytes"),
    "a label out of range": (
        BINARY | {BATCH: b"\x0a" + BINARY[BATCH][1:]},
        r"a label of train is out of range\n.*10 in row 4\n.*0 to 9",
    ),
    "too many classes": (BINARY | {META: b"ab\n" * 100_000}, "100,000 classes"),
    "two sources": (BINARY | BINARY_100, "several sources of images"),
    "nothing": ({"readme.txt": b"hello"}, r"no images of a known format\n.*\n.*cifar-10-binary\.tar\.gz"),
    "the Python version": (
        {"cifar-10-batches-py/data_batch_1": b"", "cifar-10-batches-py/batches.meta": b""},
        r"no images of a known format[\s\S]*download cifar-10-binary\.tar\.gz.*the Python version of CIFAR is not read",
    ),
}


@pytest.mark.parametrize("which", BROKEN)
def test_a_folder_that_is_wrong(tmp_path: Path, which: str) -> None:
    files, message = BROKEN[which]
    with pytest.raises(DataError, match=message):
        open_source(str(formats.folder(tmp_path, files)))


def test_a_file_of_an_absurd_size_is_not_read(tmp_path: Path) -> None:
    root = formats.folder(tmp_path, BINARY)
    with (root / BATCH).open("r+b") as file:
        file.truncate(2**40)  # a sparse file, which takes no space
    with pytest.raises(DataError, match=r"cannot read .*data_batch_3\.bin\n.*more than 167,772,160 bytes"):
        open_source(str(root))


def test_an_archive_is_read_only_as_it_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = publish(monkeypatch, formats.tar(tmp_path / "cifar-10-binary.tar.gz", BINARY), 0)
    assert open_source(str(path)).name == "cifar-10"
    assert [p.name for p in tmp_path.rglob("*")] == [path.name]  # nothing is extracted
    whole = path.read_bytes()
    changed = bytearray(whole)
    changed[len(changed) // 2] ^= 4
    for content in (whole[:-4], bytes(changed), b"<html>404</html>", b""):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"not the published binary version of CIFAR\n.*MD5 [0-9a-f]{32}\n"):
            open_source(str(path))
    with path.open("r+b") as file:
        file.truncate(2**40)
    with pytest.raises(DataError, match=r"version of CIFAR\n  got:     more than 268,435,456 bytes\n"):
        open_source(str(path))
