"""Solve rates of the sweep `indirect`: the test between two rates, and the table, on scores that are made up here."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest

from results.queries import indirect


@pytest.mark.parametrize(("ours", "theirs"), [((3, 4), (0, 4)), ((2, 3), (1, 4)), ((0, 3), (3, 3)), ((2, 4), (2, 4))])
def test_the_exact_test_counts_all_ways_to_choose_which_seeds_solve(
    ours: tuple[int, int], theirs: tuple[int, int]
) -> None:
    """All choices of the seeds that solve are equally likely if the schemes do not differ."""
    count = ours[1] + theirs[1]
    ways = [sum(seed < ours[1] for seed in of) for of in combinations(range(count), ours[0] + theirs[0])]
    chance = {k: Fraction(ways.count(k), len(ways)) for k in set(ways)}
    expected = sum(of for of in chance.values() if of <= chance[ours[0]])
    assert indirect.fisher(ours, theirs) == pytest.approx(float(expected))


def test_the_table_has_a_line_for_each_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fisher's p of 8 and 0 of 8 is 2 / 12,870, and of 4 and 0 it is 2 * 70 / 1,820. Two tests: the bound is 2.5%."""
    scores = {
        "rope": [20.0, 21.0, 22.0, 23.0, 94.9, 25.0, 26.0, 27.0],
        "pope": [95.0, 96.0, 97.0, 98.0, 99.0, 100.0, 95.5, 95.6],
        "relative": [100.0] * 4 + [10.0] * 4,
    }
    of = {("decoder", scheme): dict(enumerate(of, 42)) for scheme, of in scores.items()}
    monkeypatch.setattr(indirect, "indirect", lambda: of)
    monkeypatch.setattr(indirect, "unfinished", set)
    assert indirect.compared("decoder")["relative"] == (pytest.approx(140 / 1_820), False)
    assert indirect.indirect_answer() == (
        "in the decoder, 8 of 8 seeds solve the task with `pope` and 0 with `rope`: the published lead of `pope` is "
        "seen. Schemes that differ from `rope`: `pope`."
    )
    assert indirect.solve_rates().splitlines()[2:] == [
        "| decoder | `rope` | 0 of 8 | 0 to 32 | 20.0, 24.0, 94.9 | — |",
        "| decoder | `pope` | 8 of 8 | 68 to 100 | 95.0, 96.5, 100.0 | **0.0002** |",
        "| decoder | `relative` | 4 of 8 | 22 to 78 | 10.0, 55.0, 100.0 | 0.0769 |",
    ]


def test_the_answer_says_how_many_seeds_would_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above 1 of 8, only 8 count: 7 have p = 2 * (8 * 8 + 1) / 12,870, which is above 1%. Above 7 of 8, none do."""
    schemes = ("pope", "relative", "path", "contextual", "orthogonal-seq")
    solved = {("decoder", "rope"): 1, ("encoder-decoder", "rope"): 7}
    solved |= {(model, scheme): 4 for model in ("decoder", "encoder-decoder") for scheme in schemes}
    of = {row: dict(enumerate([100.0] * count + [0.0] * (8 - count), 42)) for row, count in solved.items()}
    monkeypatch.setattr(indirect, "indirect", lambda: of)
    monkeypatch.setattr(indirect, "unfinished", set)
    assert [indirect.least_seen(model) for model in ("decoder", "encoder-decoder")] == [8, None]
    assert indirect.indirect_answer().endswith(
        "In the encoder-decoder, 4 of 8 seeds solve the task with `pope` and 7 with `rope`: the published lead of "
        "`pope` is not seen (not even 8 would suffice). Schemes that differ from `rope`: none."
    )


def test_there_is_no_test_before_all_runs_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound depends on the number of schemes, and `rope` may come last."""
    monkeypatch.setattr(indirect, "indirect", lambda: {("decoder", "pope"): {42: 99.0}})
    monkeypatch.setattr(indirect, "unfinished", lambda: {"decoder"})
    assert indirect.solve_rates().splitlines()[2:] == [
        "| decoder | `pope` | 1 of 1 | 21 to 100 | 99.0, 99.0, 99.0 | — |"
    ]
    assert indirect.indirect_answer() == "the runs of the decoder are not finished."


def test_what_the_advice_says_of_pope() -> None:
    """It is on no other page, and does not differ from `rope` in either model."""
    assert not indirect.unfinished()
    assert [indirect.compared(model)["pope"][1] for model in ("encoder-decoder", "decoder")] == [False, False]
