"""Labelled images in Parquet: columns, classes, splits, and the images that are allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from ape_cli.core.errors import DataError, UsageError
from ape_cli.storage.sources import open_source
from tests.storage.sources import formats

RNG = np.random.default_rng(3)
GRAY = RNG.integers(0, 256, (5, 4, 6), dtype=np.uint8)  # 5 images, 4 rows of 6
RGB = RNG.integers(0, 256, (5, 4, 6, 3), dtype=np.uint8)
LABELS = {"label": [0, 1, 2, 1, 0]}


def one(path: Path, images: list[Any], labels: dict[str, Any] = LABELS, **rest: Any) -> str:
    return str(formats.parquet(path / "My Birds.parquet", "image", images, labels, **rest))


def fails(where: str | Path, told: str, label: str | None = None, kind: type = DataError) -> None:
    with pytest.raises(kind, match=told):
        open_source(str(where), label)


# Columns and classes


def test_a_file_is_all_train_and_classes_are_numbers_without_metadata(tmp_path: Path) -> None:
    found = open_source(one(tmp_path, formats.pngs(RGB)))
    assert (found.name, found.classes, list(found.splits)) == ("my-birds", ["0", "1", "2"], ["train"])
    np.testing.assert_array_equal(found.splits["train"].pixels, RGB)
    assert found.splits["train"].labels.tolist() == LABELS["label"]
    assert found.splits["train"].labels.dtype == np.int64


def test_names_of_classes_are_those_of_the_metadata_also_without_images(tmp_path: Path) -> None:
    found = open_source(one(tmp_path, formats.pngs(GRAY), names={"label": ["x", "a", "m", "unseen"]}))
    assert found.classes == ["x", "a", "m", "unseen"]
    assert found.splits["train"].pixels.shape == (5, 4, 6, 1)
    np.testing.assert_array_equal(found.splits["train"].pixels[..., 0], GRAY)


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int8(), pa.string())])
def test_texts_are_classes_in_their_order_over_all_splits(tmp_path: Path, kind: pa.DataType) -> None:
    for split, texts in {"train": ["wren", "owl", "wren"], "test": ["kite", "owl"]}.items():
        labels = {"species": pa.array(texts).cast(kind)}
        formats.parquet(tmp_path / f"{split}.parquet", "photo", formats.pngs(RGB[: len(texts)]), labels)
    found = open_source(str(tmp_path))
    assert found.classes == ["kite", "owl", "wren"]
    assert {name: p.labels.tolist() for name, p in found.splits.items()} == {"train": [2, 1, 2], "test": [0, 1]}


def test_which_labels_is_asked_where_it_is_not_clear(tmp_path: Path) -> None:
    """The metadata decides, then the name, and then the fact that there is no other column."""
    two = {"genus": [0, 0, 1, 1, 1], "species": [4, 3, 2, 1, 0]}
    where = one(tmp_path, formats.pngs(RGB), two)
    fails(where, r"several columns of labels.*\n.*genus, species", kind=UsageError)
    fails(where, r"unknown column of labels\n.*'spcies'\n.*\n.*'species'", "spcies", UsageError)
    assert open_source(where, "species").splits["train"].labels.tolist() == two["species"]
    named = one(tmp_path, formats.pngs(RGB), two, names={"genus": ["a", "b"]})
    assert open_source(named).classes == ["a", "b"]
    assert open_source(named, "species").classes == list("01234")
    by_name = one(tmp_path, formats.pngs(RGB), {"row": [0, 1, 2, 3, 4], **LABELS, "size": [4] * 5})
    assert open_source(by_name).splits["train"].labels.tolist() == LABELS["label"]
    fails(one(tmp_path, formats.pngs(RGB), {"weight": [0.5] * 5}), "no column of labels", kind=UsageError)


def test_shards_are_read_in_their_order(tmp_path: Path) -> None:
    for i in (2, 0, 1):
        file = tmp_path / f"data/train-{i:05d}-of-00003.parquet"
        formats.parquet(file, "img", formats.pngs(RGB[[i]]), {"label": [i]})
    found = open_source(str(tmp_path)).splits["train"]
    np.testing.assert_array_equal(found.pixels, RGB[:3])
    assert found.labels.tolist() == [0, 1, 2]


@pytest.mark.parametrize("kind", [pa.binary(), pa.binary_view()])
def test_more_images_than_are_read_at_once(tmp_path: Path, kind: pa.DataType) -> None:
    pixels = np.random.default_rng(5).integers(0, 256, (600, 2, 2), dtype=np.uint8)
    table = {"x": pa.array(formats.pngs(pixels), kind), "label": np.arange(600) % 7}
    pq.write_table(pa.table(table), tmp_path / "a.parquet", row_group_size=250)
    found = open_source(str(tmp_path / "a.parquet")).splits["train"]
    np.testing.assert_array_equal(found.pixels[..., 0], pixels)
    assert found.labels.tolist() == [i % 7 for i in range(600)]


# Splits

NAMES = {
    "the hub": ["data/train-00000-of-00001-0a1b.parquet", "data/validation-0.parquet", "data/test-0.parquet"],
    "folders": ["train/x.parquet", "dev/x.parquet", "testing/x.parquet"],
    "a configuration": ["plain_text/my_train.parquet", "plain_text/valid.parquet", "plain_text/eval.parquet"],
}


@pytest.mark.parametrize("which", NAMES)
def test_splits_by_their_names(tmp_path: Path, which: str) -> None:
    root = tmp_path / "test-birds"  # its own name says nothing
    for i, name in enumerate(NAMES[which]):
        formats.parquet(root / name, "img", formats.pngs(GRAY[[i]]), {"label": [i]})
    formats.parquet(root / ".cache/train-1.parquet", "img", formats.pngs(GRAY[[4]]), {"label": [4]})
    found = open_source(str(root))
    assert found.name == "test-birds"
    assert {name: p.labels.tolist() for name, p in found.splits.items()} == {
        "train": [0],
        "validation": [1],
        "test": [2],
    }


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["train.parquet", "more.parquet"], r"belongs to no split, but others do\n.*more\.parquet"),
        (["train-test.parquet"], "a file name contains two splits"),
        (["a/train.parquet", "b/train.parquet"], "train in several folders"),
        (["test.parquet"], "no images to train on"),
        (["train-00001-of-00003.parquet"], r"a shard of train is missing\n.*1 of 3"),
    ],
)
def test_splits_that_are_not_clear(tmp_path: Path, names: list[str], told: str) -> None:
    for name in names:
        formats.parquet(tmp_path / name, "img", formats.pngs(GRAY), LABELS)
    fails(tmp_path, told)


# Images


def test_what_is_converted(tmp_path: Path) -> None:
    """Palettes, CMYK and one bit by Pillow's definitions, worked out by hand."""
    flat = Image.new("P", (6, 4))
    flat.putpalette([0, 0, 0, 10, 20, 30])
    flat.paste(1, (0, 0, 6, 4))
    ink = formats.encoded(Image.new("CMYK", (6, 4), (255, 0, 0, 0)), "TIFF")
    found = open_source(one(tmp_path, [formats.encoded(flat), ink], {"label": [0, 1]}))
    assert found.splits["train"].pixels[:, 2, 3].tolist() == [[10, 20, 30], [0, 255, 255]]
    bits = Image.new("1", (6, 4))
    bits.putpixel((5, 1), 1)
    found = open_source(one(tmp_path, [formats.encoded(bits)], {"label": [0]}))
    assert found.splits["train"].pixels.shape == (1, 4, 6, 1)
    assert np.argwhere(found.splits["train"].pixels).tolist() == [[0, 1, 5, 0]]
    assert found.splits["train"].pixels.max() == 255


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0]])
def test_gray_beside_rgb_is_rgb_in_all_splits(tmp_path: Path, order: list[int]) -> None:
    images = [formats.encoded(GRAY[0]), formats.encoded(GRAY[1]), formats.encoded(RGB[2])]
    wanted = np.stack([np.stack([GRAY[0]] * 3, -1), np.stack([GRAY[1]] * 3, -1), RGB[2]])
    formats.parquet(tmp_path / "train.parquet", "img", [images[i] for i in order], {"label": [0, 1, 2]})
    formats.parquet(tmp_path / "test.parquet", "img", images[:2], {"label": [0, 1]})
    found = open_source(str(tmp_path))
    np.testing.assert_array_equal(found.splits["train"].pixels, wanted[order])
    np.testing.assert_array_equal(found.splits["test"].pixels, wanted[:2])


