"""selective-copying: symbols between blanks, and the numbers of blanks before each."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.tasks.contract import check_uniform, count_of, in_splits, rows

FORMS: list[dict[str, Any]] = [
    {},
    {"length": 32, "copied": 6, "vocabulary": 6},
    {"sizes": (8, 9, 40), "copied": 3, "vocabulary": 40},
    {"length": 4, "copied": 1, "vocabulary": 900},
]


@pytest.mark.parametrize(("form", "split"), in_splits(FORMS), ids=str)
def test_target_is_rederived(form: dict[str, Any], split: str) -> None:
    task, found = rows("selective-copying", split=split, count=count_of(form, FORMS), **form)
    sizes, copied = sorted(form.get("sizes", [task.length])), task.copied
    for number, row in enumerate(found):
        names = row["source"]
        assert len(names) == row["size"] == sizes[number % len(sizes)]
        begin = names.index("copy")
        assert names[begin + 1 :] == ["blank"] * copied
        assert names[begin - 1] != "blank"
        data = [name for name in names[:begin] if name != "blank"]
        assert len(data) == copied
        assert row["target"] == ["<pad>"] * (begin + 1) + data


@pytest.mark.parametrize(("form", "share"), [({}, 20), (FORMS[1], 40)])
def test_the_most_frequent_symbol_is_as_good_as_described(form: dict[str, Any], share: float) -> None:
    """The second form is that of preset `small`."""
    copied = [row["target"][-form.get("copied", 16) :] for row in rows("selective-copying", **form)[1]]
    right = [max(Counter(names).values()) / len(names) for names in copied]
    assert 100 * sum(right) / len(right) == pytest.approx(share, abs=1)


def test_symbols_and_places_are_uniform() -> None:
    """Each of 9 blanks comes before one of 3 symbols."""
    found = [row["source"] for row in rows("selective-copying", count=3_000, length=16, copied=3, vocabulary=4)[1]]
    check_uniform(Counter(name for names in found for name in names if name in "abcd"), 4)
    before = Counter[int]()
    for names in found:
        place = [i for i, name in enumerate(names) if name in "abcd"]
        before.update({i: here - last - 1 for i, (last, here) in enumerate(zip([-1, *place], place, strict=False))})
    assert before.total() == 9 * 3_000
    check_uniform(before, 3)
