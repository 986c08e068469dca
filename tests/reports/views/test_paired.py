"""Two schemes in pairs: by hand, by laws, over tasks, and in every format."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest

from ape_cli.core.errors import ApeError, UsageError, left_out
from ape_cli.reports import rendering
from ape_cli.reports.views import Options, paired
from ape_cli.runs.registry import Registry
from tests.conftest import ape
from tests.reports.test_aggregation import add

A, B = "rope", "orthogonal-seq"
VIEW = paired.Paired()


def compared(where: Path, a: str = A, b: str = B, **options: Any) -> tuple[list[dict[str, Any]], list[str]]:
    with left_out() as alone:
        found = VIEW.read(Registry(where), Options(**options, compare=(a, b)))
    return found.to_dicts(), alone


def fill(where: Path, ours: dict[int, float], theirs: dict[int, float], **options: Any) -> None:
    for scheme, scores in ((A, ours), (B, theirs)):
        for seed, value in scores.items():
            add(where, scheme, value, seed, **options)


OURS = {1: 0.90, 2: 0.92, 3: 0.10, 4: 0.97}  # seeds 3 and 5 have no pair
THEIRS = {1: 0.91, 2: 0.95, 4: 0.96, 5: 0.20}


def test_pairs_by_hand(tmp_path: Path) -> None:
    """Differences -0.01, -0.03, 0.01: mean -0.01; squares 0, 0.0004, 0.0004 over 2, so s = 0.02; half of the interval
    4.302653 × 0.02 / √3 = 0.0496828. Of ±1 ±3 ±1 six of eight are as far from 0 as -3."""
    fill(tmp_path, OURS, THEIRS)
    (line,), alone = compared(tmp_path)
    expected = {
        "mean_a": 0.93,
        "mean_b": 0.94,
        "difference": -0.01,
        "std": 0.02,
        "low": -0.0596828,
        "high": 0.0396828,
        "p": 0.75,
        "least_p": 0.25,
    }
    assert {k: line[k] for k in expected} == pytest.approx(expected, abs=1e-7)
    assert (line["pairs"], line["better_a"], line["better_b"]) == (3, 1, 2)
    assert (line["only_a"], line["only_b"], alone) == ("3", "5", [])
    assert (line["a"], line["b"], line["over"], line["column"]) == (A, B, "seeds", "reverse")


def test_one_seed_has_a_difference_alone(tmp_path: Path) -> None:
    fill(tmp_path, {1: 0.9}, {1: 0.8})
    (line,), _ = compared(tmp_path)
    assert line["difference"] == pytest.approx(0.1)
    assert (line["std"], line["low"], line["high"], line["p"], line["least_p"]) == (None, None, None, 1, 1)


def test_swapped_signs_flip_and_p_stays(tmp_path: Path) -> None:
    fill(tmp_path, OURS, THEIRS)
    fill(tmp_path, OURS, {k: v - 0.05 for k, v in THEIRS.items()}, task="copy")
    for one, other in zip(compared(tmp_path)[0], compared(tmp_path, B, A)[0], strict=True):
        assert other["difference"] == pytest.approx(-one["difference"])
        assert (other["mean_a"], other["mean_b"], other["p"]) == (one["mean_b"], one["mean_a"], one["p"])
        assert (other["better_a"], other["better_b"]) == (one["better_b"], one["better_a"])
        assert (other["only_a"], other["only_b"]) == (one["only_b"], one["only_a"])
        if one["over"] == "seeds":
            assert (other["low"], other["high"]) == (pytest.approx(-one["high"]), pytest.approx(-one["low"]))


def test_what_is_added_to_both_changes_nothing(tmp_path: Path) -> None:
    """Seeds may differ from each other by any amount, as long as both schemes differ alike.

    This is the reason for pairs.
    """
    shift = {1: 0.0, 2: -0.5, 3: -0.01, 4: -0.9, 5: 0.02}
    fill(tmp_path / "as-is", OURS, THEIRS)
    moved = [{seed: value + shift[seed] for seed, value in scores.items()} for scores in (OURS, THEIRS)]
    fill(tmp_path / "moved", *moved)
    (one,), (other,) = compared(tmp_path / "as-is")[0], compared(tmp_path / "moved")[0]
    kept = ("difference", "std", "low", "high", "p", "better_a", "better_b", "pairs")
    assert {k: other[k] for k in kept} == pytest.approx({k: one[k] for k in kept})


def test_the_same_scores_do_not_differ(tmp_path: Path) -> None:
    fill(tmp_path, OURS, OURS)
    (line,), _ = compared(tmp_path)
    assert (line["difference"], line["std"], line["low"], line["high"], line["p"]) == (0, 0, 0, 0, 1)
    assert (line["better_a"], line["better_b"], line["pairs"]) == (0, 0, 4)


def test_smaller_is_better_in_nats(tmp_path: Path) -> None:
    """Cross-entropy is 1 - accuracy in these runs, so differences change their sign, and the better scheme stays the
    same.
    """
    fill(tmp_path, OURS, THEIRS)
    (line,), _ = compared(tmp_path, metric="cross_entropy")
    assert line["difference"] == pytest.approx(0.01)
    assert (line["better_a"], line["better_b"]) == (1, 2)


def test_over_tasks_a_pair_is_a_task(tmp_path: Path) -> None:
    """tree-copy is one task in two orders: (0.1 + 0.3) / 2 = 0.2; with 0.1 and -0.01 the mean is 0.29 / 3, better on
    2 : 1, and of the signs of 20, 10, 1 only all alike and ±(20 + 10 - 1) are as far from 0 as 29: 4 of 8."""
    fill(tmp_path, {1: 0.6, 2: 0.7, 3: 0.8}, {1: 0.5, 2: 0.6, 3: 0.7}, task="reverse")
    fill(tmp_path, {1: 0.5}, {1: 0.51}, task="copy")
    fill(tmp_path, {1: 0.6, 2: 0.6}, {1: 0.5, 2: 0.5}, task="tree-copy", order="breadth")
    fill(tmp_path, {1: 0.8, 2: 0.8}, {1: 0.5, 2: 0.5}, task="tree-copy", order="depth")
    *columns, whole = compared(tmp_path)[0]
    assert [line["column"] for line in columns] == ["copy", "reverse", "tree-copy/breadth", "tree-copy/depth"]
    assert (whole["over"], whole["column"], whole["task"], whole["pairs"]) == ("tasks", "all tasks", None, 3)
    assert whole["difference"] == pytest.approx(0.29 / 3)
    assert whole["mean_a"] == pytest.approx((0.7 + 0.5 + 0.7) / 3)
    assert (whole["better_a"], whole["better_b"], whole["p"], whole["least_p"]) == (2, 1, 0.5, 0.25)
    assert (whole["low"], whole["high"]) == (None, None)  # tasks have different scales


def test_equal_means_of_tasks_are_equal(tmp_path: Path) -> None:
    """Over two columns of a task, 90 and 80 have the mean of 85 and 85; so have floats only almost."""
    for order, ours in (("breadth", 0.9), ("depth", 0.8)):
        fill(tmp_path, {1: ours}, {1: 0.85}, task="tree-copy", order=order)
    for order, ours in (("breadth", 0.1 + 0.2), ("depth", 0.0)):
        fill(tmp_path, {1: ours}, {1: 0.15}, task="tree-rotate", order=order)
    *_, whole = compared(tmp_path)[0]
    assert (whole["better_a"], whole["better_b"], whole["pairs"], whole["p"]) == (0, 0, 2, 1)


@pytest.mark.parametrize(("metric", "ends"), [("token_accuracy", (-1.0, 1.0)), ("cross_entropy", (-5.8531, 6.8531))])
def test_an_interval_ends_where_a_difference_can_be(tmp_path: Path, metric: str, ends: tuple[float, float]) -> None:
    """Differences of 1 and 0 have the deviation 1/√2, and half of the interval is 12.706 / 2 = 6.353. Nats have no
    bound."""
    fill(tmp_path, {1: 1.0, 2: 0.5}, {1: 0.0, 2: 0.5})
    (line,), _ = compared(tmp_path, *((A, B) if metric == "token_accuracy" else (B, A)), metric=metric)
    assert (line["low"], line["high"]) == pytest.approx(ends, abs=1e-4)


def test_columns_without_a_pair_are_named(tmp_path: Path) -> None:
    fill(tmp_path, OURS, THEIRS)
    fill(tmp_path, {1: 0.9}, {2: 0.9}, task="repeat")
    add(tmp_path, A, 0.9, 1, task="copy")
    found, alone = compared(tmp_path)
    assert [line["column"] for line in found] == ["reverse"]
    assert alone == [
        "copy, preset small: no seed in common (rope: 1; orthogonal-seq: no seed)",
        "repeat, preset small: no seed in common (rope: 1; orthogonal-seq: 2)",
    ]


def test_what_cannot_be_compared_is_said(tmp_path: Path) -> None:
    fill(tmp_path, {1: 0.9}, {2: 0.9})
    with pytest.raises(ApeError, match=r"no pairs to compare[\s\S]*rope: 1; orthogonal-seq: 2[\s\S]*same `seed`"):
        compared(tmp_path)
    with pytest.raises(UsageError, match=r"allowed: orthogonal-seq, rope\n[\s\S]*did you mean 'orthogonal-seq'"):
        compared(tmp_path, A, "orthogonalseq")
    with pytest.raises(UsageError, match="compared with itself"):
        compared(tmp_path, A, A)


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    fill(tmp_path, OURS, THEIRS)
    fill(tmp_path, OURS, {k: v - 0.05 for k, v in THEIRS.items()}, task="copy")
    return tmp_path


def test_every_format_says_the_same(filled: Path) -> None:
    words = ("report", "--results", str(filled), "--compare", A, B, "--format")
    parsed = json.loads(ape(*words, "json")[0])
    assert [line["column"] for line in parsed] == ["copy", "reverse", "all tasks"]
    assert list(parsed[0]) == list(paired.LINES)
    rows = list(csv.DictReader(io.StringIO(ape(*words, "csv")[0])))
    for line, row in zip(parsed, rows, strict=True):
        assert list(row) == list(line)
        assert row["difference"] == str(line["difference"])
    markdown = ape(*words, "markdown")[0]
    assert "| reverse | 93.00 | 94.00 | -1.00 | [-5.97, +3.97] | 1 : 2 | 3 | 0.75 | 0.25 |" in markdown
    assert "Seeds that only one of the two has are left out." in markdown
    for style in ("latex", "html", "rich"):
        assert "[-5.97, +3.97]" in ape(*words, style)[0]


def test_more_pairs_than_signs_are_flipped_have_no_p(tmp_path: Path) -> None:
    ours = {seed: 0.9 + 0.0001 * seed for seed in range(41)}
    fill(tmp_path, ours, dict.fromkeys(ours, 0.9))
    (line,), _ = compared(tmp_path)
    assert line["p"] is None
    # the variance of ranks 0 to n - 1: n (n + 1) / 12
    assert line["std"] == pytest.approx(0.0001 * math.sqrt(41 * 42 / 12))
    found = VIEW.read(Registry(tmp_path), Options(compare=(A, B)))
    assert "| 41 | — |" in rendering.markdown(VIEW.tables(found))


def test_rows_with_other_settings_have_a_table_of_their_own(tmp_path: Path) -> None:
    """All rows of words are wide, and trees have only the narrow `orthogonal-seq`."""
    fill(tmp_path, {1: 0.9}, {1: 0.5}, task="copy", variant={"d_model": 64})
    fill(tmp_path, {1: 0.8}, {1: 0.5}, task="reverse", variant={"d_model": 64})
    for task, value in (("tree-copy", 0.9), ("tree-rotate", 0.7)):
        add(tmp_path, A, value, 1, task=task, order="depth", variant={"d_model": 64})
        add(tmp_path, B, 0.2, 1, task=task, order="depth")
    words, trees = VIEW.tables(VIEW.read(Registry(tmp_path), Options(compare=(A, B))))
    wide = f"{A} (d_model=64)"
    assert (words.columns[:2], trees.columns[:2]) == ([wide, f"{B} (d_model=64)"], [wide, B])
    assert [row for row, _ in words.rows] == ["copy", "reverse", "all tasks"]
    assert [row for row, _ in trees.rows] == ["tree-copy/depth", "tree-rotate/depth", "all tasks"]
    assert not any(" with " in " ".join(table.notes) for table in (words, trees))
    over = {(x["a"], x["b"]): x["difference"] for x in compared(tmp_path)[0] if x["over"] == "tasks"}
    assert over == {(wide, f"{B} (d_model=64)"): pytest.approx(0.35), (wide, B): pytest.approx(0.6)}
