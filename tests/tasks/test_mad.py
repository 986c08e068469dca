"""Rows of the published program of MAD: our targets of its inputs, and how often its symbols and labels occur.

`golden/mad.json` has the rows that `mad/data/instances.py` makes with the published baseline settings, of the commit
and with the seeds that it names; and means and deviations over 4,000 rows.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ape_cli import tasks
from ape_cli.core.vocabulary import FIRST_SYMBOL, PAD

FILE = Path(__file__).parent / "golden" / "mad.json"
GOLDEN: dict[str, dict[str, Any]] = json.loads(FILE.read_text())["tasks"]
ROWS = 1_000  # of ours; the published means are of 4,000
CASES = [(name, split) for name, case in GOLDEN.items() for split in ("train", "test") if split in case]


def made(name: str) -> Any:
    """Our task with the options of a published one."""
    own = "in-context-recall" if "recall" in name else name
    return tasks.make(own, **GOLDEN[name]["options"])


@pytest.mark.parametrize(("name", "split"), CASES)
def test_published_inputs_have_the_published_labels(name: str, split: str) -> None:
    """The labels of published training rows of recall are all next tokens, of which ours are some.

    A published compression token is an EOS here.
    """
    task, closing = made(name), int(name == "compression")
    for row in GOLDEN[name][split]:
        inputs, expected = row["inputs"], row["targets"]
        if closing:
            assert inputs.pop() == expected.pop() == len(task.symbols())
        symbol = FIRST_SYMBOL + np.array(inputs)
        size = len(inputs) + closing
        source = tasks.Source(np.array([0, symbol.size]), np.arange(symbol.size), symbol, np.array([size]))
        ours = [None if i == PAD else i - FIRST_SYMBOL for i in task.target(source).symbol.tolist()]
        if "recall" in name and split == "train":
            assert sum(tag is not None for tag in ours) > 5
            assert ours[-1] is not None
            ours = [expected[i] if tag is None else tag for i, tag in enumerate(ours)]
        assert ours == expected


@pytest.mark.parametrize(("name", "split"), CASES)
def test_symbols_and_labels_are_as_frequent_as_published(name: str, split: str) -> None:
    """Both means have a standard error. They differ by at most four of those of the difference."""
    task, published = made(name), GOLDEN[name][f"{split}_counts"]
    closing, error = int(name == "compression"), 4 * (1 / 4_000 + 1 / ROWS) ** 0.5
    table = task.sample(rows=range(ROWS), split=split, seed=42)
    sources, tags = (
        np.stack(table[f"{side}_ids"].to_numpy(zero_copy_only=False)).astype(int) for side in ("source", "target")
    )
    assert len(task.symbols()) == GOLDEN[name]["settings"]["vocab_size"] - closing
    assert sources.shape[1] == task.mean_tokens == task.mean_target_tokens == published["length"] - closing
    for symbol in range(len(task.symbols())):
        mean = (sources == FIRST_SYMBOL + symbol).sum(axis=1).mean()
        assert abs(mean - published["symbols"][symbol]) <= error * published["symbols_std"][symbol], symbol
    if "labels" in published:
        labels = (tags != PAD).sum(axis=1).mean() + closing
        assert abs(labels - published["labels"]) <= error * published["labels_std"]
    assert task.tagged == task.causal == (not closing)
