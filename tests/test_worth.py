"""What an ingredient is worth, by hand."""

from __future__ import annotations

import pytest

from ape_cli.runs.tuning import Validation
from results import worth
from results.worth import Row, Worth

COLUMN = "repeat"


def found(**rows: dict[int, float]) -> worth.Found:
    """Returns scores of schemes by seed, with validation accuracies that are a tenth of them."""
    return {
        (COLUMN, Row(*name.split("__"))): {s: (v, Validation(v / 10, 1.0)) for s, v in of.items()}
        for name, of in rows.items()
    }


def test_a_difference_is_paired_by_seed() -> None:
    """Differences 2, 4 and 6: mean 4, deviation 2, and half of the interval 4.302653 × 2 / √3 = 4.968276."""
    scores = found(a={42: 52.0, 43: 64.0, 44: 76.0, 45: 1.0}, b={42: 50.0, 43: 60.0, 44: 70.0, 46: 99.0})
    made = worth.worth(Row("a"), Row("b"), COLUMN, scores)
    assert made is not None
    assert (made.mean, made.seeds) == (4.0, 3)
    assert made.half == pytest.approx(4.968276, abs=1e-6)
    assert str(made) == "+4.00 (-0.97 to +8.97) ×3"
    assert worth.worth(Row("a"), Row("c"), COLUMN, scores) is None


def test_bold_is_an_interval_without_0() -> None:
    assert str(Worth(-2.0, 1.5, 6)) == "**-2.00 (-3.50 to -0.50)**"
    assert str(Worth(-2.0, 2.5, 6)) == "-2.00 (-4.50 to +0.50)"
    assert str(Worth(1.0, None, 1)) == "+1.00 ×1"


def test_the_tuned_row_has_the_best_validation_scores() -> None:
    low, usual, high = ({42: x, 43: x} for x in (50.0, 60.0, 70.0))
    rows = {"tree__lr_peak=0.0007": low, "tree__": usual, "tree__lr_peak=0.006": high}
    assert worth.tuned("tree", COLUMN, found(**rows)) == Row("tree", "lr_peak=0.006")
    few = found(**rows | {"tree__lr_peak=0.006": {42: 55.0}})  # the other seed of the others does not count
    assert worth.tuned("tree", COLUMN, few) == Row("tree")
    assert worth.tuned("tree", COLUMN, found(**rows | {"tree__": {44: 60.0}})) is None  # no seed in common
    assert worth.tuned("tree", COLUMN, {}) is None
