"""Crafted Parquet files of images cost a moment: one message, within 20 seconds and 1 GiB."""

from __future__ import annotations

import hashlib
import json
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ape_cli.core.errors import DataError
from ape_cli.storage import sources
from tests.nightly.limits import ape
from tests.nightly.storage import end_of_process
from tests.storage.sources import formats


def source_of(folder: Path, files: dict[str, bytes]) -> str:
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    return str(folder)


NAMES: dict[str, tuple[dict[str, bytes], str]] = {
    "a text of 5 MiB": ({"batches.meta.txt": b"ab\n" * (5 * 2**20 // 3)}, "the names of the classes are too large"),
    "100,000 lines": ({"batches.meta.txt": b"ab\n" * 100_000}, "100,000 classes"),
    "one name again and again": (
        {
            "batches.meta": b"\x80\x02}U\x0blabel_names]T\x00\x00\x10\x00"
            + b"a" * 2**20
            + b"q\x00a("
            + b"h\x00" * 9
            + b"es."
        },
        r"10 classes, 10,485,760 characters",
    ),
    "a lone surrogate": (
        {"batches.meta": b"\x80\x02}U\x0blabel_names]X\x03\x00\x00\x00\xed\xa0\x80as."},
        r"no text\n  got:     '\\ud800'",
    ),
}


@pytest.mark.parametrize("which", NAMES)
def test_names_of_classes(tmp_path: Path, which: str) -> None:
    changed, message = NAMES[which]
    make = formats.cifar_10_binary if "batches.meta.txt" in changed else formats.cifar_10_python
    files = make([formats.part(i, 1) for i in range(5)], formats.part(9, 1))
    where = source_of(tmp_path, {Path(name).name: content for name, content in files.items()} | changed)
    with pytest.raises(DataError, match=message):
        sources.open_source(where)


def not_utf_8(texts: list[str]) -> pa.Array:
    return pa.array([text.encode("latin-1") for text in texts], pa.binary()).view(pa.string())


def named(name: str) -> dict[bytes, bytes]:
    """The metadata with two classes."""
    return {b"huggingface": json.dumps({"info": {"features": {"label": {"names": [name, "b"]}}}}).encode()}


def again(value: bytes | str, rows: int) -> pa.Array:
    """A column that stores one value once."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([value]))


def random(rows: int) -> list[bytes]:
    """As many bytes as images have, but none."""
    return [hashlib.blake2b(b"%d" % row).digest() for row in range(rows)]


TINY = formats.encoded(np.zeros((2, 2), np.uint8))
COLUMNS: dict[str, tuple[Callable[[], pa.Table], str]] = {
    "a label of 5 MB": (
        lambda: pa.table({"image": [TINY] * 5000, "label": again("x" * 5_000_000, 5000)}),
        r"1 classes, 5,000,000 characters",
    ),
    "labels that are large together": (
        lambda: pa.table({"image": [TINY] * 500, "label": [f"{i:010000d}" for i in range(500)]}),
        r"5,000,000 characters",
    ),
    "70,000 classes": (
        lambda: pa.table({"image": random(70_000), "label": [str(i) for i in range(70_000)]}),
        r"got:     \d{2},\d{3} classes",
    ),
    "labels that the file stores once and that are large together": (
        lambda: pa.table({"image": [TINY] * 600, "label": ["x" * 200_000 + str(i) for i in range(600)]}),
        r"labels of .* are too large\n  got:     12\d,\d{3},\d{3} bytes",
    ),
    "labels that are much larger than the file": (
        lambda: pa.table({"image": [TINY] * 600, "label": ["x" * 500_000 + str(i) for i in range(600)]}),
        r"a row group of .* is too large\n  got:     30\d,\d{3},\d{3} bytes\n  allowed: 268,435,456 bytes",
    ),
    "labels that are not UTF-8": (lambda: pa.table({"image": [TINY], "label": not_utf_8(["\xff"])}), r"b'\\xff'"),
    "a dictionary that is not UTF-8": (
        lambda: pa.table({"image": [TINY], "label": not_utf_8(["\xff"]).dictionary_encode()}),
        r"b'\\xff'",
    ),
    "a lone surrogate": (
        lambda: pa.table({"image": [TINY], "label": [0]}).replace_schema_metadata(named("\ud800")),
        r"no text\n  got:     '\\ud800'",
    ),
    "large metadata": (
        lambda: pa.table({"image": [TINY], "label": [0]}).replace_schema_metadata(named("x" * 2**23)),
        r"the footer of .* is too large",
    ),
    "a billion rows": (
        lambda: pa.table({"image": again(TINY, 2**22), "label": np.zeros(2**22, np.int8)}),
        r"4,194,304 images in [\d,]+ bytes\n  allowed: 65,536 images",
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
    with pytest.raises(DataError, match="a name that is not UTF-8"):
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
    "too many markers": ([markers(2**18)], "more than 262,144 parts"),
    "a tile": ([tiled(16)], ""),
    "a tile of 36 million pixels": ([tiled(6000)], "a tile of more than 33,554,432 pixels"),
    "comments of a PPM": ([comments(400_000)] * 4, "an image cannot be decoded"),
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
