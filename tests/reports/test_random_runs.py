"""Random sets of runs: a second program derives every number and mark of their tables again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ape_cli.core.errors import ApeError
from ape_cli.reports import document, rendering
from ape_cli.reports.views import Options, choose, load
from ape_cli.runs.registry import open_registry
from tests.reports import random_runs, slow_pairs, slow_report, slow_sizes

COMPARED = [("rope", "alibi"), ("rope", "rope (d_model=64)"), ("rope (lr_peak=0.003)", "none"), ("none", "alibi")]


def printed(where: Path, by: str | None = None, **options: Any) -> list[str]:
    """The tables as `ape report --format markdown` prints them, without escapes and notes; empty after an error."""
    try:
        shown = document.read(open_registry(str(where)), choose(None, by, options.get("compare")), Options(**options))
    except ApeError:
        return []
    text = rendering.markdown(shown.tables).replace("\\", "")
    return [line for line in text.split("\n") if line.startswith(("#", "|"))]


def check(where: Path, seed: int) -> None:
    """Compare the tables of both programs on one set of runs."""
    random_runs.make(where, seed)
    runs = slow_report.runs_of(where)
    chosen = slow_report.chosen(runs)
    views: list[tuple[str, Callable[[], list[str]], dict[str, Any]]] = [
        ("scores", lambda: slow_report.scores(runs), {}),
        ("intervals", lambda: slow_report.scores(runs, interval=True), {"interval": True}),
        ("by epoch", lambda: slow_report.by_epoch(runs), {"by": "epoch"}),
        ("chosen", lambda: slow_report.scores(chosen), {"best_by": "validation"}),
        ("chosen by epoch", lambda: slow_report.by_epoch(chosen), {"best_by": "validation", "by": "epoch"}),
    ]
    views += [(f"{pair}", partial(slow_pairs.compared, runs, *pair), {"compare": pair}) for pair in COMPARED]
    for name, derive, options in views:
        assert printed(where, **options) == derive(), f"{seed}: {name}"


def check_sizes(where: Path, seed: int) -> None:
    """Compare the scores by size of both programs on one set of runs, whose datasets share rows."""
    random_runs.make_sizes(where, seed)
    assert printed(where, by="size") == slow_sizes.by_size(where), f"{seed}"
    view = load("by-size")
    frame = view.frame(view.read(open_registry(str(where)), Options(metric="exact_match")))
    names = ("mean", "seeds", "rows", "tokens", "low_over_rows", "high_over_rows")
    found = {(x["scheme"], x["on"], x["size"]): tuple(x[n] for n in names) for x in frame.iter_rows(named=True)}
    expected = slow_sizes.lines(where)
    assert found.keys() == expected.keys()
    assert all(found[key] == pytest.approx(expected[key], abs=1e-9) for key in expected)


@pytest.mark.parametrize("seed", range(3))
def test_every_row_counts_once(tmp_path: Path, seed: int) -> None:
    check_sizes(tmp_path, seed)


@pytest.mark.parametrize("seed", range(3))
def test_every_number_and_mark_is_derived_again(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed)
