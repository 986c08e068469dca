"""Scores by size: pooled as ratios of sums, over seeds, with a mark for the sizes of training."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from ape_cli.data.loader import Dataset
from ape_cli.reports import palette
from ape_cli.reports.views import Options, by_size
from ape_cli.runs.record import evaluation_name
from ape_cli.runs.registry import Registry
from tests.conftest import write
from tests.registered import fingerprint_of, put_evaluation, rename, replace, vouch
from tests.registered import write as write_json
from tests.reports.test_aggregation import add

# only length 5 in training, so that its rows are drawn quickly
TRAINED: dict[str, Any] = {
    "parameters": {"length_mean": 5, "length_std": 0},
    "seed": 1,
    "rows": {"train": 9, "validation": 9, "test": 9},
}

Found = dict[int, tuple[int, int]]  # size -> correct tokens and all tokens


def put(
    where: Path,
    scheme: str,
    found: dict[str, Found],
    seed: int = 1,
    *,
    trained: Any = TRAINED,
    chances: dict[int, float] | None = None,
    **options: Any,
):
    """A registered run, evaluated on datasets by their names. Each token is a row, and entropy is 1 - accuracy.

    `chances`: the token accuracy of chance at each size. Its exact match is half of it.
    """
    folder, known = add(where, scheme, 0.5, seed, **options), chances or {}
    about = json.loads((folder / "run.json").read_text())
    about["dataset"] |= trained
    for name, of_sizes in found.items():
        if fingerprint_of(name) == about["dataset"]["fingerprint"]:
            about["dataset"]["rows"] = about["dataset"]["rows"] | {"test": sum(t for _, t in of_sizes.values())}
    write_json(folder / "run.json", about)
    for path in (folder / "eval").iterdir():
        path.unlink()
    vouch(folder)
    for name, of_sizes in found.items():
        lines = [
            {
                "size": n,
                "token_accuracy": c / t,
                "exact_match": c / t,
                "cross_entropy": 1 - c / t,
                "rows": t,
                "tokens": t,
                **({"chance": {"token_accuracy": known[n], "exact_match": known[n] / 2}} if n in known else {}),
            }
            for n, (c, t) in of_sizes.items()
        ]
        evaluation = {"dataset": name, "fingerprint": fingerprint_of(name), "split": "test", "decode": "teacher"}
        put_evaluation(folder, evaluation | {"by_size": lines})
    return folder


def path_of(folder: Path, name: str) -> Path:
    """The path of a run's evaluation on the dataset `name`."""
    return folder / evaluation_name(fingerprint_of(name), "test", "teacher")


VIEW = by_size.BySize()


def read(where: Path, **options: Any) -> by_size.Sizes:
    return VIEW.read(Registry(where), Options(**options))


def all_differ(sizes: by_size.Sizes) -> by_size.Sizes:
    """The same scores, with rows that are known: no two rows of the datasets are equal."""
    first, rows = 0, {}
    for (fingerprint,), lines in sizes.values.group_by("fingerprint", maintain_order=True):
        of_size = [size for size, count in lines.unique("size").select("size", "rows").rows() for _ in range(count)]
        sources = pl.Series(range(first, first + len(of_size)), dtype=pl.UInt64)
        rows[str(fingerprint)] = pl.DataFrame({"size": of_size, "source": sources})
        first += len(of_size)
    return dataclasses.replace(sizes, drawn=rows)


def test_counts_can_be_left_out_of_the_plot(tmp_path: Path) -> None:
    put(tmp_path, "rope", {"a": {5: (8, 10), 6: (1, 2)}})
    for counts in (True, False):
        plot = VIEW.plot(read(tmp_path), Options(counts=counts))
        assert plot
        assert plot.draw
        assert bool(plot.draw("score", palette.looks(plot.rows)).axes[0].texts) == counts


def test_data_with_other_options_than_sizes_has_its_own_table(tmp_path: Path) -> None:
    """Trees that are drawn differently have other scores at equal depths."""
    depths = {"depth_mean": 2, "depth_std": 0}
    drawn = {"b": depths | {"depth_mean": 3}, "c": depths | {"redraw": True}, "d": {"sizes": [3], "redraw": True}}
    found = {name: {3: (number, 10)} for number, name in enumerate("abcd")}
    folder = put(tmp_path, "rope", found, task="tree-copy", order="breadth", trained=TRAINED | {"parameters": depths})
    for name, parameters in drawn.items():
        path = path_of(folder, name)
        write_json(path, json.loads(path.read_text()) | {"plan": {"parameters": parameters, "seed": 2}})
    vouch(folder)
    scores = VIEW.frame(all_differ(read(tmp_path)))
    assert scores.select("on", "mean").rows() == [("a, b", pytest.approx(0.05)), ("c, d", pytest.approx(0.25))]


