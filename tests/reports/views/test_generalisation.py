"""Scores beyond the training sizes: two numbers for each row, and two kinds of intervals, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ape_cli.core.errors import ApeError
from ape_cli.reports import stats
from ape_cli.reports.palette import looks
from ape_cli.reports.views import Options, generalisation
from ape_cli.runs.registry import Registry
from tests.figures import drawn as drawn_in
from tests.figures import words
from tests.reports.views.test_by_size import put

VIEW = generalisation.Generalisation()
DATA: dict[str, Any] = {"task": "copy", "name": "copy"}  # all training rows have length 5


def table_of(where: Path) -> dict[str, list[Any]]:
    """The cells of the only table, by row."""
    (table,) = VIEW.tables(VIEW.read(Registry(where), Options()))
    return dict(table.rows)


def test_two_numbers_by_hand(tmp_path: Path) -> None:
    """Sizes count once whatever their rows; size 5 is seen, and size 11 has too few rows: 29, and 30 are enough."""
    put(tmp_path, "rope", {"far": {5: (40, 40), 6: (30, 30), 10: (100, 400), 11: (0, 29)}}, 1, **DATA)
    put(tmp_path, "rope", {"far": {5: (40, 40), 6: (27, 30), 10: (0, 400), 11: (29, 29)}}, 2, **DATA)
    mean, up_to = table_of(tmp_path)["rope"]
    assert dict(mean.by_seed) == {1: pytest.approx((1.0 + 0.25) / 2), 2: pytest.approx((0.9 + 0.0) / 2)}
    assert mean.mean == pytest.approx((0.625 + 0.45) / 2)
    assert mean.rows == 430
    assert up_to == "6 (1.2×)"  # mean over seeds 0.95


def test_the_largest_size_needs_all_smaller_ones(tmp_path: Path) -> None:
    put(tmp_path, "rope", {"far": {5: (40, 40), 6: (30, 40), 10: (40, 40)}}, 1, **DATA)
    put(tmp_path, "none", {"far": {5: (30, 40), 6: (40, 40), 10: (40, 40)}}, 1, **DATA)
    put(tmp_path, "alibi", {"far": {5: (36, 40), 6: (36, 40), 10: (36, 40)}}, 1, **DATA)
    found = {row: cells[1] for row, cells in table_of(tmp_path).items()}
    assert found == {"rope": "5 (1×)", "none": "—", "alibi": "10 (2×), all"}


def test_a_mean_that_rounding_puts_below_the_threshold_reaches_it(tmp_path: Path) -> None:
    """The floats (0.85 + 0.95) / 2 make 0.8999999999999999."""
    for seed, correct in ((1, 34), (2, 38)):
        put(tmp_path, "rope", {"far": {5: (correct, 40), 6: (correct, 40)}}, seed, **DATA)
    assert table_of(tmp_path)["rope"][1] == "6 (1.2×), all"


def test_two_kinds_of_intervals(tmp_path: Path) -> None:
    for seed, correct in ((1, 20), (2, 30)):
        put(tmp_path, "rope", {"far": {5: (40, 40), 10: (correct, 40)}}, seed, **DATA)
    frame = VIEW.frame(VIEW.read(Registry(tmp_path), Options()))
    exact, tokens = (frame.filter(metric=metric, size=10).row(0, named=True) for metric in generalisation._METRICS)
    assert (exact["mean"], exact["multiple"]) == (0.625, 2.0)
    half = 12.706 * (0.25 / 2**0.5) / 2**0.5  # the t of one degree of freedom
    assert exact["high"] == pytest.approx(min(1, 0.625 + half), rel=1e-3)
    assert (exact["low_over_rows"], exact["high_over_rows"]) == pytest.approx(stats.wilson(0.625, 40))  # not of 80
    assert exact["low_over_rows"] == pytest.approx(0.4703, abs=1e-3)
    assert tokens["low_over_rows"] is None


def test_two_seeds_have_no_band(tmp_path: Path) -> None:
    """Their interval is 12.7 times as wide as their standard error."""
    for seeds, drawn in ((2, False), (3, True)):
        for seed in range(seeds):
            put(tmp_path / str(seeds), "rope", {"far": {5: (40, 40), 10: (20 + seed, 40)}}, seed, **DATA)
        plot = VIEW.plot(VIEW.read(Registry(tmp_path / str(seeds)), Options()), Options())
        assert plot is not None
        assert plot.draw is not None
        figure = plot.draw("score", looks(plot.rows))
        assert drawn_in(figure.axes[0])["rope"].get_xdata().tolist() == [1.0, 2.0]  # multiples of length 5
        legend = words(figure)
        assert ("95% interval over seeds" in legend) == drawn
        assert "95% interval over inputs" in legend


def test_nothing_beyond_training_is_an_error(tmp_path: Path) -> None:
    put(tmp_path, "rope", {"far": {4: (40, 40), 5: (40, 40), 9: (29, 29)}}, 1, **DATA)
    with pytest.raises(ApeError, match="of a size beyond its training data"):
        VIEW.read(Registry(tmp_path), Options())
