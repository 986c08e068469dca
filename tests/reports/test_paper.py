"""The paper's numbers, and the notes that compare ours with them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ape_cli import tasks
from ape_cli.reports import descriptions, paper, rendering
from tests.reports.test_aggregation import add, lines, tables_of

PAPER = Path(paper.__file__).with_name("paper_tables.json")


def test_the_paper_s_numbers_are_complete() -> None:
    found = paper.scores()
    assert len(found) == 4 * 3 + 5 * (8 + 4) + 4 * 2  # the four `depth` columns are compared with two of ours
    for task in ("tree-copy", "tree-rotate", "c3", "tree-ops"):
        assert found["rope", f"{task}/depth"] == found["rope", f"{task}/breadth-to-depth"]
        assert ("rope", f"{task}/depth-to-breadth") not in found
    assert found["orthogonal-tree", "c3/breadth"] == (pytest.approx(0.8767), pytest.approx(0.105))
    assert found["orthogonal-seq", "c3/breadth"] == (pytest.approx(0.8280), None)
    assert found["learned", "images/cifar-10 @300"] == (pytest.approx(0.9268), pytest.approx(0.002))
    raw = json.loads(PAPER.read_text())
    assert raw["table2"]["rows"]["rope"][7] == [39.67, 3.0]


def against(where: Path, values: tuple[float, ...], **options: Any) -> dict[str, Any]:
    for seed, value in enumerate(values):
        add(where, "rope", value, seed, **options)
    (line,) = lines(where, against="paper")
    return line


def test_both_readings_of_a_depth_column_stand_beside_it(tmp_path: Path) -> None:
    """rope has 85.46 on tree-copy there. A note says which column the text describes, and which one the numbers fit."""
    orders = ["breadth", "depth", "breadth-to-depth", "depth-to-breadth"]
    for order in orders:
        add(tmp_path, "rope", 0.9, task="tree-copy", order=order, fingerprint=order[0] * 64)
    beside = {line["order"]: line["paper_mean"] for line in lines(tmp_path, against="paper")}
    depth = pytest.approx(0.8546)
    assert beside == {"breadth": 1.0, "depth": depth, "breadth-to-depth": depth, "depth-to-breadth": None}
    (made,) = tables_of(tmp_path, against="paper")
    assert made.columns == [f"tree-copy/{order}" for order in orders]
    assert paper.TWO_READINGS in made.notes
    assert paper.TWO_READINGS not in tables_of(tmp_path)[0].notes


def test_numbers_of_sinusoidal_have_a_mark_and_a_note(tmp_path: Path) -> None:
    for scheme in ("sinusoidal", "rope"):
        add(tmp_path, scheme, 0.9, task="copy")
    (made,) = tables_of(tmp_path, against="paper")
    assert paper.DOUBTED in made.notes
    for form, marked in (("markdown", "[13.80† ±3.5]"), ("latex", r"[$13.80^\dagger_{\pm 3.5}$]")):
        assert marked in rendering.text(form, [made])
    assert paper.DOUBTED not in tables_of(tmp_path)[0].notes


def test_other_rotations_and_bounds_stand_beside_the_paper_s_numbers(tmp_path: Path) -> None:
    """The paper does not say which of three rotations it has, nor the bound that its code gives to `tree`."""
    of_root: dict[str, Any] = {"task": "tree-rotate", "order": "breadth", "given": {"mirror": "root"}}
    add(tmp_path, "rope", 0.9, **of_root)
    add(tmp_path, "tree", 0.9, variant={"max_size": 7}, **of_root)
    add(tmp_path, "rope", 0.9, variant={"dropout": 0.5}, **of_root)
    found = {(line["scheme"], line["variant"]): line["paper_mean"] for line in lines(tmp_path, against="paper")}
    rope, tree = pytest.approx(0.9119), pytest.approx(0.9799)
    assert found == {("rope", ""): rope, ("tree", "max_size=7"): tree, ("rope", "dropout=0.5"): None}


def test_the_difference_by_hand(tmp_path: Path) -> None:
    """rope on reverse is 97.00 there.

    For 0.96, 0.97 and 0.965, half is 4.302653 × 0.005 / √3 = 0.01242, so 0.97 is inside.
    """
    line = against(tmp_path / "near", (0.96, 0.97, 0.965), preset="paper", full_size=True)
    assert line["paper_difference"] == pytest.approx(-0.005)
    assert line["paper_in_interval"] is True
    line = against(tmp_path / "one", (0.96,), preset="paper", full_size=True)
    assert (line["paper_difference"], line["paper_in_interval"]) == (pytest.approx(-0.01), None)
    line = against(tmp_path / "far", (0.94, 0.95, 0.945), preset="paper", full_size=True)
    assert line["paper_difference"] == pytest.approx(-0.025)
    assert line["paper_in_interval"] is False


def test_a_rounded_mean_is_inside_where_what_it_may_stand_for_is(tmp_path: Path) -> None:
    """97.00 may be a rounded 97.004."""
    assert against(tmp_path / "a", (0.97004,) * 2, preset="paper", full_size=True)["paper_in_interval"] is True
    assert against(tmp_path / "b", (0.97006,) * 2, preset="paper", full_size=True)["paper_in_interval"] is False


def test_another_size_has_no_difference(tmp_path: Path) -> None:
    for name, options in (("small", {"preset": "small", "full_size": True}), ("rows", {"preset": "paper"})):
        line = against(tmp_path / name, (0.96, 0.97, 0.965), **options)
        assert line["paper_mean"] == pytest.approx(0.97)
        assert (line["paper_difference"], line["paper_in_interval"]) == (None, None)


def test_tasks_with_rows_of_their_own_have_no_size_of_the_paper() -> None:
    """Whether a run has the paper's size is asked without reading the source of its data."""
    rows = {"train": 10_000, "validation": 1_000, "test": 1_000}
    options = {"source": "json", "task": "copy", "labels": "kind"}
    trained = SimpleNamespace(task="trees", order="depth", rows=rows, parameters=options, image=None)
    assert not descriptions.is_paper_size("paper", trained)
    own = tasks.make("copy")
    trained = SimpleNamespace(task="copy", order=None, rows=rows, parameters=own.parameters, image=None)
    assert descriptions.is_paper_size("paper", trained)
