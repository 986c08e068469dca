"""Crafted inputs cost a moment: each ends with one message, within 20 seconds and 1 GiB."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import os
import shutil
import struct
import tarfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from ape_cli import tasks
from ape_cli.core import budget, plugins
from ape_cli.core.errors import DataError, UsageError
from ape_cli.data import manifest
from ape_cli.data.loader import Dataset, open_dataset
from ape_cli.runs.registry import open_registry
from ape_cli.storage import files, image_rows, sources
from ape_cli.storage.sources import _folders, _pickled
from ape_cli.sweep import specification
from tests.limits import ape
from tests.registered import edit
from tests.reports.test_aggregation import add
from tests.storage.sources import formats
from tests.storage.sources.test_pickled import array

# Datasets and runs


def test_a_manifest_with_a_trillion_shards(words: Dataset, tmp_path: Path) -> None:
    """It is refused, and it does not keep other datasets from being used."""
    (tmp_path / "datasets").mkdir()
    for name in ("good", "bad"):
        shutil.copytree(str(words.folder), tmp_path / "datasets" / name)
    bad = tmp_path / "datasets" / "bad"
    edit(
        bad / "manifest.json",
        lambda fields: fields["plan"].update(rows={"train": 10**12, "validation": 1, "test": 1}, shard_rows=1),
    )
    with pytest.raises(DataError, match=r"1,000,000,000,002 shards of 1 rows; at most 20,000 are possible"):
        manifest.read_manifest(bad)
    settings = ("--scheme", "rope", "--preset", "tiny", "--set", "steps=1", "--device", "cpu")
    found = ape("train", *settings, where=tmp_path)
    assert (found.code, "data: datasets/good, the newest" in found.err) == (0, True)


def test_gen_with_too_many_shards(tmp_path: Path) -> None:
    found = ape("gen", "copy", "--n", "1000000000", "--shard-rows", "1", where=tmp_path)
    assert found.code == 2
    assert "too many shards" in found.err
    assert "fix:     --shard-rows 100000" in found.err
    assert not list(tmp_path.iterdir())


def test_more_shards_than_files_may_be_open(tmp_path: Path) -> None:
    """1,200 shards, in a process that may open 64 files."""
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from pathlib import Path
from tests.conftest import write
from ape_cli import tasks
from ape_cli.data import generation
from ape_cli.data.loader import open_dataset
task = tasks.make("copy", length_mean=5, length_std=1)
rows = {{"train": 200, "validation": 3, "test": 3}}
generation.generate(task, generation.plan(task, seed=1, rows=rows, shard_rows=1), Path({str(tmp_path)!r}) / "d")
split = open_dataset({str(tmp_path / "d")!r}).split("train")
print(split.table().num_rows, sum(len(batch.row) for batch in split.batches(16, seed=1)))
"""
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "200 200\n", done.stderr


def test_what_is_no_regular_file_is_not_waited_for(words: Dataset, tmp_path: Path) -> None:
    """Opening a pipe waits for a writer."""
    folder = shutil.copytree(str(words.folder), tmp_path / "d")
    (folder / "manifest.json").unlink()
    os.mkfifo(folder / "manifest.json")
    with pytest.raises(DataError, match="no regular file"):
        manifest.read_manifest(folder)
    add(tmp_path, "rope", 0.5)
    (run,) = (tmp_path / "runs").iterdir()
    for path in (run / "run.json", next((run / "eval").iterdir())):
        path.unlink()
        os.mkfifo(path)
    bad: list[str] = []
    assert list(open_registry(tmp_path).sound(bad)) == []
    assert "no regular file" in bad[0]


