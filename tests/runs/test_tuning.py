"""Settings are chosen by the mean validation score over the seeds that all of them have."""

from __future__ import annotations

import pytest

from ape_cli.runs.tuning import Validation, best

V = Validation


def test_the_highest_mean_over_seeds_wins() -> None:
    assert best({"a": {1: V(0.5, 1.0), 2: V(0.9, 1.0)}, "b": {1: V(0.8, 2.0), 2: V(0.7, 2.0)}}) == "b"


def test_equal_means_go_to_the_lower_loss_and_then_to_the_first() -> None:
    assert best({"a": {1: V(0.5, 1.0)}, "b": {1: V(0.5, 0.9)}, "c": {1: V(0.5, 0.9)}}) == "b"


def test_a_seed_that_only_one_setting_has_does_not_count() -> None:
    """With its own second seed, `a` would have the mean 0.75."""
    assert best({"a": {1: V(0.5, 1.0), 2: V(1.0, 0.0)}, "b": {1: V(0.6, 1.0)}}) == "b"


def test_no_common_seed() -> None:
    with pytest.raises(ValueError, match="no seed in common"):
        best({"a": {1: V(0.5, 1.0)}, "b": {2: V(0.6, 1.0)}})
