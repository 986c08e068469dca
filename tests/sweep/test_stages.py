"""The two stages of a sweep with tuning: the choice is made by validation scores, and only of complete groups."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ape_cli.core.errors import UsageError
from ape_cli.core.executors import JobContext
from ape_cli.experiment.choice import preset_dataset
from ape_cli.runs.registry import open_registry
from ape_cli.sweep import combinations, planning, stages, worker
from tests.conftest import grid_of
from tests.registered import edit, vouch

FIELDS: dict[str, Any] = {
    "schemes": ["none", "rope"],
    "tasks": ["copy"],
    "seeds": [1, 2, 3],
    "set": {"steps": 2, "validate_every_steps": 1},
    "tune": {"set": {"lr_peak": [1e-3, 3e-3]}, "seeds": [1]},
}


def planned(**fields: Any) -> stages.Stages:
    groups = combinations.groups([grid_of(FIELDS | fields)], "tiny")
    return stages.plan(groups, open_registry("results"), Path("datasets"))


def train(items: list[planning.PlannedTrial]) -> None:
    registry = open_registry("results")
    for item in planning.prepare(items, registry, Path("datasets")):
        job = worker.job(item, registry, "cpu", False)
        job.call(JobContext(0, lambda report: None, lambda: False), *job.args)


def set_validation(item: planning.PlannedTrial, accuracy: float) -> None:
    """Gives all validations of a finished run the same accuracy."""
    assert item.run is not None
    folder = Path(str(item.run.folder))
    history = pl.read_parquet(folder / "history.parquet")
    history.with_columns(validation_token_accuracy=pl.lit(accuracy)).write_parquet(folder / "history.parquet")
    vouch(folder)


@pytest.fixture
def first(here: Path) -> stages.Stages:
    """A sweep whose first stage is finished. `none` is better at 0.001, and `rope` at 0.003."""
    preset_dataset("copy", None, "tiny", Path("datasets"))
    train(planned().first)
    found = planned()
    for item, accuracy in zip(found.first, (0.5, 0.4, 0.4, 0.5), strict=True):
        set_validation(item, accuracy)
    return planned()


def chosen(found: stages.Stages) -> list[float]:
    return [choice.setting["lr_peak"] for choice in found.choices]


def test_only_the_chosen_setting_is_trained_with_the_other_seeds(first: stages.Stages) -> None:
    assert chosen(first) == [1e-3, 3e-3]
    assert [(c.trials, c.seeds, c.validation.accuracy) for c in first.choices] == [(2, [1], 0.5)] * 2
    second = [(i.config.scheme, i.config.lr_peak, i.config.seed, i.state) for i in first.second]
    assert second == [("none", 1e-3, 2, "new"), ("none", 1e-3, 3, "new")] + [
        ("rope", 3e-3, seed, "new") for seed in (2, 3)
    ]
    assert (first.waiting, len(first.trials)) == ([], 8)
    train(first.second[:1])
    again = planned()
    assert [i.state for i in again.second] == ["finished", "new", "new", "new"]
    assert chosen(again) == [1e-3, 3e-3]


def test_no_test_score_changes_what_is_chosen(first: stages.Stages) -> None:
    for item in first.first:
        assert item.run is not None
        better = item.config.lr_peak == (3e-3 if item.config.scheme == "none" else 1e-3)
        for path in Path(str(item.run.folder)).glob("eval/*.json"):
            scores = {"token_accuracy": 0.99 if better else 0.01, "exact_match": float(better)}
            edit(path, lambda about, scores=scores: about["overall"].update(scores))
    after = planned()
    assert [item.state for item in after.first] == ["finished"] * 4
    assert chosen(after) == chosen(first)
    assert [item.name for item in after.second] == [item.name for item in first.second]


def test_a_group_with_an_unfinished_trial_is_left_open_and_named(first: stages.Stages) -> None:
    assert first.first[0].run is not None
    edit(Path(str(first.first[0].run.folder)) / "run.json", status="failed")
    after = planned()
    assert chosen(after) == [3e-3]
    assert [(i.config.scheme, i.state, i.run is None) for i in after.second[:2]] == [("none", "open", True)] * 2
    assert "lr_peak=?" in after.second[0].variant
    assert len(after.waiting) == 1
    assert "copy-tiny none" in after.waiting[0]
    assert "1 of 2 trials" in after.waiting[0]
    assert len(after.trials) == 8


def test_nothing_is_known_before_the_first_stage(here: Path) -> None:
    found = planned(seeds=[1, 2])
    assert [item.state for item in found.first] == ["new"] * 4
    assert [item.state for item in found.second] == ["open"] * 2
    assert len(found.trials) == 6
    assert planned(tune={"set": {"lr_peak": [1e-3]}}).second == []


@pytest.mark.parametrize(
    ("tune", "fields", "message"),
    [
        ({"base": [10, 100]}, {}, "none cannot take base=10: unknown setting"),
        ({"decay": [1, 0.9]}, {"attentions": ["linear"]}, "cannot take decay=0.9"),
    ],
)
def test_a_setting_that_a_scheme_lacks(here: Path, tune: dict[str, Any], fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match="each scheme needs the same trials") as caught:
        planned(tune={"set": tune}, **fields)
    assert message in str(caught.value)
    assert not list(here.iterdir())


def test_data_that_a_scheme_cannot_read_leaves_out_its_group(here: Path) -> None:
    found = planned(schemes=["tree", "rope"])
    assert {item.config.scheme for item in found.trials} == {"rope"}
    assert len(found.left) == 1


def test_parts_that_do_not_fit_each_other_are_left_out(here: Path) -> None:
    tree = "seq*tree(2)"
    plain: dict[str, Any] = {"seeds": [1], "tune": None, "set": {}}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"schemes": ["t5", "rope"], "attentions": ["dot", "linear"]}, "attention linear cannot take the bias"),
        ({"schemes": ["t5"], "models": ["encoder-decoder", "decoder"], "set": {"cross": [False]}}, "decoder-only"),
        ({"schemes": ["rope", "orthogonal"], "structures": ["seq", tree], "tasks": ["forest-rotate"]}, tree),
    ]
    for fields, left in cases:
        found = planned(**plain | fields)
        assert len(found.left) == 1
        assert left in found.left[0]
        assert len(found.trials) == (1 if "models" in fields else 3)


def test_shards_have_whole_groups(here: Path) -> None:
    from tests.conftest import ape

    words = ["--schemes", "none,rope,alibi", "--tasks", "copy", "--preset", "tiny", "--seeds", "1-2", "--device", "cpu"]
    words += ["--tune", "lr_peak=1e-3,3e-3", "--tune-seeds", "1", "--dry-run", "--json"]
    for shard, schemes in (("1/2", ["none", "alibi"]), ("2/2", ["rope"])):
        plan = json.loads(ape("sweep", *words, "--shard", shard)[0])["trials"]
        assert [t["run"].split("-")[1] for t in plan if t["state"] == "new"] == [s for s in schemes for _ in range(2)]
        assert [t["run"].split("-")[1] for t in plan if t["state"] == "open"] == schemes


def test_a_run_of_two_grids_has_the_evaluations_of_both(here: Path) -> None:
    def of(*grids: dict[str, Any]) -> list[planning.PlannedTrial]:
        common = {**FIELDS, "schemes": ["none"], "seeds": [1], "tune": None}
        groups = combinations.groups([grid_of(common | grid) for grid in grids], "tiny")
        return stages.plan(groups, open_registry("results"), Path("datasets")).first

    train(of({}))
    grids: list[dict[str, Any]] = [{}, {"generalise": [12]}, {"decode": "greedy"}]
    assert [item.state for item in of(*grids)] == ["stopped"]
    train(of(*grids))
    assert [item.state for grid in grids for item in of(grid)] == ["finished"] * 3
    with pytest.raises(UsageError, match="the same run with different sizes in `generalise`"):
        of({"generalise": [12]}, {"generalise": [20]})
