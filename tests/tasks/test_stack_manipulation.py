"""stack-manipulation: instructions executed on a list, and sources that are drawn as published."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from ape_cli.core.vocabulary import SPLITS
from ape_cli.tasks import Source
from tests.tasks.contract import check_uniform, make, rows

NAMES = ["0", "1", "POP", "PUSH 0", "PUSH 1"]


def executed(source: list[str]) -> list[str]:
    """The stack after the instructions, from top to bottom."""
    stack: list[str] = []
    for word in source:
        if word == "POP":
            stack = stack[:-1]
        else:
            stack.append(word[-1])
    return stack[::-1]


def test_target_is_rederived() -> None:
    """A source is one or more bits, and then instructions."""
    empty = 0
    for split in SPLITS:
        for row in rows("stack-manipulation", split=split, sizes="1-40,500")[1]:
            source, size = row["source"], row["size"]
            bits = sum(name in ("0", "1") for name in source)
            assert all(name in ("0", "1") for name in source[:bits])
            assert 1 <= bits <= max(1, size - 1)
            assert len(source) == size
            assert row["target"] == executed(source)
            empty += not row["target"]
    assert empty > 10


def test_samples_by_hand() -> None:
    """The first two are samples of the published program. A row does not depend on its neighbours."""
    samples = ["0110", "110", "1", "00"], [["PUSH 1", "POP", "POP"], ["POP"] * 3, [], ["POP", "POP", "POP", "PUSH 1"]]
    task, sources = make("stack-manipulation"), [[*bits, *rest] for bits, rest in zip(*samples, strict=True)]
    assert task.id_names[3:] == NAMES
    size = np.array([*map(len, sources)])
    symbol = np.array([3 + NAMES.index(name) for source in sources for name in source])
    offsets = np.array([0, *size.cumsum()])
    target = task.target(Source(offsets, np.arange(offsets[-1]) - np.repeat(offsets[:-1], size), symbol, size))
    assert target.offsets.tolist() == [0, 3, 3, 4, 5]
    assert target.position.tolist() == [0, 1, 2, 0, 0]
    assert target.symbol.tolist() == [4, 4, 3, 4, 4]


def test_sources_are_drawn_as_published() -> None:
    found = [row["source"] for row in rows("stack-manipulation", sizes=(20,), count=1_000)[1]]
    check_uniform(Counter(sum(name in ("0", "1") for name in source) for source in found), 19)
    for names in (NAMES[:2], NAMES[2:]):
        check_uniform(Counter(name for source in found for name in source if name in names), len(names))


def test_no_constant_target_is_right_more_often_than_described() -> None:
    """The most frequent target at length 10 is the empty one."""
    targets = Counter(tuple(row["target"]) for row in rows("stack-manipulation", sizes=(10,), count=8_000)[1])
    assert targets.most_common(1)[0][0] == ()
    assert targets[()] / 8_000 == pytest.approx(0.0177, abs=0.004)