def test_a_score_is_a_ratio_of_sums(tmp_path: Path) -> None:
    """8 of 10 and 20 of 90 tokens are 28 of 100, not the mean of 0.8 and 0.222.

    The same holds for two sizes of a bin.
    """
    put(tmp_path, "rope", {"a": {5: (8, 10), 6: (1, 2)}, "b": {5: (20, 90), 7: (6, 8)}})
    found = VIEW.frame(all_differ(read(tmp_path)))
    assert found["size"].to_list() == [5, 6, 7]
    assert found["mean"].to_list() == pytest.approx([0.28, 0.5, 0.75])
    assert found["weight"].to_list() == [100, 2, 8]
    pooled = by_size.pool(all_differ(read(tmp_path)), maximum=2)
    assert pooled.select("first", "last").rows() == [(5, 5), (6, 7)]
    assert pooled["mean"].to_list() == pytest.approx([0.28, 0.7])
    entropy = by_size.pool(all_differ(read(tmp_path, metric="cross_entropy")), maximum=2)
    assert entropy["mean"].to_list() == pytest.approx([0.72, 0.3])


def test_chance_is_a_ratio_of_sums_too(tmp_path: Path) -> None:
    """20 of 40 and 12 of 120 tokens. It is not known if it is not known for all of them."""
    folder = put(tmp_path, "rope", {"a": {5: (20, 40)}, "b": {5: (60, 120)}}, chances={5: 0.5})
    evaluation = json.loads(path_of(folder, "b").read_text())
    (line,) = evaluation["by_size"]
    del line["chance"]
    for more, expected in (({"chance": {"token_accuracy": 0.1, "exact_match": 0.05}}, 0.2), ({}, None)):
        put_evaluation(folder, evaluation | {"by_size": [line | more]})
        assert by_size.pool(all_differ(read(tmp_path)))["chance"].to_list() == [pytest.approx(expected)]


def test_a_table_of_some_of_the_runs_says_how_many(tmp_path: Path) -> None:
    """Runs are counted over all schemes of a column."""
    put(tmp_path, "rope", {"a": {5: (1, 2)}, "b": {6: (1, 2)}}, 1)
    for scheme, seed in (("rope", 2), ("alibi", 1)):
        put(tmp_path, scheme, {"a": {5: (1, 2)}}, seed)
    notes = [note for table in VIEW.tables(all_differ(read(tmp_path))) for note in table.notes]
    assert [note for note in notes if "runs" in note] == ["Evaluated: 1 of 3 runs."]


def test_a_point_of_a_plot_is_in_the_middle_of_its_bin(tmp_path: Path) -> None:
    put(tmp_path, "rope", {"a": dict.fromkeys(range(10, 50), (1, 2))})
    (panel,) = by_size.panels(all_differ(read(tmp_path)))
    assert panel.lines["x"].to_list() == [12, 17, 22, 27, 32, 37, 42, 47]  # 10-14, 15-19 and so on


def test_exact_match_is_over_rows(tmp_path: Path) -> None:
    folder = put(tmp_path, "rope", {"a": {5: (10, 20)}, "b": {5: (0, 30)}})
    for name, rows in (("a", 10), ("b", 30)):
        found = json.loads(path_of(folder, name).read_text())
        found["by_size"][0]["rows"] = rows
        put_evaluation(folder, found)
    (line,) = VIEW.frame(all_differ(read(tmp_path, metric="exact_match"))).to_dicts()
    assert line["mean"] == pytest.approx(0.5 * 10 / 40)
    assert line["weight"] == 40


def test_seeds_are_averaged_each_by_itself(tmp_path: Path) -> None:
    """A seed that was evaluated on more tokens does not count more. Sizes that one seed lacks come from the others."""
    put(tmp_path, "rope", {"a": {5: (28, 100), 6: (1, 2)}}, 1)
    put(tmp_path, "rope", {"a": {5: (5, 10)}}, 2)
    five, six = VIEW.frame(read(tmp_path)).to_dicts()
    assert five["mean"] == pytest.approx((0.28 + 0.5) / 2)
    assert five["std"] == pytest.approx(0.22 / 2**0.5)  # two values: their difference divided by √2
    assert (five["seeds"], six["seeds"], six["std"]) == (2, 1, None)
    (panel,) = by_size.panels(read(tmp_path))
    assert panel.lines.select("x", "mean", "least", "most").row(0) == pytest.approx((5, 0.39, 0.28, 0.5))


