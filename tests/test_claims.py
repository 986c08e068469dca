"""The verdicts on published claims follow from the scores by the rules on the page of results."""

from __future__ import annotations

import pytest

from results import claims, plans
from results.claims import Cell, Pair, Score, verdict

COLUMNS = (("copy", "decoder"), ("reverse", "decoder"))


def compared(ours: float, theirs: float, trained: float = 0.9) -> dict[Cell, dict[int, Score | None]]:
    """The scores of `none` and `rope` in both columns; `trained` is that of `none` at the training sizes."""
    of = {"none": (ours, trained), "rope": (theirs, 0.5)}
    return {
        Cell(scheme, "plain", task, model): {seed: Score(known, unseen + 0.01 * seed) for seed in range(3)}
        for scheme, (unseen, known) in of.items()
        for task, model in COLUMNS
    }


CLAIM = [Pair(("none", "plain"), ("rope", "plain"), COLUMNS)]


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (0.4, 0.5, ("contradicted", (2, 2, 2, 0, 2))),
        (0.35, 0.3, ("confirmed", (2, 2, 2, 2, 0))),  # exactly 5 points
        (0.44, 0.4, ("not seen", (2, 2, 2, 0, 0))),  # less than 5 points
    ],
)
def test_a_verdict(ours: float, theirs: float, expected: tuple[str, tuple[int, ...]]) -> None:
    assert verdict(CLAIM, compared(ours, theirs)) == expected


def test_a_column_that_nobody_has_learnt_does_not_count() -> None:
    scores = compared(0.5, 0.4, trained=0.89)
    assert verdict(CLAIM, scores) == ("not seen", (2, 2, 0, 0, 0))
    scores |= {cell: of for cell, of in compared(0.5, 0.4).items() if cell.task == "copy"}
    assert verdict(CLAIM, scores) == ("confirmed", (2, 2, 1, 1, 0))


def test_one_seed_against_is_enough_for_no_win() -> None:
    scores = compared(0.5, 0.1)
    scores[Cell("rope", "plain", "copy", "decoder")][1] = Score(0.5, 0.6)
    assert verdict(CLAIM, scores) == ("confirmed", (2, 2, 2, 1, 0))
    scores[Cell("rope", "plain", "reverse", "decoder")][1] = Score(0.5, 0.6)
    assert verdict(CLAIM, scores) == ("not seen", (2, 2, 2, 0, 0))


def test_it_is_open_until_every_cell_is_finished() -> None:
    scores = compared(0.5, 0.1)
    scores[Cell("none", "plain", "copy", "decoder")][1] = None
    assert verdict(CLAIM, scores) == ("open", (2, 1, 1, 1, 0))
    del scores[Cell("none", "plain", "copy", "decoder")]
    assert verdict(CLAIM, scores) == ("open", (2, 1, 1, 1, 0))


@pytest.mark.parametrize(("trained", "expected"), [(0.7, "open"), (0.69, "not seen")])
def test_what_missing_seeds_can_no_longer_change_is_settled(trained: float, expected: str) -> None:
    """With 70% in one seed of three, the mean can still be 90%: with 69%, it cannot."""
    scores = compared(0.5, 0.4)
    for column in COLUMNS:
        for scheme in ("none", "rope"):
            scores[Cell(scheme, "plain", *column)] = {0: Score(trained, 0.0), 1: None, 2: None}
    assert verdict(CLAIM, scores)[0] == expected
    scores[Cell("rope", "plain", "copy", "decoder")] = {0: Score(0.9, 0.0), 1: None, 2: None}
    assert verdict(CLAIM, scores)[0] == "open"  # half of the comparisons can count


def test_every_cell_of_a_claim_is_in_the_sweep() -> None:
    """And the sweep evaluates it at the largest training size and beyond."""
    stages = plans.planned("length")
    swept = {
        Cell(item.config.scheme, item.config.positions, item.data.task, getattr(item.config, "model", claims.MODELS[1]))
        for item in stages.trials
    }
    compared = {
        Cell(*side, *column)
        for pairs in claims.claims().values()
        for pair in pairs
        for side in (pair.ours, pair.theirs)
        for column in pair.columns
    }
    assert compared <= swept
    assert max(stages.trials[0].data.parameters["sizes"]) == claims.LARGEST
    assert stages.trials[0].tests.generalise == (claims.LARGEST, *claims.BEYOND)
