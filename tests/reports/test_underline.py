"""Underlining: worked out by hand, by an independent definition with fractions, and in every order of the runs."""

from __future__ import annotations

import random
import statistics
from fractions import Fraction
from typing import Any

import polars as pl
import pytest

from ape_cli.reports import aggregation, evaluations
from ape_cli.reports.descriptions import Settings
from ape_cli.reports.evaluations import Values

IMAGES = 359  # rows of a test split; a score is a number of them, so ties are common
Column = dict[str, list[int]]  # scheme -> number of correct rows of each seed


def frame(column: Column, metric: str = "token_accuracy", order: str | None = None) -> pl.DataFrame:
    """One column of a table, as scores of single runs. Cross-entropy is the share of wrong rows."""
    same: dict[str, Any] = dict.fromkeys(("variant", "structure", "form", "trained_on", "dataset"), "")
    same |= {"task": "reverse", "order": order, "attention": "dot", "preset": "small", "decode": "teacher"}
    same |= {"split": "test", "metric": metric, "trained_fingerprint": "f", "fingerprint": "f"}
    same |= {"preset_size": False, "paper_size": False}
    found = [
        same
        | {"scheme": scheme, "configuration": scheme, "seed": seed, "rows": IMAGES, "tokens": IMAGES}
        | {"value": (IMAGES - right if metric == "cross_entropy" else right) / IMAGES}
        for scheme, rights in column.items()
        for seed, right in enumerate(rights)
    ]
    return pl.DataFrame(found, schema=evaluations.VALUES, orient="row")


def aggregate(values: pl.DataFrame) -> pl.DataFrame:
    return aggregation.aggregate(Values(values, {(scheme, ""): Settings() for scheme in values["scheme"]}))


def underlined(values: pl.DataFrame) -> set[str]:
    return set(aggregate(values).filter("best")["scheme"])


def expected(column: Column) -> set[str]:
    """The rule with fractions, which has no rounding and does not depend on an order."""
    mean = {scheme: Fraction(sum(rights), len(rights)) for scheme, rights in column.items()}
    top = max(mean.values())
    of_best = [list(map(Fraction, rights)) for scheme, rights in column.items() if mean[scheme] == top]
    variance = max(statistics.variance(rights) if len(rights) > 1 else Fraction() for rights in of_best)
    return {scheme for scheme in column if (top - mean[scheme]) ** 2 <= variance}


@pytest.mark.parametrize(
    ("column", "best"),
    [
        # means 352, 352 and 350; deviations 1 and 3 of the two best: 352 - 3 = 349 includes the third
        ({"rope": [351, 352, 353], "none": [349, 352, 355], "t5": [350, 350, 350]}, {"rope", "none", "t5"}),
        # the same without the wide deviation: 352 - 1 = 351 does not include it
        ({"rope": [351, 352, 353], "t5": [350, 350, 350]}, {"rope"}),
        # the best has one seed, so it has no deviation, and no other row equals it
        ({"rope": [348, 350, 352], "t5": [348, 348, 348], "none": [358]}, {"none"}),
        # the best has one seed, and a row with three has the same mean: its deviation of 2 counts
        ({"rope": [348, 350, 352], "t5": [348, 348, 348], "none": [350]}, {"rope", "t5", "none"}),
        # the best has two seeds: 350 - 1.41 = 348.59 includes 349, but not 348
        ({"rope": [348, 349, 350], "none": [349, 351], "t5": [348, 348, 348]}, {"rope", "none"}),
        # a row with fewer seeds below the limit of 348, and at it
        ({"rope": [348, 350, 352], "none": [347]}, {"rope"}),
        ({"rope": [348, 350, 352], "none": [348]}, {"rope", "none"}),
        # one seed each: there is no deviation, and equal scores are equal
        ({"rope": [350], "none": [350], "t5": [349]}, {"rope", "none"}),
    ],
)
def test_by_hand(column: Column, best: set[str]) -> None:
    assert expected(column) == best
    for metric in ("token_accuracy", "cross_entropy"):
        assert underlined(frame(column, metric)) == best


def test_nothing_is_underlined_in_a_column_of_zeros() -> None:
    """A cross-entropy of 0 is perfect, and an accuracy of 0 is not. Less than 0.05% is 0.0%."""
    assert not aggregate(frame({"rope": [1, 0], "none": [0, 0]}).with_columns(pl.col("value") / 10))["best"].any()
    assert underlined(frame({"rope": [0, 0], "none": [0, 0]})) == set()
    assert underlined(frame({"rope": [0, 2], "none": [0, 0]})) == {"rope", "none"}
    assert underlined(frame({"rope": [IMAGES] * 2, "none": [0, 0]}, "cross_entropy")) == {"rope"}


@pytest.mark.parametrize("metric", ["token_accuracy", "cross_entropy"])
def test_no_order_of_the_runs_changes_an_underline(metric: str) -> None:
    """Random columns of few seeds with many ties, with their lines in many orders, because sums of floats depend on the
    order.
    """
    rng = random.Random(5)
    parts, best, ties = [], set[tuple[str, str]](), 0
    for number in range(300):
        seeds = rng.randint(2, 4)
        rights = [[rng.randint(340, 359) for _ in range(rng.choice([seeds, seeds, 1]))] for _ in range(3)]
        # the mean of the first again, from other scores: one higher and one lower
        rights.append([rights[0][0] - 1, *rights[0][1:-1], rights[0][-1] + 1] if len(rights[0]) > 1 else rights[0])
        column = {f"x{i}": found for i, found in enumerate(rights)}
        parts.append(frame(column, metric).with_columns(fingerprint=pl.lit(f"{number}")))
        best |= {(f"{number}", scheme) for scheme in expected(column)}
        means = [Fraction(sum(found), len(found)) for found in rights]
        ties += means.count(max(means)) > 1
    assert ties > 60
    values = pl.concat(parts)
    first = aggregate(values).sort("fingerprint", "scheme")
    assert set(first.filter("best").select("fingerprint", "scheme").rows()) == best
    for turn in range(20):
        shuffled = values.sample(fraction=1, shuffle=True, seed=turn)
        assert aggregate(shuffled).sort("fingerprint", "scheme").equals(first)


def test_columns_are_judged_by_themselves() -> None:
    """Each column has its own best mean and its own deviation."""
    words = frame({"rope": [350, 352], "none": [340, 340]})
    trees = frame({"rope": [300], "none": [340]}, order="depth")
    found = aggregate(pl.concat([words, trees]))
    best = found.filter("best").select("order", "scheme").rows()
    assert sorted(best, key=str) == [("depth", "none"), (None, "rope")]
