"""A state with a million mistakes is one message, within limits of time and memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from ape_cli.data.loader import Dataset
from ape_cli.runs.run import Run
from tests.models.test_checkpoint import Stored
from tests.nightly.limits import ape as limited


@pytest.mark.parametrize("kind", ["numbers", "columns"])
def test_a_state_with_a_million_mistakes(stored: tuple[Run, Stored], words: Dataset, tmp_path: Path, kind: str) -> None:
    """Only the first one is described, because a description of each would not fit into memory."""
    found, (tensors, cursor) = stored
    many = [1] * 900_000 if kind == "numbers" else [cursor["history"][0] | {f"{i}": 0 for i in range(800_000)}]
    found.save_state(tensors, cursor | {"history": many})
    settings = ("--scheme", "rope", "--preset", "tiny", "--set", "steps=4", "--set", "validate_every_steps=2")
    results = ("--results", str(Path(str(found.folder)).parents[1]), "--data", str(words.folder))
    ended = limited("train", "--resume", *settings, "--seed", "1", *results, "--device", "cpu", where=tmp_path)
    assert ended.code == 1
    assert "the stored state does not fit the run" in ended.err
