"""Means over the sizes beyond those of training, with chance, by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ape_cli.core.errors import ApeError
from ape_cli.reports.views import Options, unseen
from ape_cli.runs.registry import Registry
from tests.registered import put_evaluation
from tests.reports.views.test_by_size import path_of, put

VIEW = unseen.Unseen()


@pytest.fixture
def runs(tmp_path: Path) -> Registry:
    """Two tasks, whose training rows all have length 5."""
    for task, chances in (("copy", {5: 1.0, 6: 0.5, 10: 0.25}), ("reverse", {5: 1.0, 6: 0.1, 10: 0.3})):
        for seed, correct in ((1, 40), (2, 20)):
            found = {f"far-{task}": {5: (40, 40), 6: (correct, 40), 10: (0, 400)}}
            put(tmp_path, "rope", found, seed, chances=chances, task=task, name=task)
    return Registry(tmp_path)


def test_each_size_counts_once_and_chance_is_a_mean_too(runs: Registry) -> None:
    result = VIEW.read(runs, Options())
    (table,) = VIEW.tables(result)
    assert table.title == "Beyond the sizes of training, token accuracy"
    assert table.columns == ["copy", "reverse"]
    ((row, cells),) = table.rows
    assert row == "rope"
    assert [dict(cell.by_seed) for cell in cells] == [{1: 0.5, 2: 0.25}] * 2
    assert list(table.foot) == [("chance", ["37.50", "20.00"])]
    assert "Training data: length 5; unseen: 6, 10." in table.notes
    assert VIEW.frame(result).select("unseen", "chance").rows() == [("6, 10", 0.375), ("6, 10", 0.2)]


def test_another_metric_has_its_own_chance(runs: Registry) -> None:
    (table,) = VIEW.tables(VIEW.read(runs, Options(metric="exact_match")))
    assert list(table.foot) == [("chance", ["18.75", "10.00"])]
    (table,) = VIEW.tables(VIEW.read(runs, Options(metric="cross_entropy")))
    assert list(table.foot) == []
    (table,) = VIEW.tables(VIEW.read(runs, Options(metric="perplexity")))
    assert any("geometric mean over the unseen sizes" in rule for rule in table.rules)


def test_chance_is_not_the_mean_over_some_of_the_sizes(tmp_path: Path) -> None:
    found = {"far": {5: (40, 40), 6: (20, 40), 10: (0, 400)}}
    put(tmp_path, "rope", found, chances={6: 0.5}, task="copy", name="copy")
    (table,) = VIEW.tables(VIEW.read(Registry(tmp_path), Options()))
    assert list(table.foot) == []


def test_each_table_of_a_column_has_its_own_sizes_and_chance(tmp_path: Path) -> None:
    """The first seed was evaluated at one more size, which is a table of its own."""
    far, farther = {"far": {6: (20, 40)}}, {"farther": {10: (30, 40)}}
    for seed, found in ((1, far | farther), (2, far)):
        put(tmp_path, "rope", found, seed, chances={6: 0.5, 10: 0.25}, task="copy", name="copy")
    result = VIEW.read(Registry(tmp_path), Options())
    assert VIEW.frame(result).select("mean", "unseen", "chance").rows() == [(0.5, "6", 0.5), (0.75, "10", 0.25)]


def test_single_symbols_count_without_their_eos(tmp_path: Path) -> None:
    """A row of two tokens is a symbol and its EOS. Only then is the EOS half of all tokens."""
    for task, tokens in (("modular", 80), ("copy", 200)):
        folder = put(tmp_path, "rope", {f"far-{task}": {5: (40, 40), 10: (30, 40)}}, task=task, name=task)
        path = path_of(folder, f"far-{task}")
        evaluation = json.loads(path.read_text())
        for line in evaluation["by_size"]:
            line |= {"tokens": tokens, "exact_match": 0.5 * line["token_accuracy"]}
        put_evaluation(folder, evaluation)
    (table,) = VIEW.tables(VIEW.read(Registry(tmp_path), Options()))
    ((_, cells),) = table.rows
    assert {name: cell.mean for name, cell in zip(table.columns, cells, strict=True)} == {
        "copy": 0.75,
        "modular": 0.375,
    }
    assert "Exact match where all answers are single symbols: modular." in table.notes
    assert table.title == "Beyond the sizes of training, token accuracy"


def test_without_sizes_beyond_training_it_says_how_to_get_them(tmp_path: Path) -> None:
    put(tmp_path, "rope", {"far": {5: (40, 40)}}, task="copy", name="copy")
    with pytest.raises(ApeError, match="no run was evaluated on 30 test rows of a size beyond"):
        VIEW.read(Registry(tmp_path), Options())
