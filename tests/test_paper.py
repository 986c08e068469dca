"""The paper's numbers, and what is said of ours beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ape_cli import paper
from tests.test_report import add, lines

PAPER = Path(paper.__file__).with_name("paper_tables.json")


def test_the_paper_s_numbers_are_complete() -> None:
    found = paper.scores()
    assert len(found) == 4 * 3 + 5 * 8 + 4 * 2
    assert found["orthogonal-tree", "c3/breadth"] == (pytest.approx(0.8767), pytest.approx(0.105))
    assert found["orthogonal-seq", "c3/breadth"] == (pytest.approx(0.8280), None)
    assert found["learned", "cifar-10 @300"] == (pytest.approx(0.9268), pytest.approx(0.002))
    raw = json.loads(PAPER.read_text())
    assert raw["table2"]["rows"]["rope"][7] == [39.67, 3.0]


def against(where: Path, values: tuple[float, ...], **options: Any) -> dict[str, Any]:
    for seed, value in enumerate(values):
        add(where, "rope", value, seed, **options)
    (line,) = lines(where, against="paper")
    return line


def test_the_difference_by_hand(tmp_path: Path) -> None:
    """rope on reverse is 97.00 there. 0.96, 0.97, 0.965: half is 4.302653 × 0.005 / √3 = 0.01242, so 0.97 is inside."""
    line = against(tmp_path / "near", (0.96, 0.97, 0.965), preset="paper", full_size=True)
    assert line["paper_difference"] == pytest.approx(-0.005)
    assert line["paper_in_interval"] is True
    line = against(tmp_path / "far", (0.94, 0.95, 0.945), preset="paper", full_size=True)
    assert line["paper_difference"] == pytest.approx(-0.025)
    assert line["paper_in_interval"] is False


def test_a_rounded_mean_is_inside_where_what_it_may_stand_for_is(tmp_path: Path) -> None:
    """97.00 may be 97.004."""
    assert against(tmp_path / "a", (0.97004,) * 2, preset="paper", full_size=True)["paper_in_interval"] is True
    assert against(tmp_path / "b", (0.97006,) * 2, preset="paper", full_size=True)["paper_in_interval"] is False


def test_one_seed_has_a_difference_and_no_interval(tmp_path: Path) -> None:
    line = against(tmp_path, (0.96,), preset="paper", full_size=True)
    assert line["paper_difference"] == pytest.approx(-0.01)
    assert line["paper_in_interval"] is None


def test_another_size_has_no_difference(tmp_path: Path) -> None:
    for name, options in (("small", {"preset": "small", "full_size": True}), ("rows", {"preset": "paper"})):
        line = against(tmp_path / name, (0.96, 0.97, 0.965), **options)
        assert line["paper_mean"] == pytest.approx(0.97)
        assert (line["paper_difference"], line["paper_in_interval"]) == (None, None)
