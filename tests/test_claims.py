"""The verdicts on published claims follow from the scores by the rules on the page of results."""

from __future__ import annotations

import pytest

from results.claims import Cell, Comparison, verdict

COLUMNS = (("copy", "decoder"), ("reverse", "decoder"))


def compared(ours: float, theirs: float, seeds: int = 3) -> dict[Cell, dict[int, float]]:
    """The scores of `none` and `rope` in both columns."""
    of = {"none": ours, "rope": theirs}
    return {
        Cell(scheme, "plain", task, model): {seed: score + 0.01 * seed for seed in range(seeds)}
        for scheme, score in of.items()
        for task, model in COLUMNS
    }


CLAIM = [Comparison(("none", "plain"), ("rope", "plain"), COLUMNS)]


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (0.5, 0.4, ("confirmed", 2, 2, 2, 0)),
        (0.4, 0.5, ("contradicted", 2, 2, 0, 2)),
        (0.44, 0.4, ("not seen", 2, 2, 0, 0)),  # less than 5 points
    ],
)
def test_a_verdict(ours: float, theirs: float, expected: tuple[str, int, int, int, int]) -> None:
    assert verdict(CLAIM, compared(ours, theirs)) == expected


def test_one_seed_against_is_enough_for_no_win() -> None:
    scores = compared(0.5, 0.1)
    scores[Cell("rope", "plain", "copy", "decoder")][1] = 0.6
    assert verdict(CLAIM, scores) == ("confirmed", 2, 2, 1, 0)
    scores[Cell("rope", "plain", "reverse", "decoder")][1] = 0.6
    assert verdict(CLAIM, scores) == ("not seen", 2, 2, 0, 0)


def test_it_is_open_until_every_cell_is_finished() -> None:
    scores = compared(0.5, 0.1)
    del scores[Cell("none", "plain", "copy", "decoder")]
    assert verdict(CLAIM, scores) == ("open", 1, 2, 1, 0)


def test_each_comparison_has_to_hold() -> None:
    scores = compared(0.5, 0.1) | {Cell("t5", "plain", *column): dict.fromkeys(range(3), 0.9) for column in COLUMNS}
    both = [*CLAIM, Comparison(("none", "plain"), ("t5", "plain"), COLUMNS)]
    assert verdict(both, scores) == ("not seen", 4, 4, 2, 2)