def test_a_file_is_not_read_beyond_its_budget(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with path.open("wb") as file:
        file.truncate(budget.JSON_BYTES + 1)
    with pytest.raises(OSError, match="more than 8,388,608 bytes"):
        files.read_bytes(path)
    os.truncate(path, budget.JSON_BYTES)
    assert len(files.read_bytes(path)) == budget.JSON_BYTES


def test_links_that_lead_nowhere_or_to_themselves(tmp_path: Path) -> None:
    add(tmp_path, "rope", 0.5)
    (tmp_path / "runs" / "loop").symlink_to(tmp_path / "runs" / "loop")
    (tmp_path / "runs" / "gone").symlink_to(tmp_path / "nothing")
    for words in (("runs",), ("report",), ("sweep", "--schemes", "rope", "--tasks", "copy", "--dry-run")):
        found = ape(*words, "--results", str(tmp_path), where=tmp_path)
        assert found.code == 0, found.err


def test_rows_of_a_run_that_would_be_drawn_again(tmp_path: Path) -> None:
    """The sizes that training saw are drawn again from the task, so their number is limited."""
    from ape_cli.reports.views import by_size

    trained = {"task": "copy", "order": None, "parameters": {}, "seed": 1, "rows": {"train": 10**12}}
    start = time.perf_counter()
    assert by_size.seen(trained) is None
    assert time.perf_counter() - start < 1


def test_a_row_group_with_too_many_values(words: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "GROUP_VALUES", 50)
    with pytest.raises(DataError, match=r"a row group of .* is too large"):
        open_dataset(words.folder)


# Sources of images


def test_numbers_of_any_length_in_a_shape() -> None:
    """2,000 numbers of 255 bytes."""
    number = b"\x8a\xff" + b"\x7f" * 255
    shape = b"(" + number + b"q\x00" + b"h\x00" * 2000 + b"t"
    start = time.perf_counter()
    with pytest.raises(DataError, match="for another shape"):
        _pickled.load("x", array(shape=shape))
    assert time.perf_counter() - start < 1


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
    assert "an image cannot be decoded" in found.err


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


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    made = tarfile.TarInfo(name)
    made.size, made.type = size, kind
    return made.tobuf(tarfile.GNU_FORMAT)


def sparse(places: bytes) -> bytes:
    """An archive with a file in the GNU format 1.0 of sparse files, whose list of places is `places`."""
    made = tarfile.TarInfo("x")
    made.size = len(places)
    names = {"major": "1", "minor": "0", "name": "train", "realsize": "10"}
    made.pax_headers = {f"GNU.sparse.{name}": value for name, value in names.items()}
    return made.tobuf(tarfile.PAX_FORMAT) + places


def tar(path: Path, *members: tuple[tarfile.TarInfo, int]) -> Path:
    """A compressed archive of zeros."""
    with tarfile.open(path, "w:gz") as archive:
        for member, size in members:
            member.size = size
            archive.addfile(member, io.BytesIO(bytes(size)))
    return path


ARCHIVES: dict[str, tuple[Callable[[], bytes], str]] = {
    "a name of 3 GiB": (lambda: header("x", 3 * 2**30, tarfile.GNUTYPE_LONGNAME), "a header of 3,221,225,472 bytes"),
    "an extended header of 3 GiB": (lambda: header("x", 3 * 2**30, tarfile.XHDTYPE), "a header of 3,221,225,472 bytes"),
    "3,000 long names": (
        lambda: (header("x", 512, tarfile.GNUTYPE_LONGNAME) + b"a" * 512) * 3000,
        "cannot read .* as a tar archive",
    ),
    "100,000 entries": (lambda: header("x", 0) * 100_000, "too large for CIFAR"),
    "a sparse map without an end": (
        lambda: sparse(b"999999999\n"),
        "cannot read .* as a tar archive",
    ),
}


@pytest.mark.parametrize("which", ARCHIVES)
def test_crafted_archives(tmp_path: Path, which: str) -> None:
    make, message = ARCHIVES[which]
    path = tmp_path / "cifar.tar.gz"
    path.write_bytes(gzip.compress(make()))
    start = time.perf_counter()
    with pytest.raises(DataError, match=message):
        _folders.in_tar(path, {"train"})
    assert time.perf_counter() - start < 10


def test_many_members_that_are_large_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "ARCHIVE_BYTES", 2**20)
    path = tar(tmp_path / "x.tar.gz", *((tarfile.TarInfo(f"d/{i}"), 2**18) for i in range(12)))
    with pytest.raises(DataError, match=r"too large for CIFAR[\s\S]*1,048,576 bytes"):
        _folders.in_tar(path, {"train"})
    path.write_bytes(path.read_bytes() + gzip.compress(bytes(2**22)))  # after the last member
    monkeypatch.setattr(budget, "ARCHIVE_BYTES", 2**22)
    with pytest.raises(DataError, match="too large for CIFAR"):
        _folders.in_tar(path, {"train"})


