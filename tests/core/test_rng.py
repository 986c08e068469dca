"""The random streams: published values of SplitMix64, independence of neighbouring streams, and uniformity."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ape_cli.core import rng


def test_splitmix64_reference_values() -> None:
    """The first outputs for seed 1234567 are those commonly published for SplitMix64."""
    found = rng.bits(np.array([1234567], dtype=np.uint64), np.arange(1, 6))
    assert found.tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_neighbouring_seeds_splits_and_rows_are_unrelated() -> None:
    index = np.arange(10_000)
    keys = [rng.rows(seed, split, index) for seed in (42, 43) for split in ("train", "test")]
    everything = np.concatenate(keys)
    assert np.unique(everything).size == everything.size
    for one in keys:
        for other in keys:
            if one is not other:
                differing = np.bitwise_count(one ^ other).mean()
                assert abs(differing - 32) < 0.3


def test_below_is_uniform_and_in_range() -> None:
    word = rng.bits(np.array([9], dtype=np.uint64), np.arange(60_000))
    counts = np.bincount(rng.below(word, 6), minlength=6)
    assert counts.size == 6
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 25
    assert (rng.below(word[:100], np.arange(1, 101)) < np.arange(1, 101)).all()


def test_content_hash_sees_pairs_not_their_order() -> None:
    starts = np.array([0, 3, 6, 9, 12])
    position = np.array([1, 2, 3, 3, 1, 2, 1, 2, 3, 1, 2, 4])
    symbol = np.array([7, 8, 9, 9, 7, 8, 8, 7, 9, 7, 8, 9])
    same, reordered, swapped, moved = rng.content(starts, position, symbol)
    assert same == reordered
    assert len({int(same), int(swapped), int(moved)}) == 3


def test_content_of_empty_rows_and_of_long_arrays() -> None:
    """The hash of a row does not depend on the other rows, which may be empty or have 100,000 pairs."""
    sizes = np.array([0, 2, 0, 0, 3, 100_000, 1, 0])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    position, symbol = np.arange(starts[-1]), np.arange(starts[-1]) % 7 + 3
    found = rng.content(starts, position, symbol)
    for row, (first, after) in enumerate(pairwise(starts)):
        alone = rng.content(np.array([0, after - first]), position[first:after], symbol[first:after])
        assert found[row] == alone[0], row
    assert found[0] == found[2] == found[7]
    assert np.unique(found).size == 5


def test_mixing_many_words_is_mixing_each() -> None:
    """The argument is not changed, and its memory layout does not matter."""
    words = np.arange(200_000, dtype=np.uint64).reshape(2, -1) * np.uint64(0x9E3779B97F4A7C15)
    before, mixed = words.copy(), rng.mix(words)
    assert (words == before).all()
    assert (rng.mix(words.T) == mixed.T).all()
    for place in ((0, 0), (0, 32_767), (0, 32_768), (1, 99_999)):
        x = int(words[place])
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
            x = (x ^ (x >> shift)) * factor % 2**64
        assert mixed[place] == x


def test_the_normal_s_tails_are_cut_not_piled_up() -> None:
    """For N(3, 2) truncated at 1, the smallest value is no more frequent than under the normal distribution."""
    drawn = rng.normal(np.arange(40_000, dtype=np.uint64) * np.uint64(977), 3.0, 2.0, 1, 100)
    counts = np.bincount(drawn, minlength=6)
    assert counts[0] == 0
    assert counts[1] < counts[2] < counts[3]
    assert abs(counts[1] / counts[5] - 1) < 0.08  # both are two from the mean, on opposite sides
