"""The input budget: how much a file, an archive or an option may make the program read, allocate or repeat.

Readers check these limits before they allocate or loop, so that a crafted input costs a moment and not the machine.
The README lists them. They are far above what the program itself writes.
"""

from __future__ import annotations

import os
from typing import Any

from ape_cli.core.errors import DataError, UsageError

JSON_BYTES = 8 * 2**20  # the record of a run, or an evaluation
MANIFEST_BYTES = 32 * 2**20  # the manifest of a dataset
SHARD_BYTES = 64 * 2**30  # a shard of a dataset
JSON_VALUES = 500_000  # values in it
TENSOR_HEADER_BYTES = 16 * 2**20  # the header of a file of tensors, which has the history of a state
TENSOR_HEADER_VALUES = 1_000_000  # values in it
VALIDATIONS = 20_000  # of a run; their rows of at most 450 bytes fit into that header, beside the names of the tensors
HISTORY_VALUES = 10_000_000  # rows times columns of a history
HISTORY_BYTES = 128 * 2**20  # a history, on the disk and decompressed
SOLID_BYTES = 256 * 2**20  # a file of more bytes that is mostly a hole is not read
LOG_BYTES = 256 * 2**20  # a log that a resumed run goes on with
GROUP_TABLE_BYTES = 2**20  # the multiplication table of a group
SHARDS = 20_000  # the shards of a dataset
GROUP_VALUES = 200_000_000  # the values of a column in a row group of a shard
MEMBER_BYTES = 160 * 2**20  # a file of CIFAR; the largest published one has 155 million bytes
ARCHIVE_BYTES = 256 * 2**20  # an archive of CIFAR; the published ones have 170 million
CLASSES = 2**16  # the classes of images
CLASSES_BYTES = 4 * 2**20  # their names together
FOOTER_BYTES = 4 * 2**20  # the footer of a Parquet file of trees
IMAGE_BYTES = 8 * 2**20  # an encoded image
ENCODED_BYTES = 16 * 2**20  # encoded images together; if they are more, at most 10 times the size of their files
IMAGE_SCANS = 50  # the passes over a progressive JPEG; usual ones have 10
IMAGE_PIXELS = 2**25  # an image, decoded
EXPANSION = 500  # bytes of decoded images for each byte of their files, if they have more pixels than that together
TREE_FILES = 40_000  # the files of them that are read, which the manifest of a dataset lists
TREE_PATHS_BYTES = 3 * 2**20  # their paths together
TREE_FILE_BYTES = 256 * 2**20  # one of them
PROGRAM_BYTES = 4 * 2**20  # a file in a programming language; its parser needs hundreds of bytes for each token
DOCUMENT_BYTES = 32 * 2**20  # a JSON document or a page of HTML or XML, which its parser holds in memory as a whole
TREE_DEPTH = 1_000  # nodes from the root of a tree to a leaf
TREE_SIZE = 2_000_000  # nodes of a tree
TREES = 1_000_000  # the trees of a source
TREE_NODES = 20_000_000  # their nodes
COLUMN_EXPANSION = 100  # bytes in a row group or a column of texts of a Parquet file for each byte of the file


def memory() -> int:
    """Half of the memory of this machine in bytes: the most that images or a row group may need."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def check_images(images: int, height: int, width: int, channels: int, stored: int) -> None:
    """Check that images may be decoded, before there is memory for them. `stored` is the size of their files in bytes.

    Raises `DataError` if they do not fit into memory, or if so small files cannot have so many honest pixels.
    """
    pixels = images * height * width
    size = pixels * channels
    most = memory() if pixels <= IMAGE_PIXELS else min(memory(), EXPANSION * stored)
    if size > most or height * width > IMAGE_PIXELS:
        raise DataError(
            "the images are too large",
            got=f"{images:,} images of {height:,} x {width:,}, {size:,} bytes of pixels in {stored:,} bytes of files",
            allowed=f"{IMAGE_PIXELS:,} pixels in an image, {most:,} bytes of pixels",
            fix="scale them down, or take fewer",
        )


def check_encoded(size: int, stored: int) -> None:
    """Check that files of `stored` bytes may have encoded images of `size` bytes together. Raises `DataError`."""
    most = max(ENCODED_BYTES, 10 * stored)
    if size > most:
        raise DataError(
            "the encoded images are much larger than their files",
            got=f"{size:,} bytes of images or more in {stored:,} bytes of files",
            allowed=f"{most:,} bytes",
            fix="write them as PNG or JPEG, and each only once",
        )


def check_whole(name: str, value: Any) -> None:
    """Check that `value`, or no element of it, is a whole number beyond 64 bits. Other values pass.

    `name` is that of the option. Raises `UsageError`.
    """
    for each in value if isinstance(value, list | tuple) else (value,):
        if isinstance(each, int) and not -(2**63) <= each < 2**63:
            got = f"a whole number of {each.bit_length():,} bits"
            raise UsageError(f"bad {name}", got=got, allowed="-2^63 to 2^63 - 1", fix="choose a smaller one")
