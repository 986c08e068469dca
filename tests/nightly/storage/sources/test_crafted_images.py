"""Crafted sources of images cost a moment: one message, within 20 seconds and 1 GiB."""

from __future__ import annotations

import io
import json
import os
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from ape_cli.core import budget
from ape_cli.core.errors import DataError
from ape_cli.storage import image_rows, sources
from tests.nightly.limits import ape
from tests.nightly.storage import end_of_process
from tests.storage.sources import formats


def test_an_image_that_a_file_stores_once_and_names_often(tmp_path: Path) -> None:
    """A file of a few kilobytes that would be 9 GiB."""
    image = b"x" * (16 * 2**20)
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 600, pa.int32()), pa.array([image], pa.binary()))
    path = tmp_path / "x.parquet"
    pq.write_table(
        pa.table({"image": column, "label": pa.array([0] * 600)}), path, compression="zstd", store_schema=False
    )
    assert path.stat().st_size < 10_000
    found = ape("gen", "images", "--source", str(path), where=tmp_path)
    assert found.code == 1
    assert "an image cannot be used" in found.err


def bombs(path: Path, shapes: list[tuple[int, int, str]]) -> Path:
    """A Parquet file of black images: height, width and mode of each. The file stores equal images once."""
    encoded = []
    for height, width, mode in shapes:
        written = io.BytesIO()
        Image.new(mode, (width, height)).save(written, "png", compress_level=9)
        encoded.append(written.getvalue())
    pq.write_table(pa.table({"image": encoded, "label": [0] * len(encoded)}), path, compression="zstd")
    return path


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(2048, 2048, "RGB")] * 20, "the images are too large"),  # 240 MiB in 12 kB
        ([(8192, 8192, "L")], "the images are too large"),
        ([(1024, 8192, "L")] * 3 + [(1024, 8192, "RGB")], ""),  # as large as it may be
        ([(4096, 8192, "RGB")], ""),
    ],
    ids=["together", "one", "gray and colour", "the largest"],
)
def test_images_that_are_much_larger_than_their_file(
    tmp_path: Path, shapes: list[tuple[int, int, str]], message: str
) -> None:
    path = bombs(tmp_path / "x.parquet", shapes)
    found = ape("gen", "images", "--source", str(path), where=tmp_path)
    assert message in found.err
    assert found.code == bool(message), found.err


def test_images_that_do_not_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="3,000,000,000,000,000 bytes of pixels"):
        budget.check_images(10**9, 1000, 1000, 3, stored=10**14)
    monkeypatch.setattr(budget, "memory", lambda: 3 * 10**6)
    budget.check_images(1, 1000, 1000, 3, stored=1)
    with pytest.raises(DataError, match="too large"):
        budget.check_images(2, 1000, 1000, 3, stored=10**9)


def test_a_dataset_of_images_that_are_much_larger_than_its_shards() -> None:
    one = image_rows.table(np.zeros(1, np.uint64), np.zeros((1, 2048, 2048, 3), np.uint8), np.zeros(1, np.int64), ["x"])
    image_rows.pixels(one, (2048, 2048, 3))
    with pytest.raises(DataError, match="9 images of 2,048 x 2,048"):
        image_rows.pixels(pa.concat_tables([one] * 9), (2048, 2048, 3))


def test_a_source_that_is_a_pipe(tmp_path: Path) -> None:
    """Opening it would wait for a writer if there were none."""
    os.mkfifo(tmp_path / "x.tar.gz")
    writer = os.open(tmp_path / "x.tar.gz", os.O_RDWR)
    try:
        os.write(writer, bytes(1024))
        with pytest.raises(DataError, match="it is no regular file"):
            sources.open_source(str(tmp_path / "x.tar.gz"))
    finally:
        os.close(writer)


def not_utf_8(texts: list[str]) -> pa.Array:
    return pa.array([text.encode("latin-1") for text in texts], pa.binary()).view(pa.string())


