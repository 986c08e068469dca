"""The archives of CIFAR: the same dataset from every format, and errors that say what is wrong."""

from __future__ import annotations

import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest

from ape_cli.core.errors import DataError, UsageError
from ape_cli.storage.sources import ImageSource, open_source
from ape_cli.storage.sources._source import CLASSES
from tests.storage.sources import formats

TRAIN, TEST = [formats.part(i, 2) for i in range(5)], formats.part(9, 3)
WIDE, WIDE_TEST = formats.part(20, 6, 100), formats.part(21, 4, 100)
FINE, COARSE = CLASSES["cifar-100"], CLASSES["cifar-100-coarse"]
BINARY = formats.cifar_10_binary(TRAIN, TEST)
PYTHON = formats.cifar_10_python(TRAIN, TEST)
BINARY_100 = formats.cifar_100_binary(WIDE, WIDE_TEST, FINE, COARSE)
PYTHON_100 = formats.cifar_100_python(WIDE, WIDE_TEST, FINE, COARSE)


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


def all_formats(root: Path, binary: dict[str, bytes], python: dict[str, bytes]) -> dict[str, Path]:
    inside = formats.folder(root / "inside", binary)
    return {
        "binary.tar.gz": formats.tar(root / "binary.tar.gz", binary),
        "binary.tar": formats.tar(root / "binary.tar", binary, "w"),
        "a folder that contains it": inside,
        "the folder": next(path for path in inside.iterdir()),
        "python.tgz": formats.tar(root / "python.tgz", python),
        "python folder": formats.folder(root / "python", python),
    }


def check(found: ImageSource, name: str, train: np.ndarray, train_labels: list[int], test: np.ndarray) -> None:
    assert found.name == name
    assert found.classes == CLASSES[name]
    assert list(found.splits) == ["train", "test"]
    pictures = found.splits["train"]
    assert pictures.pixels.dtype == np.uint8
    assert pictures.labels.dtype == np.int64
    np.testing.assert_array_equal(pictures.pixels, train)
    assert pictures.labels.tolist() == train_labels
    np.testing.assert_array_equal(found.splits["test"].pixels, test)


def test_cifar_10_is_the_same_in_every_format(tmp_path: Path) -> None:
    where = all_formats(tmp_path, BINARY, PYTHON) | {"hub": hub_10(tmp_path / "hub")}
    pixels, labels = np.concatenate([p.pixels for p in TRAIN]), [label for p in TRAIN for label in p.labels]
    for place in where.values():
        found = open_source(str(place))
        check(found, "cifar-10", pixels, labels, TEST.pixels)
        assert found.splits["test"].labels.tolist() == TEST.labels


def test_cifar_100_is_the_same_in_every_format(tmp_path: Path) -> None:
    for place in (all_formats(tmp_path, BINARY_100, PYTHON_100) | {"hub": hub_100(tmp_path / "hub")}).values():
        for label in (None, "fine"):
            check(open_source(str(place), label), "cifar-100", WIDE.pixels, WIDE.labels, WIDE_TEST.pixels)
        found = open_source(str(place), "coarse")
        check(found, "cifar-100-coarse", WIDE.pixels, WIDE.coarse, WIDE_TEST.pixels)
        with pytest.raises(UsageError, match=r"label.*\n.*'course'\n.*coarse.*fine"):
            open_source(str(place), "course")


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
    found = open_source(str(formats.tar(tmp_path / "My Letters.tar.gz", files)))
    assert found.name == "my-letters"
    assert found.classes == list("abcdefghij")


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_python_3_s_own_pickles_are_read_too(tmp_path: Path, protocol: int) -> None:
    files = formats.cifar_10_python(TRAIN, TEST, lambda value: pickle.dumps(value, protocol))
    found = open_source(str(formats.folder(tmp_path, files)))
    np.testing.assert_array_equal(found.splits["test"].pixels, TEST.pixels)
    assert found.name == "cifar-10"


