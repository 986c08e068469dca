"""Each mistake in a user's own task breaks a rule. That the tasks of ape keep them is in `test_contract.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ape_cli import tasks
from ape_cli.core import rng, user_parts
from ape_cli.core.errors import ApeError
from ape_cli.tasks import Source, Tokens
from ape_cli.tasks._rules import RULES
from ape_cli.tasks._words import Words
from ape_cli.tasks.grid_copy import GridCopy
from ape_cli.tasks.tree_copy import TreeCopy


def own(base: type[tasks.BaseTask], options: dict[str, Any] | None = None, **methods: Any) -> tasks.BaseTask:
    """A user's own task with these methods."""
    made = dataclass(frozen=True, kw_only=True)(type("Mine", (base,), {**methods, "__module__": __name__}))
    made.name = "mine"
    return made(**(options or {}))


def word(**methods: Any) -> tasks.BaseTask:
    return own(Words, {"length_mean": 6.0, "length_std": 2.0}, **{"target": lambda self, source: source, **methods})


def answers(change: Callable[[Source], Any]) -> tasks.BaseTask:
    return word(target=lambda self, source: change(source))


def draws(change: Callable[[Source, Any], Any], base: type[tasks.Task] = Words, **options: Any) -> tasks.BaseTask:
    methods = {"draw": lambda self, key: change(base.draw(self, key), key), "target": lambda self, source: source}
    return own(base, options or ({"length_mean": 6.0, "length_std": 2.0} if base is Words else None), **methods)


def changed(source: Source, **fields: Any) -> Source:
    return Source(**{**vars(source), **fields})


def one_tag(rows: int) -> Tokens:
    return Tokens(np.arange(rows + 1), np.zeros(rows, dtype=np.int64), np.full(rows, 3))


COUNTER = iter(range(10**9))
WRONG: dict[str, list[Callable[[], tasks.BaseTask]]] = {
    "declared": [
        lambda: word(symbols=lambda self: [*"aabcdefghijklmnopqrs"]),
        lambda: word(symbols=lambda self: [*range(20)]),
        lambda: word(mean_target_tokens=float("nan")),
    ],
    "rows": [
        lambda: answers(lambda source: None),
        lambda: answers(lambda source: Tokens(source.offsets[:-1], source.position, source.symbol)),
        lambda: answers(lambda source: Tokens(source.offsets[::-1], source.position, source.symbol)),
        lambda: answers(lambda source: Tokens(source.offsets, source.position, source.symbol[1:])),
        lambda: answers(lambda source: Tokens(source.offsets, source.position[:, None], source.symbol)),
        lambda: answers(lambda source: Tokens(source.offsets, source.position, source.symbol + 30)),
        lambda: answers(lambda source: Tokens(source.offsets, source.position + 1, source.symbol)),
        lambda: draws(lambda source, key: changed(source, size=source.size / 2)),
        lambda: draws(lambda source, key: changed(source, size=source.size + 2**16)),
        lambda: draws(lambda source, key: changed(source, position=source.position + (source.position > 3)), TreeCopy),
        lambda: draws(lambda source, key: changed(source, position=np.minimum(source.position, 6)), TreeCopy),
        lambda: draws(lambda source, key: changed(source, position=source.position[:, 0]), GridCopy, side_mean=3.0),
        lambda: word(tagged=True, target=lambda self, source: one_tag(source.size.size)),
        lambda: word(tagged=True, target=lambda self, source: changed(source, symbol=source.symbol * 0)),
        lambda: word(row_sizes=lambda self, *, rows, split, seed: np.ones(len(rows), dtype=np.int64)),
    ],
    "repeatable": [
        lambda: answers(lambda source: changed(source, symbol=np.random.randint(3, 9, source.symbol.size))),
        lambda: draws(lambda source, key: changed(source, symbol=source.symbol * 0 + 3 + next(COUNTER) % 9)),
        lambda: draws(
            lambda source, key: Words.draw(word(), np.random.default_rng().integers(0, 99, key.size, np.uint64))
        ),
    ],
    "independent": [
        lambda: answers(lambda source: changed(source, symbol=source.symbol[::-1].copy())),  # of all rows
        lambda: answers(lambda source: changed(source, symbol=source.symbol * 0 + 3 + (source.size.max() + 1) % 9)),
        lambda: draws(lambda source, key: changed(source, symbol=source.symbol * 0 + 3 + rng.below(key[:1], 9))),
        lambda: draws(lambda source, key: Words.draw(word(), np.arange(key.size, dtype=np.uint64))),
    ],
    "seeds": [
        lambda: word(sample_for_split=lambda self, index, split, seed: (self.draw(rng.rows(0, split, index)), 0)),
        lambda: word(sample_for_split=lambda self, index, split, seed: (self.draw(rng.rows(seed, "train", index)), 0)),
    ],
}


@pytest.mark.parametrize("rule", WRONG)
def test_a_mistake_breaks_a_rule(rule: str) -> None:
    for make in WRONG[rule]:
        task, fix = make(), "correct|draw all random|compute each row"
        with pytest.raises(ApeError, match=fix):
            user_parts.apply(RULES[rule], task)
    user_parts.apply(RULES[rule], word())


def test_a_row_that_depends_on_others_is_shown_twice() -> None:
    task = answers(lambda source: changed(source, symbol=source.symbol[::-1].copy()))
    with pytest.raises(ApeError, match=r"row 19 has target_ids \[.*, but \[.* when drawn alone"):
        user_parts.apply(RULES["independent"], task)


def test_the_rules_hold_for_rows_of_a_source(tmp_path: Path) -> None:
    """Also if the source has fewer rows than are compared."""
    (tmp_path / "a.txt").write_text("\n".join(f"(f (g x{n}) (h y{n}))" for n in range(12)))
    images = tasks.make("images", source="digits")
    for task in (
        tasks.make("trees", source=str(tmp_path / "a.txt"), format="s-expr", task="copy", labels="token"),
        images,
    ):
        for rule in RULES.values():
            rule(task)