def named(name: str) -> dict[bytes, bytes]:
    """The metadata with two classes."""
    return {b"huggingface": json.dumps({"info": {"features": {"label": {"names": [name, "b"]}}}}).encode()}


def again(value: bytes | str, rows: int) -> pa.Array:
    """A column that stores one value once."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([value]))


TINY = formats.encoded(np.zeros((2, 2), np.uint8))
COLUMNS: dict[str, tuple[Callable[[], pa.Table], str]] = {
    "a label of 5 MB": (
        lambda: pa.table({"image": [TINY] * 5000, "label": again("x" * 5_000_000, 5000)}),
        r"too large, or no text\n  got:     1 classes, 5,000,000 characters",
    ),
    "70,000 classes": (
        lambda: pa.table({"image": again(TINY, 70_000), "label": [str(i) for i in range(70_000)]}),
        r"got:     \d{2},\d{3} classes",
    ),
    "labels that are much larger than the file": (
        lambda: pa.table({"image": [TINY] * 600, "label": ["x" * 500_000 + str(i) for i in range(600)]}),
        r"the content of .* is too large\n  got:     30\d,\d{3},\d{3} bytes, .*\n  allowed: 268,435,456 bytes",
    ),
    "labels that are not UTF-8": (
        lambda: pa.table({"image": [TINY], "label": not_utf_8(["\xff"])}),
        "a text that is not UTF-8",
    ),
    "a dictionary that is not UTF-8": (
        lambda: pa.table({"image": [TINY], "label": not_utf_8(["\xff"]).dictionary_encode()}),
        "a text that is not UTF-8",
    ),
    "a lone surrogate": (
        lambda: pa.table({"image": [TINY], "label": [0]}).replace_schema_metadata(named("\ud800")),
        "too large, or no text",
    ),
    "a billion rows": (
        lambda: pa.table({"image": again(TINY, 2**22), "label": np.zeros(2**22, np.int8)}),
        r"encoded images are much larger than their files\n  got:     16,\d{3},\d{3} bytes",
    ),
}


@pytest.mark.parametrize("which", COLUMNS)
def test_columns_of_images_and_labels(tmp_path: Path, which: str) -> None:
    make, message = COLUMNS[which]
    table = make()
    stored = table.schema.metadata is not None
    pq.write_table(table, tmp_path / "x.parquet", compression="zstd", store_schema=stored)
    with pytest.raises(DataError, match=message):
        sources.open_source(str(tmp_path / "x.parquet"))


def test_one_label_that_a_file_stores_once_and_names_often(tmp_path: Path) -> None:
    """A file of a kilobyte whose labels would be 1 GB."""
    table = pa.table({"image": [TINY] * 1000, "label": again("x" * 1_000_000, 1000)})
    for stored in (True, False):  # as a dictionary, and as texts
        pq.write_table(table, tmp_path / "x.parquet", compression="zstd", store_schema=stored)
        found = ape("gen", "images", "--source", "x.parquet", "--out", str(stored), where=tmp_path)
        assert (found.code, found.peak < 2**29) == (0, True), found.text


def test_metadata_that_are_nested(tmp_path: Path) -> None:
    """They name no classes, as other metadata that are no JSON."""
    table = pa.table({"image": [TINY], "label": [0]}).replace_schema_metadata({b"huggingface": b"[" * 100_000})
    pq.write_table(table, tmp_path / "x.parquet")
    assert sources.open_source(str(tmp_path / "x.parquet")).classes == ["0"]


@pytest.mark.parametrize("column", [[0], [{"ZZZ": 0}]], ids=["column", "nested"])
def test_names_of_columns_that_are_not_utf_8(tmp_path: Path, column: list[object]) -> None:
    name = "ZZZ" if column == [0] else "x"
    pq.write_table(pa.table({"image": [TINY], "label": [0], name: column}), tmp_path / "x.parquet", store_schema=False)
    content = (tmp_path / "x.parquet").read_bytes()
    (tmp_path / "x.parquet").write_bytes(content.replace(b"ZZZ", b"\xff\xfe\xff"))
    with pytest.raises(DataError, match="a text that is not UTF-8"):
        sources.open_source(str(tmp_path / "x.parquet"))


def test_a_footer_with_another_number_of_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"image": [TINY] * 99, "label": [0] * 99}), tmp_path / "x.parquet", store_schema=False)
    content = (tmp_path / "x.parquet").read_bytes()
    rows = content.index(b"\x16\xc6\x01\x19", content.index(b"schema"))  # 99, before the list of row groups
    for number in (b"\x16\xc4\x01\x19", b"\x16\xc8\x01\x19"):  # 98 and 100
        (tmp_path / "x.parquet").write_bytes(content[:rows] + number + content[rows + 4 :])
        with pytest.raises(DataError, match=r"another number of rows"):
            sources.open_source(str(tmp_path / "x.parquet"))


def test_no_damage_of_a_footer_ends_the_process(tmp_path: Path) -> None:
    """pyarrow ends the process if the description of a column contradicts the schema, and is looked at."""
    pq.write_table(pa.table({"image": [TINY] * 3, "label": [0, 1, 2]}), tmp_path / "x.parquet")
    end_of_process.check_footers(
        "from ape_cli.storage.sources import open_source", "open_source('x.parquet')", tmp_path
    )


def scans(number: int) -> bytes:
    """A progressive JPEG whose last scan is repeated."""
    whole = formats.encoded(np.zeros((8, 8), np.uint8), "JPEG", progressive=True)
    last = whole.rindex(b"\xff\xda")
    return whole[:last] + whole[last:-2] * (number - whole.count(b"\xff\xda") + 1) + whole[-2:]


def markers(number: int) -> bytes:
    """A JPEG with so many empty markers."""
    whole = formats.encoded(np.zeros((8, 8), np.uint8), "JPEG")
    return whole[:2] + b"\xff\xe5\0\2" * number + whole[2:]


def comments(number: int) -> bytes:
    """A plain PPM with so many comments, in which Pillow searches each one from the beginning."""
    return b"P2\n8 8\n255\n" + b"#\n" * number + b" 0" * 64


def tiled(side: int) -> bytes:
    """A TIFF of 8 x 8 whose only tile has another size."""
    data = zlib.compress(bytes(side * side))
    tags = {256: 8, 257: 8, 258: 8, 259: 8, 262: 1, 277: 1, 322: side, 323: side, 324: 134, 325: len(data)}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    return struct.pack("<2sHIH", b"II", 42, 8, len(tags)) + entries + bytes(4) + data


ENCODED: dict[str, tuple[list[bytes], str]] = {
    "as many scans as there may be": ([scans(50)], ""),
    "too many scans": ([scans(51)], "more than 50 scans"),
    "markers": ([markers(2**18)], ""),
    "too many markers": ([markers(2**21)], "more than 8,388,608 bytes"),
    "a tile": ([tiled(16)], ""),
    "a tile of 36 million pixels": ([tiled(6000)], "a tile of more than 33,554,432 pixels"),
    "comments of a PPM": ([comments(400_000)] * 4, "an image cannot be used"),
    "17 large files": ([markers(1) + bytes(2**20)] * 17, r"16,\d{3},\d{3} bytes of images or more"),
}


@pytest.mark.parametrize("which", ENCODED)
def test_encoded_images(tmp_path: Path, which: str) -> None:
    images, message = ENCODED[which]
    pq.write_table(pa.table({"image": images, "label": [0] * len(images)}), tmp_path / "x.parquet", compression="zstd")
    if not message:
        assert len(sources.open_source(str(tmp_path / "x.parquet")).splits["train"].labels) == len(images)
        return
    start = time.perf_counter()
    with pytest.raises(DataError, match=message):
        sources.open_source(str(tmp_path / "x.parquet"))
    assert time.perf_counter() - start < 5