BATCH = "cifar-10-batches-bin/data_batch_3.bin"
BROKEN: dict[str, tuple[dict[str, bytes], str]] = {
    "a missing file": ({k: v for k, v in BINARY.items() if k != BATCH}, r"incomplete\n.*no data_batch_3\.bin"),
    "a wrong length": (BINARY | {BATCH: BINARY[BATCH][:-1]}, r"data_batch_3\.bin has a wrong length\n.*6,145 bytes"),
    "an empty file": (BINARY | {BATCH: b""}, r"data_batch_3\.bin has a wrong length\n.*0 bytes"),
    "a label out of range": (
        BINARY | {BATCH: b"\x0a" + BINARY[BATCH][1:]},
        r"a label of train is out of range\n.*10 in row 4\n.*0 to 9",
    ),
    "too few classes": (
        BINARY | {"cifar-10-batches-bin/batches.meta.txt": b"cat\n"},
        "out of range\n.*\n.*each of 1 classes",
    ),
    "two sources": (BINARY | PYTHON, "several sources of images"),
    "nothing": ({"readme.txt": b"hello"}, r"no images of a known format\n.*\n.*cifar-10-binary\.tar\.gz"),
}


@pytest.mark.parametrize("which", BROKEN)
def test_what_is_wrong_is_told_of_folders_and_archives(tmp_path: Path, which: str) -> None:
    files, told = BROKEN[which]
    for place in (formats.folder(tmp_path / "folder", files), formats.tar(tmp_path / "x.tar.gz", files)):
        with pytest.raises(DataError, match=told) as error:
            open_source(str(place))
        assert error.value.fix


@pytest.mark.parametrize("left", [40, 0.3, 0.99, -4])
@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz"])
def test_an_archive_that_was_cut_short(tmp_path: Path, left: float, mode: str) -> None:
    path = formats.tar(tmp_path / "cifar-10-binary.tar.gz", BINARY, mode)
    content = path.read_bytes()
    path.write_bytes(content[: int(left * len(content)) if 0 < left < 1 else int(left)])
    with pytest.raises(DataError, match=r"cannot read .* as a tar archive"):
        open_source(str(path))


def test_an_archive_with_a_flipped_bit_or_without_an_archive(tmp_path: Path) -> None:
    path = formats.tar(tmp_path / "cifar-10-binary.tar.gz", BINARY)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4  # in pixels that cannot be compressed, so only the checksum tells
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"cannot read .* as a tar archive"):
        open_source(str(path))
    path.write_text("<html>404</html>")
    with pytest.raises(DataError, match=r"cannot read .* as a tar archive\n.*successfully\n  allowed"):
        open_source(str(path))


def test_a_member_of_an_absurd_size_is_not_read(tmp_path: Path) -> None:
    """Only its header exists, so a reader that continues meets the end of the file instead of this error."""
    path = tmp_path / "cifar-10-binary.tar"
    member = tarfile.TarInfo("cifar-10-batches-bin/data_batch_1.bin")
    member.size = 2**40
    path.write_bytes(member.tobuf() + bytes(1024))
    with pytest.raises(DataError, match=r"too large.*\n.*1,099,511,627,776 bytes"):
        open_source(str(path))


def test_a_file_of_an_absurd_size_is_not_read(tmp_path: Path) -> None:
    root = formats.folder(tmp_path, BINARY)
    with (root / BATCH).open("r+b") as file:
        file.truncate(2**40)  # a sparse file, which takes no space
    with pytest.raises(DataError, match=r"too large.*data_batch_3\.bin\n.*1,099,511,627,776 bytes"):
        open_source(str(root))


def test_members_are_files_once_and_are_not_extracted(tmp_path: Path) -> None:
    path = formats.tar(tmp_path / "archives" / "x.tar.gz", {f"../{name}": content for name, content in BINARY.items()})
    assert open_source(str(path)).name == "cifar-10"
    assert [p.name for p in tmp_path.rglob("*")] == ["archives", "x.tar.gz"]
    linked = tmp_path / "linked.tar"
    formats.tar(linked, {k: v for k, v in BINARY.items() if k != BATCH}, "w")
    with tarfile.open(linked, "a") as archive:
        link = tarfile.TarInfo(BATCH)
        link.type, link.linkname = tarfile.SYMTYPE, "data_batch_1.bin"
        archive.addfile(link)
    with pytest.raises(DataError, match=r"incomplete\n.*no data_batch_3\.bin"):
        open_source(str(linked))
    with tarfile.open(linked, "a") as archive:
        archive.addfile(tarfile.TarInfo("cifar-10-batches-bin/test_batch.bin"))
    with pytest.raises(DataError, match="occurs twice"):
        open_source(str(linked))
