"""compression: the same word on both sides."""

from __future__ import annotations

from collections import Counter

from tests.tasks.contract import check_uniform, rows


def test_target_is_rederived() -> None:
    for form, vocabulary in (({}, 15), ({"sizes": (2, 9), "vocabulary": 40}, 40)):
        task, found = rows("compression", **form)
        sizes = form.get("sizes", (task.length,))
        for number, row in enumerate(found):
            assert row["size"] == sizes[number % len(sizes)] == len(row["source"]) + 1
            assert row["source"] == row["target"]
        check_uniform(Counter(name for row in found if row["size"] > 2 for name in row["source"]), vocabulary)
