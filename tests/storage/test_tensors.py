"""Files of tensors: what is written is read, and damaged files are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ape_cli.core.errors import RunError
from ape_cli.storage import tensors
from ape_cli.storage.tensors import load_tensors, parse_tensors, save_tensors


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    written = {"a": torch.arange(6).reshape(2, 3).t(), "b": torch.tensor(0.5)}
    save_tensors(path, written, {"step": 3, "epoch": 1})  # columns of a history are in this order
    loaded, about = load_tensors(path)
    assert list(about.items()) == [("step", 3), ("epoch", 1)]
    for found in (loaded, parse_tensors(path.read_bytes(), path)):
        assert found.keys() == written.keys()
        assert all(torch.equal(found[name], value) for name, value in written.items())


def test_tensors_that_share_memory_are_written_apart(tmp_path: Path) -> None:
    whole = torch.arange(6.0)
    save_tensors(tmp_path / "x", {"a": whole, "tied": whole, "part": whole[2:]}, {})
    loaded, _ = load_tensors(tmp_path / "x")
    assert {name: value.tolist() for name, value in loaded.items()} == {
        "a": [*range(6)],
        "tied": [*range(6)],
        "part": [*range(2, 6)],
    }


def test_a_damaged_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.safetensors"
    save_tensors(path, {"a": torch.ones(3)}, {})
    whole = path.read_bytes()
    for content in (b"", whole[:5], whole[:-1], whole + b"x", b"\xff" * 100, whole.replace(b"ape", b"epa")):
        path.write_bytes(content)
        with pytest.raises(RunError, match="not a complete"):
            load_tensors(path)
    path.write_bytes(whole)
    monkeypatch.setattr(tensors, "most_memory", lambda: len(whole) - 1)
    with pytest.raises(RunError, match=f"more than {len(whole) - 1} bytes"):
        load_tensors(path)