def moving() -> bytes:
    return formats.encoded(
        Image.fromarray(GRAY[0]), "GIF", save_all=True, append_images=[Image.fromarray(GRAY[1])], duration=10
    )


ODD = {
    "transparent": (formats.encoded(Image.new("RGBA", (6, 4))), r"cannot be used\n.*transparency \(row 1 of"),
    "16 bits": (formats.encoded(Image.new("I;16", (6, 4))), r"cannot be used\n.*mode I;16 \(row 1 of"),
    "moving": (moving(), "several frames"),
    "no image": (b"hello", r"cannot be used\n.*cannot identify .*\(row 1 of"),
    "another size": (formats.encoded(RGB[0][:, :5]), r"different sizes\n.*4 x 5, row 1 of .*\n.*4 x 6, as the first"),
    "null": (None, r"a row without an image.*\n.*row 1 of"),
}


@pytest.mark.parametrize("which", ODD)
def test_images_that_are_refused(tmp_path: Path, which: str) -> None:
    image, told = ODD[which]
    fails(one(tmp_path, [formats.encoded(RGB[0]), image], {"label": [0, 1]}), told)


def test_images_are_turned_as_their_camera_says(tmp_path: Path) -> None:
    """Orientation 6: the first row is the right-hand side, as in `load_dataset`."""
    camera = Image.Exif()
    camera[0x0112] = 6
    flat = Image.new("RGB", (6, 4), (0, 0, 0))
    flat.paste((255, 255, 255), (0, 0, 6, 1))
    found = open_source(one(tmp_path, [formats.encoded(flat, exif=camera)], {"label": [0]})).splits["train"].pixels
    assert found.shape == (1, 6, 4, 3)
    assert found[0, :, 3].min() == 255
    assert found[0, :, :3].max() == 0


