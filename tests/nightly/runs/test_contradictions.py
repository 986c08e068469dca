"""Files of a run that are genuine or have right digests, and cannot be true together."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ape_cli.core.errors import RunError
from ape_cli.data.loader import Dataset
from ape_cli.reports import aggregation
from ape_cli.runs.audit import audit
from ape_cli.runs.record import TrainingResult
from ape_cli.runs.registry import open_registry
from ape_cli.runs.run import Run
from ape_cli.storage.tensors import load_tensors, save_tensors
from ape_cli.training.execution import ExistingRun
from ape_cli.training.loop import Stopped
from tests.conftest import ape
from tests.registered import edit
from tests.reports.test_aggregation import ALL, add
from tests.runs.test_integrity import first
from tests.runs.test_registry import run, stopping_after


def test_older_weights_of_the_same_run(words: Dataset, tmp_path: Path) -> None:
    """Their digest is right, and they are not the weights that the state or the result names."""
    with pytest.raises(Stopped):
        run(words, tmp_path, stop=stopping_after(3))
    found = first(tmp_path)
    assert audit(found).state == "verified"
    path = Path(str(found.folder)) / "model.safetensors"
    tensors, about, _ = load_tensors(path)
    best = path.read_bytes()
    for wrong in ({"step": about["step"] - 1}, {"validation_token_accuracy": 0.5}):
        save_tensors(path, tensors, about | wrong)
        assert "does not have the best weights of the run" in audit(Run(found.folder)).problems[0]
        with pytest.raises(RunError, match="does not have the best weights"):
            run(words, tmp_path, existing=ExistingRun.RESUME)
    path.unlink()
    with pytest.raises(RunError, match=r"is missing[\s\S]*--overwrite"):
        run(words, tmp_path, existing=ExistingRun.RESUME)
    path.write_bytes(best)
    assert run(words, tmp_path, existing=ExistingRun.RESUME).run.status == "finished"


def test_weights_of_another_step_are_not_registered(
    words: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = Run.finish

    def replaced(self: Run, result: TrainingResult) -> None:
        tensors, about, _ = load_tensors(self.folder / "model.safetensors")
        save_tensors(self.folder / "model.safetensors", tensors, about | {"step": about["step"] + 1})
        finish(self, result)

    monkeypatch.setattr(Run, "finish", replaced)
    with pytest.raises(RunError, match="does not have the best weights"):
        run(words, tmp_path, test=False)


def test_a_best_accuracy_that_the_history_does_not_have(words: Dataset, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        run(words, tmp_path, stop=stopping_after(3))
    found = first(tmp_path)
    stored = found.load_state()
    assert stored
    found.save_state(stored[0], stored[1] | {"best_accuracy": 0.99})
    with pytest.raises(RunError, match=r"impossible best_accuracy 0.99 of step 2; the history has"):
        run(words, tmp_path, existing=ExistingRun.RESUME)


def _config(**fields: Any) -> Callable[[dict[str, Any]], None]:
    """The change of fields of a configuration."""
    return lambda about: about["config"].update(fields)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda about: about["result"].update(best_accuracy=0.99), "impossible best_accuracy 0.99"),
        (_config(dropout=0.35), "its configuration and data have the hash"),
    ],
)
def test_contradictions_between_the_files_of_a_run(
    words: Dataset, tmp_path: Path, change: Callable[[dict[str, Any]], Any], said: str
) -> None:
    """Every digest is right. The weights were removed, as those of committed runs."""
    folder = Path(str(run(words, tmp_path, test=False).run.folder))
    (folder / "model.safetensors").unlink()
    assert audit(Run(folder)).problems == ()
    edit(folder / "run.json", change)
    assert any(said in problem for problem in audit(Run(folder)).problems)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_config(seed=77), "does not begin with reverse-rope-77"),
        (_config(scheme="none"), "does not begin with reverse-none-1"),
        (lambda about: about["dataset"].update(task="copy"), "does not begin with copy-rope-1"),
        (lambda about: about["dataset"].update(order="depth"), "does not begin with reverse-depth-rope-1"),
        (lambda about: about.update(variant={"decay": 0.5}), "the variant has decay 0.5"),
        (lambda about: about.update(variant={"nothing": 1}), "the variant has nothing 1"),
        (lambda about: about["result"].update(steps=8), "the result has 8 steps, and the configuration has 4"),
    ],
)
def test_a_run_json_that_contradicts_itself_is_left_out(
    words: Dataset, tmp_path: Path, change: Callable[[dict[str, Any]], Any], said: str
) -> None:
    """The run would be another seed, scheme or task, or another row of a table."""
    name = first_of_two(words, tmp_path)
    edit(tmp_path / "runs" / name / "run.json", change)
    assert any(said in problem for problem in audit(Run(tmp_path / "runs" / name)).problems)
    registry = open_registry(tmp_path)
    for found, bad in (registry.table(), aggregation.lines(registry, **ALL, against=None)):
        assert found.height == 1
        assert [line.partition(":")[0] for line in bad] == [name]
        assert said in bad[0]


def test_settings_that_other_runs_do_not_have(words: Dataset, tmp_path: Path) -> None:
    """Runs that differ only in the seed have the same settings in tables, and are one row."""
    name = first_of_two(words, tmp_path)
    other = next(run.name for run in open_registry(tmp_path) if run.name != name)
    assert aggregation.lines(open_registry(tmp_path), **ALL, against=None)[0]["seeds"].to_list() == [2]
    edit(tmp_path / "runs" / other / "run.json", variant={})
    lines, bad = aggregation.lines(open_registry(tmp_path), **ALL, against=None)
    assert lines["seeds"].to_list() == [1]
    assert bad[0].startswith(f"{other}: its settings in tables are none, and those of {name} are ")


def test_damage_is_named_if_nothing_is_left(words: Dataset, tmp_path: Path) -> None:
    """It is the reason why there is nothing to report, in every view."""
    folder = Path(str(run(words, tmp_path).run.folder))
    for path, text in ((next((folder / "eval").iterdir()), "eval/"), (folder / "run.json", "run.json")):
        path.write_text(path.read_text() + "x")
        for view in ((), ("--by", "size"), ("--by", "epoch"), ("--compare", "rope", "none")):
            if text == "run.json" or "epoch" not in view:  # a history needs no evaluation
                _, err = ape("report", "--results", str(tmp_path), *view, code=1)
                assert f"left out: {folder.name}: " in err, view
                assert text in err
                assert "`ape verify` checks every file" in err
    for number in range(25):
        (tmp_path / "runs" / f"x{number}").mkdir()
    err = ape("report", "--results", str(tmp_path), code=1)[1]
    assert err.count("left out: ") == 26


def test_scores_of_weights_that_were_replaced_meanwhile(words: Dataset, tmp_path: Path) -> None:
    """The run was trained again, or trains at the moment, while it was evaluated."""
    found = run(words, tmp_path).run
    (evaluation,), _ = found.evaluations()
    found.save_evaluation(evaluation)
    for change in ({"files": {"model.safetensors": "0" * 64}}, {"status": "running", "files": {}}):
        edit(Path(str(found.folder), "run.json"), **change)
        with pytest.raises(RunError, match="was trained again while it was evaluated"):
            found.save_evaluation(evaluation)


def test_scores_of_a_run_that_was_removed_meanwhile(words: Dataset, tmp_path: Path) -> None:
    """Its folder does not come back."""
    found = run(words, tmp_path).run
    (evaluation,), _ = found.evaluations()
    shutil.rmtree(Path(str(found.folder)))
    with pytest.raises(RunError, match=r"has no run.json"):
        found.save_evaluation(evaluation)
    assert list((tmp_path / "runs").iterdir()) == []


def test_operators_that_the_task_does_not_have(tmp_path: Path) -> None:
    """Or none at all, although the task has some."""
    for seed in (1, 2):
        add(tmp_path, "rope", 0.5, seed, task="tree-ops", order="breadth")
    path = min(tmp_path.glob("runs/*/eval/*.json"))
    before = path.read_bytes()
    changes: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
        (lambda found: found["by_op"][0].update(op="nosuch"), "operators: nosuch"),
        (lambda found: found.update(by_op=[]), "operators: none"),
        (lambda found: found.pop("by_op"), "operators: none"),
    ]
    for change, said in changes:
        edit(path, change)
        lines, bad = aggregation.lines(open_registry(tmp_path), **ALL, against=None)
        assert lines["seeds"].to_list() == [1]
        assert said in bad[0]
        path.write_bytes(before)
    assert aggregation.lines(open_registry(tmp_path), **ALL, against=None)[1] == []


def first_of_two(words: Dataset, where: Path) -> str:
    """Trains a run with seed 1 and another one with seed 2. Returns the name of the first one."""
    name = run(words, where, seed=1).run.name
    run(words, where, seed=2)
    return name


@pytest.mark.parametrize(("exact", "token"), [(1.0, 0.9), (0.5, 0.0)])
def test_exact_match_that_contradicts_token_accuracy(
    words: Dataset, tmp_path: Path, exact: float, token: float
) -> None:
    folder = Path(str(run(words, tmp_path).run.folder))
    (path,) = (folder / "eval").iterdir()

    def change(evaluation: dict[str, Any]) -> None:
        for part in (evaluation["overall"], *evaluation["by_size"]):
            part.update(exact_match=exact, token_accuracy=token)

    edit(path, change)
    assert "exact_match and token_accuracy contradict each other" in audit(Run(folder)).problems[0]
    assert "exact_match and token_accuracy contradict each other" in Run(folder).evaluations()[1][0]


def test_a_run_whose_folder_is_a_link_is_not_cleared(words: Dataset, tmp_path: Path) -> None:
    folder = Path(str(run(words, tmp_path, test=False).run.folder))
    other = folder.rename(tmp_path / "other")
    folder.symlink_to(other)
    before = {path.name: path.read_bytes() for path in other.iterdir()}
    with pytest.raises(RunError, match="a symbolic link"):
        run(words, tmp_path, existing=ExistingRun.OVERWRITE)
    assert {path.name: path.read_bytes() for path in other.iterdir()} == before
