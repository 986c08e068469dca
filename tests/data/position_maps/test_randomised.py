"""Ordered draws without repetition: their distribution, their number, and what is too long."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from ape_cli.core import rng
from ape_cli.core.errors import UsageError
from ape_cli.data import position_maps
from ape_cli.data.loader import Dataset, Split
from tests.conftest import write
from tests.data.position_maps.plain import SEED, batches, drawn, of_rows


def draws(rows: int, count: int, maximum: int) -> np.ndarray:
    """The draws of some rows. -> int64 [R, count]"""
    kind = position_maps.make("randomised", maximum=maximum)
    return kind.positions(rng.rows(3, "position", np.arange(rows)), np.full(rows, count), count)


def test_every_subset_is_equally_likely() -> None:
    """All 35 ordered draws of 3 from 7 occur, each as often as the others: chi-squared with 34 degrees of freedom."""
    rows = 35 * 400
    found = draws(rows, 3, 7)
    assert (np.diff(found) > 0).all()
    counts = dict.fromkeys(itertools.combinations(range(1, 8), 3), 0)
    for subset in map(tuple, found.tolist()):
        counts[subset] += 1
    chi_squared = sum((count - 400) ** 2 / 400 for count in counts.values())
    assert 15 < chi_squared < 65  # the 0.1% and 99.9% quantiles are 14.1 and 65.2


def test_the_draw_of_all_is_all() -> None:
    assert draws(3, 6, 6).tolist() == [[1, 2, 3, 4, 5, 6]] * 3
    assert draws(2, 1, 1).tolist() == [[1], [1]]


def test_a_row_does_not_depend_on_longer_ones() -> None:
    """Streams are as long as the rows need. A row that needs nearly all numbers makes them longer."""
    kind, keys = position_maps.make("randomised", maximum=9), rng.rows(3, "position", np.arange(200))
    alone = kind.positions(keys, np.full(200, 2), 2)
    counts = np.where(np.arange(200) == 5, 9, 2)
    beside = kind.positions(keys, counts, 9)
    assert np.delete(alone, 5, axis=0).tolist() == np.delete(beside, 5, axis=0)[:, :2].tolist()
    assert not np.delete(beside, 5, axis=0)[:, 2:].any()


def by_hand(row: int, epoch: int | None, count: int, maximum: int) -> list[int]:
    """The draw of a row, with Python's integers: the first different numbers of SplitMix64, in order."""

    def mix(x: int) -> int:
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
        return x ^ x >> 31

    gamma = 0x9E3779B97F4A7C15
    seeded = mix((SEED + gamma) % 2**64) ^ int.from_bytes(b"position", "little")
    root = mix((mix(seeded) + gamma) % 2**64)
    key = mix((root + row * gamma) % 2**64)
    stream = mix((key + (0 if epoch is None else epoch + 1) * gamma) % 2**64)
    numbers: list[int] = []
    for place in itertools.count(1):
        number = 1 + (mix((stream + place * gamma) % 2**64) >> 32) * maximum // 2**32
        numbers += [number] if number not in numbers else []
        if len(numbers) == count:
            return sorted(numbers)
    raise AssertionError


def test_the_positions_of_rows_by_hand(words: Dataset) -> None:
    """In an encoder-decoder, as many as the source has tokens; in a decoder-only model, twice as many."""
    for joined, epoch in itertools.product((False, True), (None, 0, 3)):
        more = {} if epoch is None else {"seed": 5, "epoch": epoch}
        found = of_rows(batches(words, drawn("randomised", joined=joined, maximum=60), **more))
        for row in (0, 7, 63, 119):
            source, read, both = found[row]
            expected = by_hand(row, epoch, len(source) * (1 + joined), 60)
            assert source == expected[: len(source)]
            assert read == (expected[len(source) :] if joined else [0, *expected[: len(read) - 1]])
            assert both == (source + read if joined else [])


def test_a_position_does_not_tell_the_length_of_the_answer(tmp_path: Path) -> None:
    """Two datasets have equal sources, and answers of different lengths. The sources have equal positions."""
    once = write(tmp_path / "once", "repeat", repeats=1, length_mean=5, length_std=2)
    twice = write(tmp_path / "twice", "repeat", repeats=2, length_mean=5, length_std=2)
    for joined in (False, True):
        found = drawn("randomised", joined=joined, answer=2)
        one, other = (of_rows(batches(data, found)) for data in (once, twice))
        for row, (source, read, _) in one.items():
            assert source == other[row][0]
            assert read == other[row][1][: len(read)]
            assert len(read) < len(other[row][1])


def test_an_answer_beyond_the_draw_is_an_error_with_its_fix(tmp_path: Path) -> None:
    """The positions of the answer are limited by the source. The error names what fits, and with it all rows do."""
    data = write(tmp_path / "data", "repeat", repeats=3, length_mean=5, length_std=2)
    for joined in (False, True):
        split = data.split("train")
        assert isinstance(split, Split)
        with pytest.raises(UsageError) as caught:
            split.check_positions(drawn("randomised", joined=joined))
        assert caught.value.fix == "`answer=3`, or more"
        with pytest.raises(UsageError, match="no position for every token"):
            batches(data, drawn("randomised", joined=joined, answer=2))
        batches(data, drawn("randomised", joined=joined, answer=3))


def test_a_row_beyond_the_maximum_is_an_error(words: Dataset) -> None:
    longest = max(len(source) for source, _, _ in of_rows(batches(words, None)).values())
    split = words.split("train")
    assert isinstance(split, Split)
    for joined in (False, True):
        need = longest * (1 + joined)
        batches(words, drawn("randomised", joined=joined, maximum=need))
        split.check_positions(drawn("randomised", joined=joined, maximum=need))
        with pytest.raises(UsageError, match=f"more positions than can be drawn[\\s\\S]*{need} positions"):
            split.check_positions(drawn("randomised", joined=joined, maximum=need - 1))


def test_the_longest_answer_that_fits(words: Dataset) -> None:
    """`reverse` fills all positions of a decoder-only model, and in an encoder-decoder all but that of EOS."""
    for joined in (False, True):
        for source, read, _ in of_rows(batches(words, drawn("randomised", joined=joined))).values():
            room = drawn("randomised", joined=joined).room(np.array([len(source)]))
            assert room is not None
            assert room.tolist() == [len(read) + (not joined)]