def test_wanted_members_that_are_large_together(tmp_path: Path) -> None:
    """They are kept in memory, so the archive is refused long before they need a gigabyte."""
    members = ((tarfile.TarInfo(f"{i}/data_batch_1.bin"), 80 * 2**20) for i in range(5))
    path = tar(tmp_path / "x.tar.gz", *members)
    found = ape("gen", "images", "--source", str(path), where=tmp_path)
    assert found.code == 1
    assert "too large for CIFAR" in found.err
    assert found.peak < 2**29


def test_files_of_a_folder_that_are_large_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin", "batches.meta.txt"]
    for name in names:
        (tmp_path / name).write_bytes(bytes(3073 * 10))
    monkeypatch.setattr(budget, "ARCHIVE_BYTES", 3073 * 59)
    with pytest.raises(DataError, match=r"too large for CIFAR[\s\S]*181,307 bytes"):
        sources.open_source(str(tmp_path))


def test_sparse_members_are_skipped(tmp_path: Path) -> None:
    """A sparse file of 100 MiB that takes no room in the archive."""
    path = tmp_path / "x.tar.gz"
    block = bytearray(header("train", 0, tarfile.GNUTYPE_SPARSE))
    block[483:495] = b"00" + b"%010o" % (100 * 2**20)  # its real size
    block[148:156] = b"        "
    block[148:156] = b"%06o\0 " % sum(block)
    path.write_bytes(gzip.compress(bytes(block) + bytes(1024)))
    assert _folders.in_tar(path, {"train"}) == {}


def test_an_archive_of_xz_that_asks_for_gigabytes(tmp_path: Path) -> None:
    """The size of the dictionary is one byte of a header. The archive is read until it would be needed."""
    content = bytearray(lzma.compress(header("x", 2**20) + bytes(2**20)))
    size = (content[12] + 1) * 4  # of the header of the block, whose checksum is at its end
    content[12 + content[12:].index(b"\x21\x01") + 2] = 39  # 3 GiB
    content[8 + size : 12 + size] = struct.pack("<I", zlib.crc32(content[12 : 8 + size]))
    path = tmp_path / "x.tar.xz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"cannot read .* as a tar archive\n.*[Mm]emory usage limit"):
        _folders.in_tar(path, {"train"})


def test_streams_without_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "ARCHIVE_ENTRIES", 3)
    path = tmp_path / "x.tar.gz"
    whole = header("d/train", 3) + b"abc" + bytes(509 + 1024)
    for parts, message in (((whole[:700], b"", whole[700:]), None), ((whole, b"", b"", b""), "more than 3 compressed")):
        path.write_bytes(b"".join(map(gzip.compress, parts)) + bytes(100))
        if message is None:
            assert _folders.in_tar(path, {"train"})[f"{path}: d"]["train"]() == b"abc"
        else:
            with pytest.raises(DataError, match=message):
                _folders.in_tar(path, {"train"})


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


@pytest.mark.slow
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


@pytest.mark.slow
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


# Sweeps

