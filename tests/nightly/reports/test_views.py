"""Every view on the command line with what it refuses, and a user's own view in a process of its own."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from ape_cli.core.errors import UsageError
from ape_cli.reports import document, plots, rendering
from ape_cli.reports.evaluations import METRICS
from ape_cli.runs.registry import Registry
from tests.conftest import elsewhere
from tests.reports.test_views import ALL, ROWS, asked
from tests.reports.views import test_by_epoch


@pytest.mark.parametrize("name", ALL)
def test_what_is_refused_says_why_and_all_else_is_shown(
    filled: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every pair of options gives either an error with the option and a fix, or a report."""
    monkeypatch.setattr(plots, "missing", lambda: "pip install matplotlib")  # drawing all pages takes long
    view = ALL[name]
    single: list[dict[str, Any]] = [
        {"against": "paper"},
        {"interval": True},
        {"split": "validation"},
        {"decode": "greedy"},
        *({"metric": metric} for metric in METRICS),
        *({"style": style} for style in rendering.FORMATS),
        {"compare": ROWS},
        {"compare": None},
        {"plots": "folder"},
        {"plots": "folder", "axis": "error"},
    ]
    for one, two in itertools.combinations(single, 2):
        options = asked(view, **(one | two))
        errors = list(view.rejects(options))
        for error in errors:
            assert isinstance(error, UsageError)
            assert "`" in str(error.got)
            assert error.fix
        if errors or options.split == "validation" or options.decode == "greedy":
            continue  # no run was evaluated on these
        made, bad = document.read(Registry(filled), view, options)
        assert bad == []
        assert made.text("score")


MINE = '''
"""The number of seeds of each line."""

from ape_cli.reports import evaluations, line_plots
from ape_cli.reports.line_plots import Panel
from ape_cli.reports.plots import Plot
from ape_cli.reports.tables import Table
from ape_cli.reports.views import View


class HowMany(View):
    about = "how many seeds there are"
    by = "seeds"
    caption = "These are seeds."

    def rejects(self, options):
        yield from super().rejects(options)
        if options.decode == "greedy":
            from ape_cli.core.errors import UsageError

            yield UsageError("seeds are counted once", got="--decode greedy", fix="leave it out")

    def read(self, registry, options):
        return evaluations.selected(registry, options)

    def frame(self, found):
        return found.group_by("scheme").len("seeds").sort("scheme")

    def tables(self, found, *, interval=False):
        rows = [(scheme, [str(seeds)]) for scheme, seeds in self.frame(found).rows()]
        return [Table("Seeds", ["All of them."], ["seeds"], rows, "")]

    def plot(self, found, options):
        import matplotlib.figure

        return Plot(found["scheme"].to_list(), lambda axis, chosen: matplotlib.figure.Figure())
'''


def test_a_view_is_one_new_file(tmp_path: Path) -> None:
    """The file is found in a user's folder on the path, listed, and shown in every format, on the page and among the
    plots.
    """
    for scheme, seed in (("rope", 1), ("rope", 2), ("none", 1)):
        test_by_epoch.put(tmp_path / "results", scheme, [0.2, 0.6], None, seed)
    run = elsewhere(tmp_path, "ape_cli/reports/views/how_many.py", MINE)
    assert "how-many     how many seeds there are\n" in run("report", "--views").stdout
    assert "| rope | 2 |" in run("report", "--by", "seeds", "--format", "markdown").stdout
    words = ("report", "--view", "how-many")
    found = json.loads(run(*words, "--format", "json").stdout)
    assert found == [{"scheme": "none", "seeds": 1}, {"scheme": "rope", "seeds": 2}]
    assert "seeds are counted once" in run(*words, "--decode", "greedy", code=2).stderr
    page = run("report", "--format", "html", "--plots", "figures").stdout
    assert '<h2 id="how-many">How many<' in page
    assert "These are seeds." in page
    assert page.index('id="learning-curves"') < page.index('id="how-many"')
    assert {"how-many.svg", "learning-curves.svg"} <= {path.name for path in (tmp_path / "figures").iterdir()}


def test_a_view_with_a_mistake_leaves_the_others_alone(tmp_path: Path) -> None:
    test_by_epoch.put(tmp_path / "results", "rope", [0.2, 0.6], None)
    run = elsewhere(tmp_path, "ape_cli/reports/views/broken.py", "import nothing_like_this\n")
    page = run("report", "--format", "html")
    assert "Learning curves" in page.stdout
    assert "left out: the file of view 'broken' cannot be imported" in page.stderr
    assert "broken" in run("report", "--view", "broken", code=1).stderr
