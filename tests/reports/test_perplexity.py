"""Perplexity in reports: by hand over seeds, parts and pairs, in every format, and where it is infinite."""

from __future__ import annotations

import io
import json
import math
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ape_cli.reports import aggregation, rendering
from ape_cli.reports.plots import draw_figures
from ape_cli.reports.tables import Table
from ape_cli.reports.views import Options, by_epoch, by_operator, by_size, load, paired
from ape_cli.runs.registry import Registry
from tests.conftest import ape
from tests.registered import edit, fingerprint_of, put_evaluation, vouch
from tests.reports import test_best_by, test_curves
from tests.reports.test_aggregation import add
from tests.reports.views import test_by_size

METRIC = {"metric": "perplexity"}
Parts = dict[Any, tuple[float, int, int]]  # size or operator -> nats per token, rows, tokens


def put(where: Path, nats: float, seed: int = 1, scheme: str = "rope", **options: Any) -> Path:
    """Registers a run with this cross-entropy. No file has its perplexity."""
    folder = add(where, scheme, 0.5, seed, **options)
    (path,) = (folder / "eval").iterdir()
    edit(path, lambda found: [part.update(cross_entropy=nats) for part in (found["overall"], *found["by_size"])])
    return folder


def put_parts(where: Path, part: str, of_data: dict[str, Parts], seed: int = 1, **options: Any) -> Path:
    """Registers a run with scores by size or by operator (`part`) on datasets by their names."""
    folder = test_by_size.put(where, "rope", {name: {5: (1, 2)} for name in of_data}, seed, **options)
    for name, parts in of_data.items():
        lines = [
            {"token_accuracy": 0.5, "exact_match": 0.5, "cross_entropy": n, "rows": r, "tokens": t, part: key}
            for key, (n, r, t) in parts.items()
        ]
        found = {"dataset": name, "fingerprint": fingerprint_of(name), "split": "test", "decode": "teacher"}
        put_evaluation(folder, found | {f"by_{part}": lines})
        if fingerprint_of(name) == options.get("fingerprint"):
            rows = sum(r for _, r, _ in parts.values())
            edit(folder / "run.json", lambda about, rows=rows: about["dataset"]["rows"].update(test=rows))
    return folder


def line_of(where: Path, **options: Any) -> dict[str, Any]:
    (line,) = aggregation.lines(Registry(where), Options(**METRIC | options)).to_dicts()
    return line


def tables_of(where: Path, view: str = "scores", *, interval: bool = False, **options: Any) -> list[Table]:
    shown = load(view)
    return shown.tables(shown.read(Registry(where), Options(**METRIC | options)), interval=interval)


def compared(where: Path) -> list[dict[str, Any]]:
    view = paired.Paired()
    return view.frame(view.read(Registry(where), Options("perplexity", compare=("rope", "none")))).to_dicts()


def three(where: Path) -> None:
    """Three seeds of a scheme and of a worse one."""
    for seed, nats in enumerate((2.0, 2.1, 2.3), 1):
        put(where, nats, seed)
        put(where, nats + 1, seed, "none")


