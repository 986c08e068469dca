"""Crafted archives and pickles of images cost a moment: one message, within 20 seconds and 1 GiB."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import re
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

from ape_cli.core import budget
from ape_cli.core.errors import DataError
from ape_cli.storage import image_rows, sources
from ape_cli.storage.sources import _folders, _pickled
from tests.nightly.limits import ape
from tests.storage.sources.test_pickled import array


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


def extended(kind: bytes, records: bytes) -> bytes:
    """An extended header, for all members or for the next one."""
    return header("x", len(records), kind) + records + bytes(-len(records) % 512)


@pytest.mark.parametrize(
    ("kind", "count", "message"),
    [
        (tarfile.XGLTYPE, 100, "global headers of [0-9,]+ bytes\n  allowed: 65,536"),
        (tarfile.XHDTYPE, 5000, "headers of [0-9,]+ bytes\n  allowed: 4,194,304"),
    ],
    ids=["of all members", "of each"],
)
def test_extended_headers_that_are_large_together(tmp_path: Path, kind: bytes, count: int, message: str) -> None:
    """tarfile keeps a copy of all global headers with each member that has an own one."""
    records = b"".join(b"8 %04d=\n" % i for i in range(4500))
    body = (extended(kind, records) + header("e", 0)) * count + (
        extended(tarfile.XHDTYPE, b"5 a=\n") + header("e", 0)
    ) * 99
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(body + bytes(1024)))
    found = ape("gen", "images", "--source", "x.tar.gz", where=tmp_path)
    assert found.code == 1
    assert re.search(message, found.err), found.err


def test_members_do_not_keep_global_headers(tmp_path: Path) -> None:
    """Global headers as large as they may be. A copy of them for each member would take more than 600 MiB."""
    records = b"".join(b"8 %04d=\n" % i for i in range(8000))
    own = extended(tarfile.XHDTYPE, b"5 a=\n") + header("e", 0)
    body = extended(tarfile.XGLTYPE, records) + own * 3_000
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(body + bytes(1024)))
    found = ape("gen", "images", "--source", "x.tar.gz", where=tmp_path)
    assert "no images of a known format" in found.err
    assert found.peak < 2**29


def test_a_source_that_is_a_pipe(tmp_path: Path) -> None:
    """Opening it would wait for a writer if there were none."""
    os.mkfifo(tmp_path / "x")
    writer = os.open(tmp_path / "x", os.O_RDWR)
    try:
        os.write(writer, bytes(1024))
        with pytest.raises(DataError, match="it is no regular file"):
            sources.open_source(str(tmp_path / "x"))
    finally:
        os.close(writer)


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
