"""Every view on the command line with what it refuses, and a user's own view in a process of its own."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from ape_cli.core.errors import UsageError, left_out
from ape_cli.reports import document, plots, rendering
from ape_cli.reports.evaluations import METRICS
from ape_cli.runs.registry import Registry
from tests.reports.test_views import ALL, ROWS, asked


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
        with left_out() as bad:
            made = document.read(Registry(filled), view, options)
        assert bad == []
        assert made.text("score")
