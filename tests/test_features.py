"""The rule for features of the documents, by hand, and the runs that it reads."""

from __future__ import annotations

import pytest

from ape_cli.runs.tuning import Validation
from results import plans
from results.features import FEATURES, NONE, Found, answer
from results.worth import Row, Worth

WORKS = Worth(5.0, 4.0, 3)


@pytest.mark.parametrize(
    ("gain", "gap", "answer"),
    [
        (Worth(2.0, 2.0, 3), Worth(9.0, 1.0, 3), "no"),  # 0 to 4: not above 0, whatever the gap
        (Worth(-5.0, 1.0, 3), Worth(0.0, 0.1, 3), "no"),
        (WORKS, Worth(0.5, 0.4, 3), "as well"),  # 0.1 to 0.9: above 0, but too small to count
        (WORKS, Worth(-0.5, 0.5, 3), "as well"),  # -1 to 0
        (WORKS, Worth(0.7, 0.4, 3), "better"),  # 0.3 to 1.1
        (WORKS, Worth(-3.0, 2.0, 3), "less well"),  # -5 to -1
        (WORKS, Worth(-3.0, 3.5, 3), "yes"),  # -6.5 to 0.5
        (WORKS, Worth(0.5, 2.0, 3), "yes"),
        (WORKS, None, "—"),
        (Worth(5.0, None, 1), Worth(0.0, 0.1, 3), "—"),
        (WORKS, Worth(0.0, 0.1, 2), "—"),  # a third seed is not finished
    ],
)
def test_the_answer_follows_from_two_intervals(gain: Worth, gap: Worth | None, answer: str) -> None:
    assert Found(gain, gap).answer == answer


def test_the_differences_are_those_of_the_rows() -> None:
    """From `none`: 30, 31, 32. From `sinusoidal`: -2, -2, -2."""
    feature = next(of for of in FEATURES if of.row == Row("matrix-power", "learned=True"))
    rows = {feature.row: (80.0, 82.0, 84.0), NONE: (50.0, 51.0, 52.0), feature.usual: (82.0, 84.0, 86.0)}
    by_row = {
        ("reverse", row): {seed: (score, Validation(0.0, 1.0)) for seed, score in enumerate(of)}
        for row, of in rows.items()
    }
    found = Found.of(feature, "reverse", by_row)
    assert found.gain is not None
    assert found.gain.mean == 31.0
    assert found.gap == Worth(-2.0, 0.0, 3)
    assert found.answer == "less well"


def test_the_page_answers_from_the_finished_comparisons() -> None:
    """One comparison of the 43 is less well, and one shows no effect."""
    usual, learned, multiplied = (
        Row("sinusoidal"),
        *(Row("matrix-power", f"{of}=True") for of in ("learned", "multiplicative")),
    )
    rows = {NONE: 50.0, usual: 90.0, learned: 80.0, multiplied: 40.0}
    of_rows = {("reverse", row): dict.fromkeys(range(3), (score, Validation(0.0, 1.0))) for row, score in rows.items()}
    assert answer(of_rows) == (
        "in 1 of 2 comparisons the feature works: 0 better than the usual form, 0 as well, 1 less well, and 0 open. "
        "No effect is shown: powers that multiply the embeddings (`reverse`). So far, 2 of 43 comparisons are finished."
    )


def test_the_sweep_trains_the_rows_of_the_table() -> None:
    """And no others. Another sweep trains `tree-learned`. It takes two seconds to plan the sweep."""
    trials = {(trial.data.name, Row(trial.config.scheme, trial.variant)) for trial in plans.planned("features").trials}
    compared = {
        (f"{column.replace('/', '-')}-small", row)
        for feature in FEATURES
        for column in feature.columns
        for row in (feature.row, feature.usual, feature.without)
        if row.scheme != "tree-learned"
    }
    assert compared == trials
