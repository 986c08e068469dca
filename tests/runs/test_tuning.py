"""Settings are chosen by the mean validation score over the seeds that all of them have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from ape_cli.runs.tuning import ChosenSetting, Validation, choose, mean, validation

V = Validation


def best(scores: dict[str, dict[int, Validation]]) -> str:
    return choose(scores).setting


def test_the_scores_of_a_run_are_those_of_the_weights_that_it_kept() -> None:
    """A later validation may have the same accuracy and a lower loss."""
    rows = [(1, 0.5, 0.9), (2, 0.75, 0.8), (3, 0.75, 0.7)]
    names = ("step", "validation_token_accuracy", "validation_loss")
    history = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
    run: Any = SimpleNamespace(
        record=SimpleNamespace(outcome=SimpleNamespace(best_step=2)), history_table=lambda: history
    )
    assert validation(run) == V(0.75, 0.8)


def test_the_highest_mean_over_seeds_wins() -> None:
    scores = {"a": {1: V(0.5, 1.0), 2: V(0.75, 1.0)}, "b": {2: V(0.75, 3.0), 1: V(0.75, 2.0), 3: V(0.0, 0.0)}}
    assert choose(scores) == ChosenSetting("b", [1, 2], V(0.75, 2.5))
    assert best({"a": {1: V(0.5, 1.0), 2: V(0.9, 1.0)}, "b": {1: V(0.8, 2.0), 2: V(0.7, 2.0)}}) == "b"


def test_equal_means_go_to_the_lower_loss_and_then_to_the_first() -> None:
    assert best({"a": {1: V(0.5, 1.0)}, "b": {1: V(0.5, 0.9)}, "c": {1: V(0.5, 0.9)}}) == "b"


def test_means_that_differ_by_rounding_are_equal() -> None:
    """168 + 178 and 169 + 177 of 180 are equal sums, whose shares have two means. So have 0.1 + 0.2 and 0.15 + 0.15."""
    many, few = ({1: V(a / 180, loss), 2: V(b / 180, loss)} for a, b, loss in ((168, 178, 0.5), (169, 177, 0.25)))
    assert mean(many.values()).accuracy > mean(few.values()).accuracy
    assert best({"many": many, "few": few}) == best({"few": few, "many": many}) == "few"
    first, second = {1: V(0.5, 0.1), 2: V(0.5, 0.2)}, {1: V(0.5, 0.15), 2: V(0.5, 0.15)}
    assert mean(first.values()).loss != mean(second.values()).loss
    assert best({"a": first, "b": second}) == best({"a": second, "b": first}) == "a"
    assert best({"a": {1: V(0.5, 1.0)}, "b": {1: V(0.5 + 1e-11, 2.0)}}) == "b"  # one token of very many


def test_a_seed_that_only_one_setting_has_does_not_count() -> None:
    """With its own second seed, `a` would have the mean 0.75."""
    assert best({"a": {1: V(0.5, 1.0), 2: V(1.0, 0.0)}, "b": {1: V(0.6, 1.0)}}) == "b"


def test_no_common_seed() -> None:
    with pytest.raises(ValueError, match="no seed in common"):
        best({"a": {1: V(0.5, 1.0)}, "b": {2: V(0.6, 1.0)}})
