"""A contract for every view that is found."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from ape_cli.core.errors import ApeError, left_out
from ape_cli.reports import document, rendering, views
from ape_cli.reports.evaluations import METRICS
from ape_cli.reports.palette import looks
from ape_cli.reports.tables import Table
from ape_cli.reports.views import Options, View
from ape_cli.runs.registry import Registry
from tests.conftest import ape
from tests.registered import write
from tests.reports.test_aggregation import add
from tests.reports.views import test_by_epoch, test_by_operator, test_by_size

ALL = {name: views.load(name) for name in views.names()}
ROWS = ("rope", "none")
OURS = ("scores", "by-size", "by-operator", "by-epoch", "paired")  # in the order of the page; a new view may be added


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs with everything that views read: sizes, operators and histories, for two schemes and two seeds."""
    return fill(tmp_path_factory.mktemp("views"))


def fill(where: Path) -> Path:
    """Writes the runs of `filled`."""
    for scheme, seed in itertools.product(ROWS, (1, 2)):
        test_by_size.put(
            where, scheme, {"a": {5: (8, 10 + seed), 6: (1, 2), 12: (10, 40)}}, seed, task="copy", name="copy"
        )
        test_by_operator.put(where, scheme, dict.fromkeys(test_by_operator.OPS, 0.5), seed)
        test_by_epoch.put(where, scheme, [0.2, 0.6 + seed / 10], [0.1, 0.5], seed)
    for path in where.glob("runs/*/run.json"):
        about = json.loads(path.read_text())
        about["dataset"]["seed"] = 1
        about["dataset"]["rows"]["train"] = 9  # these rows are drawn again
        if about["dataset"]["task"] != "images":
            about["status"] = "stopped"  # so that they need no history
        write(path, about)
    return where


def asked(view: View[Any], **options: Any) -> Options:
    """Options that select this view."""
    compare = ROWS if view.compares else None
    return Options(**{"compare": compare} | options)


def refused(view: View[Any], options: Options) -> list[str]:
    """The errors about the options that the view refuses."""
    return [error.what for error in view.rejects(options)]


@pytest.mark.parametrize("name", ALL)
def test_a_view_says_what_it_is(name: str) -> None:
    view = ALL[name]
    assert view.name == name
    assert view.about
    assert "\n" not in view.about
    assert view.title[0].isupper()
    assert bool(view.caption) == (type(view).plot is not View.plot)
    assert refused(view, asked(view)) == []


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("metric", METRICS)
def test_it_reads_tabulates_and_draws(filled: Path, name: str, metric: str) -> None:
    """Each format has the same rows, and the figure has the rows of the tables."""
    view, registry = ALL[name], Registry(filled)
    options = asked(view, metric=metric)
    if refused(view, options):
        assert name in ("generalisation", "verdicts") or (name, metric) == ("by-epoch", "exact_match")
        return
    with left_out() as bad:
        found = view.read(registry, options)
    assert bad == []
    frame = view.frame(found)
    assert frame.height > 0
    if name == "generalisation":  # it shows two metrics, whatever is selected
        assert set(frame["metric"]) == {"exact_match", "token_accuracy"}
    elif name == "verdicts":  # the metrics are those of the published numbers
        assert set(frame["metric"]) == {"perplexity", "token_accuracy", "bleu"}
    elif "metric" in frame.columns:  # a view without scores has none
        assert set(frame["metric"]) == {metric}
    for interval in (False, True):
        tables = view.tables(found, interval=interval)
        assert tables
        for table in tables:
            assert isinstance(table, Table)
            assert table.notes
            assert all(len(cells) == len(table.columns) for _, cells in table.rows)
            assert all(len(counts) == len(table.columns) for _, counts in table.foot)
        for style in ("rich", "markdown", "latex"):
            assert tables[0].columns[0] in rendering.text(style, tables)
    plot = view.plot(found, options)
    assert (plot is not None) == bool(view.caption)
    if plot and plot.draw:
        assert set(plot.rows) == set(ROWS)
        for axis in ("score", "error") if METRICS[metric].is_share else ("score",):
            assert plot.draw(axis, looks(plot.rows)).axes


@pytest.mark.parametrize("name", ALL)
def test_without_runs_it_is_an_error_that_says_what_to_do(tmp_path: Path, name: str) -> None:
    view = ALL[name]
    with pytest.raises(ApeError) as caught:
        view.read(Registry(tmp_path), asked(view))
    assert caught.value.exit_code == 1
    assert "`ape train" in (caught.value.fix or "")


def test_a_page_goes_on_without_a_view_that_has_nothing_to_show(tmp_path: Path) -> None:
    add(tmp_path, "rope", 0.5)
    made = document.read(Registry(tmp_path), ALL[views.DEFAULT], Options(style="html"))
    assert {"scores"} <= {part.view.name for part in made.parts} <= set(ALL) - {"by-operator"}
    assert 'id="scores"' in made.text("score")


def test_the_form_of_own_views_before_is_still_read(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`read` also returned a line of text about each run that cannot be read."""
    view = ALL["scores"]
    found = view.read(Registry(filled), asked(view)), ["one: is damaged"]
    monkeypatch.setattr(type(view), "read", lambda self, registry, options: found)
    monkeypatch.setattr(document.plugins, "is_user_class", lambda part: True)
    with pytest.warns(DeprecationWarning, match="a list of texts beside it is deprecated"), left_out() as lines:
        made = document.read(Registry(filled), view, asked(view))
    assert (made.selected.result is found[0], lines) == (True, ["one: is damaged"])
    assert made.notes == ["Left out, because they cannot be read or compared: one."]


def test_two_views_or_an_unknown_one_are_refused(here: Path) -> None:
    assert "one view at a time" in ape("report", "--view", "by-size", "--by", "op", code=2)[1]
    assert "the view paired needs two rows" in ape("report", "--view", "paired", code=2)[1]
    error = ape("report", "--view", "by-sise", code=2)[1]
    assert "did you mean 'by-size'" in error
    assert ", ".join(views.names()) in error
