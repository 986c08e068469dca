"""Grids: every combination once, complete tables first, and errors before anything begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ape_cli.cli.sweep import GridOptions
from ape_cli.core.errors import UsageError
from ape_cli.runs.registry import open_registry
from ape_cli.sweep import combinations, specification, stages
from tests.conftest import grid_of, points_of


def points(*fields: dict[str, Any]) -> list[tuple[Any, ...]]:
    found = points_of([grid_of(f) for f in fields])
    return [(p.scheme, p.task or p.data, p.order, p.seed, p.settings.get("decay")) for p in found]


def test_every_combination_the_first_seed_first() -> None:
    found = points(
        {"schemes": ["rope", "none"], "tasks": ["copy", "c3"], "orders": ["breadth", "depth"], "seeds": [7, 3]}
    )
    places = [("copy", None), ("c3", "breadth"), ("c3", "depth")]  # words have no order
    assert found == [(s, *place, seed, None) for seed in (7, 3) for place in places for s in ("rope", "none")]


def test_a_list_of_settings_is_one_trial_each() -> None:
    found = points({"schemes": ["rope"], "tasks": ["copy"], "set": {"decay": [1, 0.5], "steps": 3}})
    assert found == [("rope", "copy", None, 42, 1), ("rope", "copy", None, 42, 0.5)]


def test_a_value_of_a_list_may_be_a_list() -> None:
    grid = {"schemes": ["rope"], "tasks": ["copy"], "set": {"widths": [[1, 2], [3]]}}
    assert [point.settings["widths"] for point in points_of([grid_of(grid)])] == [[1, 2], [3]]


@pytest.mark.parametrize(
    ("value", "sizes"),
    [("true", True), ("false", False), ("[9, 7]", (7, 9)), ('"7,9-10"', (7, 9, 10)), ('"auto"', True)],
)
def test_sizes_and_generalise_in_a_file(tmp_path: Path, value: str, sizes: object) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(f'schemes = ["rope"]\ntasks = ["copy"]\nsizes = "1-3"\ngeneralise = {value}\n')
    (point,) = points_of(specification.read(file))
    assert (point.sizes, point.tests.generalise) == ("1-3", sizes)


def test_every_field_of_a_grid_is_an_option() -> None:
    options = GridOptions(
        schemes="rope,none", tasks="copy", suite="mad", data=["mine"], sizes="1-3", rows=9, orders="depth",
        seeds="3-4", structures="seq*tree(2), tree(2)", attentions="linear", positions="offset", models="decoder",
        preset="tiny", precision="bf16", settings=["heads=1,2"], generalise="5", decode="greedy",
        tune=["lr_peak=0.1,0.2"], trials=2, tune_seeds="3",
    )  # fmt: skip
    expected = {
        "schemes": ["rope", "none"], "tasks": ["copy"], "suite": "mad", "data": ["mine"], "sizes": "1-3", "rows": 9,
        "orders": ["depth"], "seeds": [3, 4], "structures": ["seq*tree(2)", "tree(2)"], "attentions": ["linear"],
        "positions": ["offset"], "models": ["decoder"], "preset": "tiny", "precision": "bf16",
        "settings": {"heads": [1, 2]}, "generalise": (5,), "decode": "greedy",
        "tune": {"settings": {"lr_peak": [0.1, 0.2]}, "trials": 2, "seeds": [3]},
    }  # fmt: skip
    assert options.spec().model_dump() == expected
    assert set(vars(options)) == set(expected) | {"trials", "tune_seeds"}


def test_seeds_of_all_grids_go_together_and_nothing_twice() -> None:
    one = {"schemes": ["rope"], "tasks": ["copy"], "seeds": [1, 2]}
    other = {"schemes": ["none", "rope"], "tasks": ["copy"], "seeds": [1, 2]}
    assert [(p[0], p[3]) for p in points(one, other)] == [("rope", 1), ("none", 1), ("rope", 2), ("none", 2)]


def test_orders_that_are_the_same_at_a_preset_are_one(tmp_path: Path) -> None:
    """The published setup writes sources breadth first, also if one grid names the target and another both sides."""
    grid = {"schemes": ["rope"], "tasks": ["tree-copy"], "preset": "neurips"}
    orders = ["depth", "breadth-to-depth", "breadth"]
    for grids in ([grid | {"orders": orders}], [grid | {"orders": [order]} for order in orders]):
        groups = combinations.groups([grid_of(fields) for fields in grids], "tiny")
        items = stages.plan(groups, open_registry(tmp_path / "results"), tmp_path).first
        names = [item.data.folder.name for item in items]
        assert names == ["tree-copy-breadth-to-depth-neurips", "tree-copy-breadth-neurips"]
        assert [point.order for point in combinations.first_stage(groups)] == ["breadth-to-depth", "breadth"]


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(
        'preset = "small"\nseeds = [1]\ntasks = ["copy"]\nset = { steps = 5 }\n'
        '[[grid]]\nschemes = ["rope"]\n[[grid]]\nschemes = ["none"]\nset = { decay = [0.9, 1] }\n'
    )
    found = specification.read(file)
    assert [(g.schemes, g.preset, g.settings) for g in found] == [
        (["rope"], "small", {"steps": 5}),
        (["none"], "small", {"steps": 5, "decay": [0.9, 1]}),
    ]
    file.write_text('schemes = ["rope"]\ntasks = ["copy"]\n')
    assert [grid.schemes for grid in specification.read(file)] == [["rope"]]


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    file, head = tmp_path / "sweep.toml", 'schemes = ["rope"]\ntasks = ["copy"]\n'
    for text, message in (
        ("schemes = [", "is not TOML"),
        ('schemes = ["rope"]', "names no tasks"),
        ('tasks = ["copy"]', "names no schemes"),
        ('scheme = ["rope"]', "unknown field of a sweep"),
        (f'{head}seeds = ["a"]', "bad value of seeds.0"),
        (f'{head}orders = ["deep"]', "unknown order"),
        (f'{head}orders = ["depth"]', "no task of the sweep has an order"),
        (f"{head}set = {{ decay = [] }}", "a setting has no values"),
        (f'{head}generalise = "x"', "bad `generalise`"),
    ):
        file.write_text(text)
        with pytest.raises(UsageError, match=message):
            stages.plan(combinations.groups(specification.read(file), "tiny"), open_registry(tmp_path), tmp_path)
    with pytest.raises(UsageError, match="cannot read the file"):
        specification.read(tmp_path / "none.toml")