SWEEPS: dict[str, tuple[Callable[[], str], str]] = {
    "a billion trials": (
        lambda: (
            'schemes = ["rope"]\ntasks = ["copy"]\n[set]\n'
            + "\n".join(
                f"{key} = [{', '.join(f'0.{i:03d}1' for i in range(1000))}]" for key in ("dropout", "decay", "lr_peak")
            )
        ),
        "too many trials",
    ),
    "a dotted key": (lambda: "a." * 20_000 + "b = 1", "a key with more than 8 parts"),
    "a quoted dotted key": (lambda: '"a" . ' * 20_000 + "b = 1", "a key with more than 8 parts"),
    "nested lists": (lambda: "a = " + "[" * 5_000 + "]" * 5_000, "is not TOML"),
    "nested tables": (lambda: "a = " + "{b=" * 300 + "1" + "}" * 300, "is not TOML"),
    "a large file": (lambda: "#" * 300_000, "more than 262,144 bytes"),
    "a long word in a comment": (lambda: "#" + "a" * 250_000, "names no schemes"),
    "a long word": (lambda: f'x = "{"a" * 250_000}"', "unknown field of a sweep"),
    "a long line of spaces": (lambda: "#" + "a." * 7 + " " * 200_000, "names no schemes"),
    "hexadecimal schemes": (lambda: f'tasks = ["copy"]\nschemes = ["rope", 0x{"f" * 6000}]', "bad schemes.1"),
    "hexadecimal seeds": (
        lambda: f'schemes = ["rope"]\ntasks = ["copy"]\nseeds = [0x{"f" * 6000}]',
        "bad value of seed",
    ),
    "a hexadecimal set": (
        lambda: f'schemes = ["rope"]\ntasks = ["copy"]\nset = 0x{"f" * 6000}',
        "`set` is not a table",
    ),
    "a hexadecimal grid": (lambda: f"grid = 0x{'f' * 6000}", "`grid` is not a list"),
    "a hexadecimal setting": (
        lambda: f'schemes = ["rope"]\ntasks = ["copy"]\nset = {{ decay = 0x{"f" * 6000} }}',
        "bad value of decay",
    ),
    "a large number": (lambda: f'schemes = ["rope"]\ntasks = ["copy"]\nseeds = [{"9" * 4000}]', "seed"),
    "a larger number": (lambda: f'schemes = ["rope"]\ntasks = ["copy"]\nseeds = [{"9" * 5000}]', "is not TOML|digits"),
}


@pytest.mark.parametrize("which", SWEEPS)
def test_crafted_sweeps(tmp_path: Path, which: str) -> None:
    make, message = SWEEPS[which]
    path = tmp_path / "x.toml"
    path.write_text(make())
    start = time.perf_counter()
    with pytest.raises(UsageError, match=message) as caught:
        specification.points([specification.check(fields) for fields in specification.read(path)], "tiny")
    assert len(str(caught.value)) < 2000
    assert time.perf_counter() - start < 5


@pytest.mark.slow
def test_a_large_sweep_is_listed_in_time(tmp_path: Path) -> None:
    seeds = ", ".join(map(str, range(budget.TRIALS)))
    (tmp_path / "x.toml").write_text(f'schemes = ["rope"]\ntasks = ["copy"]\npreset = "tiny"\nseeds = [{seeds}]\n')
    found = ape("sweep", "x.toml", "--dry-run", "--json", where=tmp_path)
    assert len(json.loads(found.out)["trials"]) == budget.TRIALS


@pytest.mark.parametrize("value", [10**400, -(10**400), 10**5000, 2**63], ids=["400", "-400", "5000", "63"])
def test_whole_numbers_that_no_option_can_be(value: int) -> None:
    """Such a number is no float, and Python does not even print the longest ones. JSON and TOML can hold them."""
    for make in (
        lambda: tasks.make("copy", length_mean=value),
        lambda: tasks.make("copy", length_std=value),
        lambda: tasks.make("copy", sizes=(5, value)),
        lambda: tasks.make("copy", vocabulary=value),
        lambda: plugins.checked("decay", value, 0.98),
        lambda: plugins.checked("window", value, 16),
    ):
        with pytest.raises(UsageError, match=r"bad \w+\n  got:     a whole number of [\d,]+ bits"):
            make()