def test_three_seeds_by_hand(tmp_path: Path) -> None:
    """Perplexities 7.389056, 8.166170 and 9.974182 have the mean 8.509803 and the deviation 1.326379. Their logarithms
    2, 2.1 and 2.3 have the mean 2.133333 and the deviation 0.152753, so the interval is the exponential of
    2.133333 ± 4.302653 × 0.152753 / √3. Around the mean of perplexities it would be 5.2149 to 11.8047."""
    for seed, nats in enumerate((2.0, 2.1, 2.3), 1):
        put(tmp_path, nats, seed)
    line = line_of(tmp_path)
    expected = {"mean": 8.5098028, "std": 1.3263794, "low": 5.7769451, "high": 12.3393292}
    assert {name: line[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    assert (line["metric"], line["seeds"]) == ("perplexity", 3)


def test_the_interval_ends_at_1(tmp_path: Path) -> None:
    """Perplexities 1, 2 and 4: the interval of the logarithms is ln 2 ± 4.302653 × ln 2 / √3, from below 0. For the
    cross-entropies themselves it ends at 0."""
    for seed, value in enumerate((1.0, 2.0, 4.0), 1):
        put(tmp_path, math.log(value), seed)
    line = line_of(tmp_path)
    assert (line["mean"], line["low"], line["high"]) == (pytest.approx(7 / 3), 1.0, pytest.approx(11.18999796))
    assert line_of(tmp_path, metric="cross_entropy")["low"] == 0.0


def test_nats_of_parts_are_added_before_the_exponential(tmp_path: Path) -> None:
    """0.1 nats for each of 10 tokens and 3 for each of 90 are 271 nats for 100 tokens: e^2.71 = 15.03. The mean over
    the rows would be e^1.55, and that of the perplexities 10.60."""
    parts = {5: (0.1, 5, 10), 6: (3.0, 5, 90)}
    put_parts(tmp_path, "size", {"a": parts}, fingerprint=fingerprint_of("a"))
    assert line_of(tmp_path)["mean"] == pytest.approx(15.0292755)
    sizes = by_size.BySize().read(Registry(tmp_path), Options(**METRIC))
    assert by_size.pool(sizes)["mean"].to_list() == pytest.approx([math.exp(0.1), math.exp(3)])
    assert by_size.pool(sizes, maximum=1)["mean"].to_list() == pytest.approx([math.exp(0.1), math.exp(3)])  # 5 is seen
    (table,) = tables_of(tmp_path, "by-size")
    assert [table.number(cell.mean, 2) for cell in table.scores()] == ["1.11", "20.09"]


def test_by_operator(tmp_path: Path) -> None:
    given = {"task": "tree-ops", "order": "breadth", "fingerprint": fingerprint_of("a")}
    for seed, nats in enumerate((1.0, 2.0), 1):
        put_parts(tmp_path, "op", {"a": {"extract": (nats, 5, 10), "no-op": (0.0, 5, 10)}}, seed, trained={}, **given)
    found = by_operator.ByOperator().read(Registry(tmp_path), Options(**METRIC))
    means = dict(found.select("op", "mean").rows())
    assert means == pytest.approx({"extract": (math.e + math.e**2) / 2, "no-op": 1.0})
    assert found.select("least", "most").row(0) == pytest.approx([math.e, math.e**2])


def test_by_epoch_from_the_losses_of_the_history(tmp_path: Path) -> None:
    """The losses are 2 - 2 accuracy. At the end, the lowest are 0.4 and 0.8."""
    test_curves.put(tmp_path, "rope", [0.2, 0.8], 1)
    test_curves.put(tmp_path, "rope", [0.6, 0.4], 2)
    view = by_epoch.ByEpoch()
    found = view.read(Registry(tmp_path), Options(**METRIC))
    last = found.lines.filter(step=200).row(0, named=True)
    assert last["mean"] == pytest.approx((math.exp(0.4) + math.exp(0.8)) / 2)
    (panel,) = by_epoch.learning(found.histories, "perplexity")
    first = panel.lines.row(0, named=True)
    losses = [math.exp(1.6), math.exp(0.8)]
    assert [first[name] for name in ("mean", "least", "most")] == pytest.approx([sum(losses) / 2, losses[1], losses[0]])
    (table,) = view.tables(found)
    assert "Biased upwards: these scores chose the weights." in table.notes


def test_pairs_have_a_ratio_by_hand(tmp_path: Path) -> None:
    """Differences of logarithms -0.1, -0.3, 0.1: mean -0.1, deviation 0.2, so the ratio is e^-0.1, and its interval
    the exponential of -0.1 ± 4.302653 × 0.2 / √3. The means are geometric: e^1.2 and e^1.3. Of the signs of
    1, 3 and 1, six of eight are as far from 0 as -3."""
    for seed, (ours, theirs) in enumerate(((1.0, 1.1), (1.2, 1.5), (1.4, 1.3)), 1):
        put(tmp_path, ours, seed)
        put(tmp_path, theirs, seed, "none")
    (line,) = compared(tmp_path)
    expected = {"mean_a": 3.3201169, "mean_b": 3.6692967, "ratio": 0.9048374, "low": 0.5505555, "high": 1.4870995}
    assert {name: line[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    assert (line["better_a"], line["better_b"], line["p"]) == (2, 1, 0.75)
    assert not {"difference", "std"} & line.keys()
    (table,) = tables_of(tmp_path, "paired", compare=("rope", "none"))
    assert table.columns[:4] == ["rope", "none", "ratio", "interval"]
    assert table.rows[0][1][:5] == ["3.32", "3.67", "0.90", "[0.55, 1.49]", "2 : 1"]
    assert "Geometric means over shared seeds." in table.notes
    assert "of the logarithms" in " ".join(table.rules)


def test_over_tasks_logarithms_are_averaged(tmp_path: Path) -> None:
    """Ratios e^-0.2 and e^0.6 of two tasks have the geometric mean e^0.2."""
    for task, difference in (("copy", -0.2), ("reverse", 0.6)):
        put(tmp_path, 1.0 + difference, task=task)
        put(tmp_path, 1.0, scheme="none", task=task)
    whole = compared(tmp_path)[-1]
    assert (whole["over"], whole["ratio"]) == ("tasks", pytest.approx(math.exp(0.2)))
    assert (whole["low"], whole["high"]) == (None, None)


def test_what_a_choice_moved_is_a_ratio(tmp_path: Path) -> None:
    """The tests' cross-entropies are 1 - accuracy: 0.3 with the chosen setting and 0.1 with the preset's."""
    for seed in (1, 2):
        test_best_by.trial(tmp_path, "rope", seed, 0.5, 0.9)
        test_best_by.trial(tmp_path, "rope", seed, 0.6, 0.7, variant=test_best_by.HIGH)
        test_best_by.trial(tmp_path, "none", seed, 0.5, 0.5)
    moved = {line["scheme"]: line["moved"] for line in test_best_by.lines(tmp_path, **METRIC)}
    assert moved == {"rope": pytest.approx(math.exp(0.2)), "none": 1.0}


def test_text_has_two_decimals_and_no_unit(tmp_path: Path) -> None:
    put(tmp_path, math.log(64.8591), 1)
    put(tmp_path, math.log(64.8631), 2)
    put(tmp_path, math.log(1.01), 1, "none")
    (table,) = tables_of(tmp_path)
    assert (table.title, table.unit) == ("Sequence tasks, perplexity per token", "")
    markdown = rendering.markdown([table])
    assert "| 64.86 ±0.00 |" in markdown
    assert "<ins>1.01</ins> ×1" in markdown


def test_an_axis_of_errors_is_refused(tmp_path: Path) -> None:
    three(tmp_path)
    words = ("--metric", "perplexity", "--axis", "error", "--plots", str(tmp_path / "p"), "--results", str(tmp_path))
    assert "perplexity has no error" in ape("report", *words, code=2)[1]


@pytest.fixture
def infinite(tmp_path: Path) -> Path:
    """800 nats have no finite exponential in float64. A second seed of `rope` has a finite one."""
    put_parts(tmp_path, "size", {"a": {5: (800.0, 5, 10), 6: (1.0, 5, 1)}}, 1, fingerprint=fingerprint_of("a"))
    put(tmp_path, 1.0, 2)
    for seed in (1, 2):
        put(tmp_path, 900.0, seed, "none")
    history = test_curves.put(tmp_path, "alibi", [0.2, 0.3], 1) / "history.parquet"
    pl.read_parquet(history).with_columns(validation_loss=pl.Series([800.0, 600.0])).write_parquet(history)
    vouch(history.parent)
    return tmp_path


def test_infinite_perplexities_are_null_in_json(infinite: Path) -> None:
    words = ("report", "--metric", "perplexity", "--results", str(infinite))
    lines = {line["scheme"]: line for line in json.loads(ape(*words, "--json", "--scheme", "none")[0])}
    assert [lines["none"][name] for name in ("mean", "std", "low", "high")] == [None] * 4
    for more in (["--by", "size"], ["--by", "epoch"], ["--compare", "rope", "none"], ["--interval"]):
        json.loads(ape(*words, *more, "--json")[0], parse_constant=pytest.fail)
        assert not re.search(r"\bnan\b", ape(*words, *more)[0], re.IGNORECASE)
    assert "| none | inf |" in ape(*words, "--scheme", "none", "--format", "markdown")[0]
    assert ",inf," in ape(*words, "--scheme", "none", "--format", "csv")[0]


def test_infinite_perplexities_are_not_drawn(infinite: Path) -> None:
    for name in ("scores", "by-size", "by-epoch"):
        view, options = load(name), Options(**METRIC)
        plot = view.plot(view.read(Registry(infinite), options), options)
        for figure in draw_figures({name: plot}).values():
            figure.savefig(io.BytesIO())
            (low, high) = figure.axes[0].get_xlim() if name == "scores" else figure.axes[0].get_ylim()
            assert low == 1
            assert math.isfinite(high)


def test_one_size_of_two_datasets_and_a_bin_of_two_sizes(tmp_path: Path) -> None:
    put_parts(tmp_path, "size", {"a": {6: (0.1, 5, 10), 7: (0.1, 1, 2)}, "b": {6: (3.0, 5, 90)}})
    sizes = by_size.BySize().read(Registry(tmp_path), Options(**METRIC))
    sizes = test_by_size.all_differ(sizes)
    pooled = by_size.pool(sizes).filter(first=6)
    assert pooled.select("mean", "least", "most").row(0) == pytest.approx([15.0292755] * 3)
    (together,) = by_size.pool(sizes, maximum=1)["mean"].to_list()
    assert together == pytest.approx(math.exp((10 * 0.1 + 2 * 0.1 + 90 * 3) / 102))


def test_smaller_is_better(tmp_path: Path) -> None:
    three(tmp_path)
    lines = aggregation.lines(Registry(tmp_path), Options(**METRIC))
    assert dict(lines.select("scheme", "best").rows()) == {"rope": True, "none": False}
