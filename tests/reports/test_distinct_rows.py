"""Each test row counts once: within a dataset, in several datasets of a table, and whatever the seeds.

Scores are chosen, and the rows are those that the tasks draw. Numbers of distinct rows are counted from sets of tuples.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

from ape_cli import tasks
from ape_cli.reports import aggregation, stats
from ape_cli.reports.views import Options, by_operator, by_size, generalisation
from ape_cli.runs.registry import Registry
from tests.registered import edit, fingerprint_of, put_evaluation
from tests.reports.views import test_by_size

WORDS = {"vocabulary": 20}
SMALL = {"sizes": list(range(1, 7))}  # of the training data


class Data(NamedTuple):
    """A dataset that a run is evaluated on."""

    name: str
    options: dict[str, Any]
    rows: int
    score: float | dict[int, float] = 0.0  # of each row, by size
    seed: int = 1
    told: bool = True  # whether its evaluation says what it was drawn from
    test_only: bool = False


def drawn(task: str, data: Data, split: str = "test", order: str | None = None) -> pl.DataFrame:
    """The rows as the task draws them: size, operator, the source as a tuple, and the number of target tokens."""
    made = tasks.make(task, order, **data.options)
    lines = made.sample(rows=range(data.rows), split=split, seed=data.seed).to_pylist()
    closes = made.structure == "seq" and not made.tagged
    return pl.DataFrame(
        {
            "size": [line["size"] for line in lines],
            "op": [line["op"] for line in lines],
            "source": [f"{line['source_ids']} {line['source_positions']}" for line in lines],
            "tokens": [sum(id != 0 for id in line["target_ids"]) + closes for line in lines],
        },
        schema_overrides={"op": pl.String},
    )


def put(
    where: Path,
    task: str,
    own: Data,
    others: list[Data],
    scheme: str = "rope",
    seed: int = 1,
    *,
    split: str = "test",
    order: str | None = None,
) -> Path:
    """Registers a run that was trained on `own`, and its evaluations on this and on `others`."""
    trained = {
        "parameters": tasks.make(task, order, **own.options).parameters,
        "seed": own.seed,
        "rows": {"train": 9, "validation": own.rows, "test": own.rows},
    }
    given = {"task": task, "order": order, "name": own.name, "fingerprint": fingerprint_of(own.name)}
    folder = test_by_size.put(where, scheme, {}, seed, trained=trained, **given)
    for data in [own, *others]:
        rows = drawn(task, data, split, order)
        counts = [
            {
                part: [
                    {
                        part: key,
                        "rows": of.height,
                        "tokens": of["tokens"].sum(),
                        "token_accuracy": (
                            score := data.score.get(key, 0.0) if isinstance(data.score, dict) else data.score
                        ),
                        "exact_match": score,
                        "cross_entropy": 1 - score,
                    }
                    for (key,), of in rows.drop_nulls(part).sort(part).group_by(part, maintain_order=True)
                ]
            }
            for part in ("size", "op")
        ]
        about = {"dataset": data.name, "fingerprint": fingerprint_of(data.name), "split": split, "decode": "teacher"}
        about |= {"by_size": counts[0]["size"], "by_op": counts[1]["op"]} | (
            {"test_only": True} if data.test_only else {}
        )
        if data.told and data is not own:
            plan = {"parameters": tasks.make(task, order, **data.options).parameters, "seed": data.seed}
            about |= {"plan": plan}
        put_evaluation(folder, about)
    return folder


def frame(where: Path, **options: Any) -> dict[int, dict[str, Any]]:
    """The lines of `--by size` of the only scheme, by size."""
    view = by_size.BySize()
    found = view.frame(view.read(Registry(where), Options(**({"metric": "exact_match"} | options))))
    return {line["size"]: line for line in found.iter_rows(named=True)}


def rules(where: Path) -> Sequence[str]:
    """The rules of the only table of `--by size`."""
    view = by_size.BySize()
    (table,) = view.tables(view.read(Registry(where), Options()))
    return table.rules


OWN = Data("copy", SMALL | WORDS, 60)


def request(name: str, sizes: list[int], rows: int = 40, **options: Any) -> Data:
    """Test rows as `ape train --generalise` draws them, so many of each size."""
    return Data(name, {"sizes": sizes} | WORDS, rows * len(sizes), test_only=True, **options)


@pytest.mark.parametrize("told", [True, False])
def test_two_requests_have_the_rows_of_a_size_once(tmp_path: Path, told: bool) -> None:
    """Both have the same 40 words of length 8. A score of 0 has the interval of 40 rows, not of 80.

    Evaluations of earlier versions do not say what their rows were drawn from (`told`).
    """
    put(tmp_path, "copy", OWN, [request("copy-a", [8, 12], told=told), request("copy-b", [8, 16], told=told)])
    found = frame(tmp_path)
    assert {size: found[size]["rows"] for size in (8, 12, 16)} == {8: 40, 12: 40, 16: 40}
    assert (found[8]["tokens"], found[8]["weight"]) == (40 * 9, 40)
    assert (found[8]["low_over_rows"], found[8]["high_over_rows"]) == pytest.approx(stats.wilson(0.0, 40))
    view = generalisation.Generalisation()
    result = view.read(Registry(tmp_path), Options())
    lines = view.frame(result).filter(metric="exact_match", size=8)
    assert lines.select("rows", "tokens").row(0) == (40, 360)


def test_a_threshold_counts_distinct_rows(tmp_path: Path) -> None:
    """20 rows are fewer than 30, however many datasets have them."""
    requests = [request("copy-a", [8, 12], 20), request("copy-b", [8, 16], 20), request("copy-c", [20], 40)]
    put(tmp_path, "copy", OWN, requests)
    view = generalisation.Generalisation()
    found = view.frame(view.read(Registry(tmp_path), Options())).filter(metric="exact_match")
    assert dict(found.filter(pl.col("size") > 6).select("size", "counted").rows()) == {
        8: False,
        12: False,
        16: False,
        20: True,
    }


@pytest.mark.parametrize("split", ["test", "validation"])
def test_few_distinct_inputs_of_a_size(tmp_path: Path, split: str) -> None:
    """Words of three elements of a group: 300 rows, but only some are different. The score is that of all 300."""
    own = Data("words", {"sizes": [3], "group": "symmetric-3"}, 300, 1.0)
    distinct = drawn("group-word", own, split)["source"].n_unique()
    assert distinct < 60
    put(tmp_path, "group-word", own, [], split=split)
    (line,) = frame(tmp_path, split=split).values()
    assert (line["rows"], line["tokens"], line["weight"]) == (distinct, 3 * distinct, 300)
    assert (line["low_over_rows"], line["high_over_rows"]) == pytest.approx(stats.wilson(1.0, distinct))
    view = by_size.BySize()
    (table,) = view.tables(view.read(Registry(tmp_path), Options(split=split)))
    assert table.foot[0] == (f"{split} rows", [str(distinct)])
    assert any(rule.endswith("All seeds share them, and equal rows count once.") for rule in table.rules)


def test_by_operator(tmp_path: Path) -> None:
    """Trees of depth 1 are few, so some rows of each operator are equal."""
    own = Data("trees", {"sizes": [1, 2], "vocabulary": 16}, 400, 0.5)
    put(tmp_path, "tree-ops", own, [], order="breadth")
    rows = drawn("tree-ops", own, order="breadth").unique("source")
    expected = rows.group_by("op").agg(pl.len(), pl.col("tokens").sum()).rows()
    assert (rows.height < 400, len(expected)) == (True, 4)
    view = by_operator.ByOperator()
    found = view.frame(view.read(Registry(tmp_path), Options(metric="exact_match")))
    assert sorted(found.select("op", "rows", "tokens").rows()) == sorted(expected)
    intervals = [stats.wilson(0.5, rows) for rows in found["rows"]]
    assert found.select("low_over_rows", "high_over_rows").rows() == [pytest.approx(each) for each in intervals]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"seed": 3}, "other rows"),
        ({"parameters": {"nonsense": 1}}, "an option that is not known here"),
        ({"code": "0" * 64}, "a task that has changed"),
        (None, "an evaluation of an earlier version, of data with training rows"),
    ],
)
def test_rows_that_cannot_be_drawn_again(tmp_path: Path, change: dict[str, Any] | None, reason: str) -> None:
    """Then all recorded rows count, and no other dataset is pooled with these, because they may have the same rows."""
    own = Data("own", {"length_mean": 6, "length_std": 1} | WORDS, 60)
    data = [Data("a", {"length_mean": 8, "length_std": 1} | WORDS, 80), Data("b", own.options, 50, 1.0, seed=2)]
    folder = put(tmp_path, "copy", own, data)
    (path,) = (path for path in folder.glob("eval/*") if '"dataset": "a"' in path.read_text())
    edit(path, lambda found: found["plan"].update(change) if change else found.pop("plan"))
    recorded = drawn("copy", data[0]).group_by("size").len().filter(pl.col("size") > 7)
    found = frame(tmp_path)
    assert {size: found[size]["rows"] for size in recorded["size"]} == dict(recorded.rows()), reason
    sizes = {size for size, line in found.items() if line["mean"] == 0.0}
    assert set(recorded["size"]) <= sizes
    assert any(note.endswith("which rows are equal is not known here, so all count.") for note in rules(tmp_path))


def test_what_takes_minutes_is_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = aggregation.Drawing("copy", None, '{"length_mean": 5, "length_std": 0}', (), 1, None, "test", 100)
    rows = aggregation.draw(drawing)
    assert rows is not None
    monkeypatch.setattr(aggregation, "_BLOCK_TOKENS", 70)  # seven rows
    again = aggregation.draw(drawing)
    assert again is not None
    assert again.equals(rows)
    monkeypatch.setattr(aggregation, "_MOST_TOKENS", 999)
    assert aggregation.draw(drawing) is None


def test_data_that_shares_some_rows_is_left_out(tmp_path: Path) -> None:
    """Of `8` and `8,12`, each has half of the rows of length 8 of the other one."""
    one, other = (drawn("copy", request("x", sizes)).filter(size=8)["source"] for sizes in ([8], [8, 12]))
    assert len(set(one) & set(other)) == 20
    put(tmp_path, "copy", OWN, [request("copy-b", [8], score=1.0), request("copy-a", [8, 12])])
    assert (frame(tmp_path)[8]["mean"], frame(tmp_path)[8]["rows"]) == (0.0, 40)
    assert "No row counts twice: length 8 comes only from copy-a." in rules(tmp_path)