def test_intervals_over_rows_and_over_seeds_are_two_things(tmp_path: Path) -> None:
    """12 rows, none right: by Wilson up to z² / (12 + z²) with z = 1.959964, that is 0.242495, while seeds agree on 0.

    Of two seeds with 3 and 9 right the mean is 0.5: half of the interval over seeds is 12.7062 × 0.25, so it is cut off
    at both ends, and over rows z / 2 / √(12 + z²), at most as wide as that of one model of this score.
    """
    put(tmp_path, "rope", {"a": {5: (0, 12), 6: (3, 12)}}, 1)
    put(tmp_path, "rope", {"a": {5: (0, 12), 6: (9, 12)}}, 2)
    none, some = VIEW.frame(read(tmp_path, metric="exact_match")).to_dicts()
    assert (none["low"], none["high"]) == (0, 0)
    assert (none["low_over_rows"], none["high_over_rows"]) == pytest.approx((0, 0.242495), abs=1e-6)
    assert (some["low"], some["high"]) == (0.0, 1.0)
    half = 1.959964 / 2 / (12 + 1.959964**2) ** 0.5
    assert (some["low_over_rows"], some["high_over_rows"]) == pytest.approx((0.5 - half, 0.5 + half), abs=1e-6)
    tokens = VIEW.frame(read(tmp_path))
    assert tokens["low_over_rows"].null_count() == tokens["high_over_rows"].null_count() == 2


@pytest.mark.parametrize(
    ("task", "order", "options"),
    [
        ("reverse", None, {}),
        ("tree-copy", "depth", {"branching": 3, "binarise": True}),
        ("ring-shift", None, {}),
        ("tree-rotate", "breadth", {"rotation": "root"}),  # recorded under an earlier name of the option
    ],
)
def test_what_training_saw_is_what_its_split_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str, order: str | None, options: dict[str, Any]
) -> None:
    """The rows are drawn again, block by block, and are the same as those on disk."""
    monkeypatch.setattr(by_size, "_BLOCK", 7)
    data = write(tmp_path, task, order, **options)
    plan = data.manifest.plan
    held = data.split("train").table()["size"].to_numpy()
    about = {"task": task, "order": order, "parameters": plan.parameters, "seed": plan.seed, "rows": plan.rows}
    assert by_size.seen(SimpleNamespace(**about, code=None)) == by_size.Seen(held.min(), held.max())
    assert by_size.seen(SimpleNamespace(**about, code="0" * 64)) is None  # other code has drawn them


def test_sizes_that_training_saw_are_marked(tmp_path: Path, words: Dataset) -> None:
    """From the smallest to the largest, including both, and nothing else."""
    plan = words.manifest.plan
    held = words.split("train").table()["size"].to_numpy()
    low, high = int(held.min()), int(held.max())
    trained = {"parameters": plan.parameters, "seed": plan.seed, "rows": plan.rows}
    asked = [low - 1, low, high, high + 1]
    put(tmp_path, "rope", {"a": dict.fromkeys(asked, (1, 2))}, trained=trained)
    found = read(tmp_path)
    assert VIEW.frame(found)["seen"].to_list() == [False, True, True, False]
    (table,) = VIEW.tables(found)
    assert table.columns == [f"{low - 1}", f"{low} (seen)", f"{high} (seen)", f"{high + 1}"]
    assert f"Training data: length {low}–{high} (seen)." in table.notes
    assert by_size.panels(found)[0].seen == (low, high)


def test_listed_sizes_leave_gaps(tmp_path: Path) -> None:
    """A size between two listed ones was not in training."""
    trained = TRAINED | {"parameters": {"sizes": [2, 4, 5, 6, 9]}}
    put(tmp_path, "rope", {"a": dict.fromkeys(range(1, 11), (1, 2))}, trained=trained)
    found = read(tmp_path)
    assert [n for n, seen in enumerate(VIEW.frame(found)["seen"], 1) if seen] == [2, 4, 5, 6, 9]
    (table,) = VIEW.tables(found)
    assert "Training data: length 2, 4–6, 9 (seen)." in table.notes
    assert by_size.bins([1, 2, 3, 4], by_size.Seen(2, 4, (2, 4)), 3) == {n: (n, n) for n in (1, 2, 3, 4)}


def test_without_the_task_it_is_not_known_what_training_saw(tmp_path: Path) -> None:
    folder = put(tmp_path, "rope", {"a": {5: (1, 2), 6: (1, 2)}})
    path = folder / "run.json"
    replace(path, '"reverse"', '"somebody-s-own"')
    rename(folder)
    assert VIEW.frame(read(tmp_path))["seen"].to_list() == [None, None]


def test_bins() -> None:
    """Each size is in one bin, bins are in order, none crosses the limits of training, and there are not too many."""
    rng = random.Random(1)
    for _ in range(200):
        there = sorted(rng.sample(range(400), rng.randint(1, 90)))
        low, high = sorted(rng.sample(range(400), 2))
        most = rng.randint(3, 12)
        found = by_size.bins(there, by_size.Seen(low, high), most)
        assert list(found) == there
        ends = sorted(set(found.values()))
        assert len(ends) <= most
        assert all(a[1] < b[0] for a, b in itertools.pairwise(ends))
        for size, (first, last) in found.items():
            assert first <= size <= last
            assert {first, last} <= set(there)
            assert (first < low, first > high) == (last < low, last > high)
    assert by_size.bins([3, 5, 9], None, 3) == {3: (3, 3), 5: (5, 5), 9: (9, 9)}
