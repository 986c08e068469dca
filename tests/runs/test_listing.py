"""The table of runs: a column for each setting, test scores, and the identity of the configuration as in reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import ape
from tests.reports.test_aggregation import add


@pytest.fixture
def tuned(here: Path) -> Path:
    """Three runs of `rope`: two seeds of one setting, and another setting."""
    for seed, value, variant in ((1, 0.5, {}), (2, 0.25, {}), (1, 0.75, {"lr_peak": 0.003})):
        add(here / "results", "rope", value, seed, variant=variant)
    return here


def test_each_setting_and_each_test_score_is_a_column(tuned: Path) -> None:
    lines = json.loads(ape("runs", "--json")[0])
    assert len({tuple(line) for line in lines}) == 1, "all rows have the same columns"
    found = {(line["seed"], line["lr_peak"]): line["test_token_accuracy"] for line in lines}
    usual = next(line["lr_peak"] for line in lines if not line["variant"])
    assert found == {(1, usual): 0.5, (2, usual): 0.25, (1, 0.003): 0.75}
    assert {line["test_greedy_token_accuracy"] for line in lines} == {None}
    for line in lines:
        config = json.loads((tuned / "results" / "runs" / line["run"] / "run.json").read_text())["config"]
        settings = {name: value for name, value in config.items() if not name.endswith("_options")}
        assert settings.items() <= line.items()


def test_runs_are_sorted_by_a_column(tuned: Path) -> None:
    for words, expected in ((["--sort", "lr_peak", "--descending"], 0.003), (["--sort", "lr-peak"], 0.002)):
        assert json.loads(ape("runs", *words, "--json")[0])[0]["lr_peak"] == expected


def test_the_identity_of_a_configuration_is_that_of_reports(tuned: Path) -> None:
    """It joins the rows of `ape runs --json` and of `ape report --json`, and seeds share it."""
    runs = json.loads(ape("runs", "--json")[0])
    reported = {line["configuration"]: line["mean"] for line in json.loads(ape("report", "--json")[0])}
    means = {name: [line["test_token_accuracy"] for line in runs if line["configuration"] == name] for name in reported}
    assert len(reported) == 2
    assert {name: sum(scores) / len(scores) for name, scores in means.items()} == pytest.approx(reported)
