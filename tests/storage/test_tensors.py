"""Files of tensors: crafted headers, holes, and weights that are not finite."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from ape_cli.core import budget
from ape_cli.core.errors import RunError
from ape_cli.storage import files
from ape_cli.storage.tensors import check_length, check_tensors, load_tensors, save_tensors

OURS = {"__metadata__": {"ape": json.dumps({"run": "x"})}}


def craft(path: Path, header: Any, size: int) -> None:
    """Writes a header and then nothing, until the file has `size` bytes of data."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    os.truncate(path, 8 + len(text) + size)


def tensor(end: Any) -> dict[str, Any]:
    return {"x": {"dtype": "U8", "shape": [end], "data_offsets": [0, end]}}


@pytest.mark.parametrize(
    ("header", "size", "message"),
    [
        (json.dumps(OURS | tensor("END")).replace('"END"', "1e999").encode(), 0, "its header cannot be read"),
        (OURS | tensor(1.0), 1, "its header cannot be read"),
        (OURS | tensor(True), 1, "its header cannot be read"),
        (tensor(8), 8, "its metadata is not ours"),
        ({"__metadata__": {"format": "pt"}} | tensor(8), 8, "its metadata is not ours"),
        ({"__metadata__": {"ape": 5}} | tensor(8), 8, "its metadata is not ours"),
        ({"__metadata__": "ape"} | tensor(8), 8, "its metadata is not ours"),
        (OURS | tensor(8), 9, "and its header says"),
        (OURS | tensor(60 * 10**9), 60 * 10**9, "bytes were never written"),
        (b'{"x":[' + b"{}," * budget.TENSOR_HEADER_VALUES + b"{}]}", 0, "its header cannot be read"),
        (b" " * (budget.TENSOR_HEADER_BYTES + 1), 0, "its header has 16,777,217 bytes"),
    ],
)
def test_a_crafted_header(tmp_path: Path, header: Any, size: int, message: str) -> None:
    """It is refused before the data are read."""
    path = tmp_path / "model.safetensors"
    craft(path, header, size)
    with pytest.raises(ValueError, match=message):
        check_length(path)
    for read in (check_tensors, load_tensors):
        with pytest.raises(RunError, match=path.stem) as caught:
            read(path)
        assert message in str(caught.value)


def test_a_large_file_that_is_a_hole(tmp_path: Path) -> None:
    """Of a small one the bytes are read, and their digest is wrong."""
    path = tmp_path / "file"
    path.write_bytes(b"x")
    os.truncate(path, budget.SOLID_BYTES)
    assert not files.is_hole(path)
    os.truncate(path, budget.SOLID_BYTES + 1)
    assert files.is_hole(path)


def test_weights_that_are_not_finite(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_tensors(path, {"a": torch.ones(3), "b": torch.tensor([1.0, float("nan")]), "c": torch.ones(2).long()}, {})
    assert check_tensors(path) == ({}, True)
    with pytest.raises(RunError, match="was altered\n  got:     b has values that are not finite"):
        check_tensors(path, finite=True)