# Other errors


@pytest.mark.parametrize(
    ("labels", "names", "told"),
    [
        ([0, 1, None, 1, 0], None, r"without a label\n.*row 2 of"),
        ([0, 1, -1, 1, 0], None, r"out of range\n.*-1 in row 2"),
        ([0, 1, 2, 1, 0], ["a", "b"], r"out of range\n.*2 in row 2\n.*0 to 1"),
        ([0, 1, 10**9, 1, 0], None, r"numbers of label are not labels\n.*1000000000"),
    ],
)
def test_labels_that_are_refused(tmp_path: Path, labels: list[int], names: list[str] | None, told: str) -> None:
    fails(one(tmp_path, formats.pngs(RGB), {"label": labels}, names={"label": names} if names else None), told)


def test_columns_of_images_are_one(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": formats.pngs(RGB), "y": formats.pngs(RGB), **LABELS}), tmp_path / "a.parquet")
    fails(tmp_path / "a.parquet", r"several columns of images.*\n.*x, y")
    pq.write_table(pa.table({"x": ["a.png"] * 5, **LABELS}), tmp_path / "a.parquet")
    fails(tmp_path / "a.parquet", r"no column of images.*\n.*x, label")


def test_all_files_have_the_same_columns(tmp_path: Path) -> None:
    formats.parquet(tmp_path / "train.parquet", "img", formats.pngs(RGB), LABELS)
    formats.parquet(tmp_path / "test.parquet", "image", formats.pngs(RGB), LABELS)
    fails(tmp_path, r"test\.parquet has different columns from the first file\n.*img: struct")
    formats.parquet(tmp_path / "test.parquet", "img", formats.pngs(RGB), {"label": list("abcde")})
    fails(tmp_path, r"test\.parquet has different columns from the first file\n.*label: int64")


def test_all_files_name_the_same_classes(tmp_path: Path) -> None:
    """A file without names has those of the others."""
    for split, names in {"train": ["x", "a", "m"], "validation": None, "test": ["a", "m", "x"]}.items():
        path = tmp_path / f"{split}.parquet"
        formats.parquet(path, "image", formats.pngs(RGB), LABELS, names=names and {"label": names})
    fails(tmp_path, r"test\.parquet names different classes from the first file\n.*'a', 'm', 'x'.*\n.*'x', 'a', 'm'")
    (tmp_path / "test.parquet").unlink()
    assert open_source(str(tmp_path)).classes == ["x", "a", "m"]
