"""in-context-recall: pairs that are read by a scan of each row, and how they are drawn."""

from __future__ import annotations

from collections import Counter
from itertools import groupby, pairwise
from typing import Any

import pytest

from ape_cli import tasks
from tests.tasks.contract import check_uniform, count_of, in_splits, names_of, rows, source_of

FORMS: list[dict[str, Any]] = [
    {},
    {"noise": 0.2, "noise_symbols": 16},
    {"keys": 7, "key_tokens": 3, "value_tokens": 3},
    {"length": 60, "keys": 5, "values": 4, "key_tokens": 2, "noise": 0.4, "noise_symbols": 3},
    {"sizes": (8, 20, 64), "keys": 300},
    {"length": 40, "values": 9, "value_tokens": 4},
]


def runs(names: list[str]) -> list[tuple[str, int, tuple[str, ...]]]:
    """The runs of symbols of the same kind (k, v, n or b): the kind, the place of the first, and the symbols."""
    found, place = [], 0
    for kind, group in groupby(names, key=lambda name: name[0]):
        symbols = tuple(group)
        found.append((kind, place, symbols))
        place += len(symbols)
    return found


@pytest.mark.parametrize(("form", "split"), in_splits(FORMS), ids=str)
def test_target_is_rederived(form: dict[str, Any], split: str) -> None:
    task, found = rows("in-context-recall", split=split, count=count_of(form, FORMS), **form)
    is_fuzzy = task.key_tokens + task.value_tokens > 2
    sizes = sorted(form.get("sizes", [task.length]))
    for number, row in enumerate(found):
        assert row["size"] == sizes[number % len(sizes)]
        assert len(row["source"]) == row["size"] - (not is_fuzzy)
        memory: dict[tuple[str, ...], tuple[str, ...]] = {}
        expected = ["<pad>"] * len(row["source"])
        every = runs(row["source"])
        for (kind, place, key), (after, _, value) in pairwise([*every, ("", 0, ())]):
            if kind != "k":
                assert not (kind == "b" and place), "blanks are at the beginning"
                continue
            if split != "train":
                assert len(key) == task.key_tokens
            assert len(set(key)) == len(key) <= task.key_tokens
            if key not in memory:
                assert after == "v", "the last key occurred before"
                memory[key] = value
                continue
            last = place + len(key) - 1
            shown = memory[key][: len(expected) - last]
            assert value == shown[: len(value)]
            expected[last : last + len(shown)] = shown
        assert row["target"] == expected
        assert all(len(set(value)) == len(value) <= task.value_tokens for value in memory.values())
        assert every[-1][0] == ("v" if len(memory[every[-1 if every[-1][0] == "k" else -2][2]]) > 1 else "k")


def test_rows_with_tags_by_hand() -> None:
    """A key of two tokens is not its first token alone, and an unknown last key has no tag."""
    task = tasks.make("in-context-recall", keys=3, values=4, key_tokens=2, value_tokens=2, noise=0.1, noise_symbols=1)
    source = source_of(
        task, ["k0 v0 v1 k0 k1 v2 k0 v0 v1 n0 k0 k1", "k1 v3 k0 k1 v3 k1", "k2 v1 k0", "k0 v0 v2 n0 k0 v0"]
    )
    shown = [text.replace("<pad>", "-") for text in names_of(task, task.target(source))]
    assert shown == ["- - - - - - v0 v1 - - - v2", "- - - - - v3", "- - -", "- - - - v0 v2"]


def test_pairs_are_drawn_as_published() -> None:
    """Without strings: keys and first values are uniform, and so is the last key among those of the row."""
    found = [row["source"] for row in rows("in-context-recall", count=3_000, length=24, keys=5, values=6)[1]]
    check_uniform(Counter(names[place] for names in found for place in range(0, 22, 2)), 5)
    check_uniform(Counter(names[1] for names in found), 6)
    seen = [(list(dict.fromkeys(names[:-1:2])), names[-1]) for names in found]
    check_uniform(Counter(keys.index(last) for keys, last in seen if len(keys) == 5), 5)


def test_strings_are_drawn_as_published() -> None:
    """All lengths of keys and values are equally likely in training, and the first string of a length is uniform.

    The first pair is not that of the last key, which is written where a drawn place is reached.
    """
    form = {"length": 60, "keys": 4, "values": 3, "key_tokens": 2, "value_tokens": 2}
    found = [
        [run[2] for run in runs(row["source"]) if run[0] in "kv"]
        for row in rows(**form, name="in-context-recall", count=3_000)[1]
    ]
    check_uniform(Counter(len(row[0]) for row in found), 2)
    check_uniform(Counter(row[0] for row in found if len(row[0]) == 2), 12)
    check_uniform(Counter(row[1] for row in found if len(row[1]) == 2), 6)


@pytest.mark.parametrize(
    ("options", "share"), [({}, 32), (FORMS[2], 19), (tasks.load("in-context-recall").preset_options["small"], 53)]
)
def test_the_most_frequent_value_is_as_good_as_described(options: dict[str, Any], share: float) -> None:
    right = []
    for row in rows("in-context-recall", split="test", **options)[1]:
        values = Counter[str]()
        for name, tag in zip(row["source"], row["target"], strict=True):
            values.update([name] if name[0] == "v" else [])
            right += [] if tag == "<pad>" else [values.most_common(1)[0][0] == tag]
    assert 100 * sum(right) / len(right) == pytest.approx(share, abs=1.5)


def test_noise_leaves_at_least_one_pair() -> None:
    form = {"length": 8, "noise": 0.9, "noise_symbols": 5}
    found = [row["source"] for row in rows("in-context-recall", count=2_000, **form)[1]]
    pairs = Counter(place for names in found for place in range(0, 6, 2) if names[place][0] == "k")
    assert all(any(name[0] == "v" for name in names) for names in found)
    expected = 2_000 * (1 / 3 + 2 / 3 * 0.1)
    assert all(abs(pairs[place] - expected) < 4 * (expected * 0.6) ** 0.5 for place in (0, 2, 4))
    check_uniform(Counter(name for names in found for name in names if name[0] == "n"), 5)
