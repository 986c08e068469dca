"""Changed files of a run: each is refused, or left out and named. Nothing changes a number without a message."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ape_cli.core.errors import DataError, RunError, left_out
from ape_cli.data.loader import Dataset
from ape_cli.evaluation import evaluate
from ape_cli.reports import aggregation
from ape_cli.reports.views import Options
from ape_cli.runs import run as run_module
from ape_cli.runs.registry import open_registry
from ape_cli.runs.run import Run
from ape_cli.training.execution import ExistingRun
from ape_cli.training.trainer import Stopped
from tests.conftest import ape
from tests.registered import edit
from tests.runs.test_registry import run, stopping_after

FILES = ["run.json", "model.safetensors", "history.parquet", "test-teacher.json"]


@pytest.fixture(scope="module")
def kept(words: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registry with two finished runs, which tests copy."""
    where = tmp_path_factory.mktemp("kept")
    for seed in (1, 2):
        run(words, where, seed=seed)
    return where


@pytest.fixture
def where(kept: Path, tmp_path: Path) -> Path:
    """A copy of the registry."""
    return shutil.copytree(kept, tmp_path / "results")


def first(where: Path) -> Run:
    return next(iter(open_registry(where)))


def contents(found: Run) -> tuple[Any, ...]:
    """Everything that is read from a run. Raises `RunError`."""
    known = found.read()
    evaluations, bad = found.evaluations()
    if bad:
        raise RunError("; ".join(bad))
    weights = {name: value.tolist() for name, value in found.load_model().items()}
    return known.config, known.files, evaluations, found.history().rows(), weights


def files_of(found: Run) -> list[Path]:
    return sorted(path for path in Path(str(found.folder)).rglob("*") if path.is_file())


@pytest.mark.parametrize("name", FILES[1:])
def test_a_changed_byte_is_noticed(where: Path, name: str) -> None:
    found = first(where)
    (path,) = (path for path in files_of(found) if path.name.endswith(name))
    whole = path.read_bytes()
    chosen = random.Random(1)
    damaged = [bytearray(whole) for _ in range(20)]
    for changed, place in zip(damaged, chosen.sample(range(len(whole)), 20), strict=True):
        changed[place] ^= 1 << chosen.randrange(8)
    for content in (*damaged, *(whole[:cut] for cut in (0, 1, len(whole) // 2, len(whole) - 1))):
        path.write_bytes(content)
        with pytest.raises(RunError, match="was altered"):
            contents(Run(found.folder))
    out = ape("verify", "--results", str(where), code=1)[0]
    assert f"{path} was altered" in out
    assert out.endswith("2 runs, 1 damaged\n")


def test_an_altered_configuration_is_noticed(where: Path) -> None:
    """The name of the run has the hash of the configuration and the data."""
    path = Path(str(first(where).folder)) / "run.json"
    whole = path.read_text()
    for change in ({"seed": 7}, {"d_model": 64}, {"lr_peak": 0.5}, {"scheme": "none"}):
        path.write_text(whole)
        edit(path, lambda about, change=change: about["config"].update(change))
        with pytest.raises(RunError, match="was altered, or belongs to another run"):
            Run(path.parent).read()


def test_a_file_that_is_gone_is_noticed(where: Path) -> None:
    """The weights may be missing, because they are large."""
    found = first(where)
    (Path(str(found.folder)) / "model.safetensors").unlink()
    assert ape("verify", "--results", str(where))[0] == "2 runs, 0 damaged\n"
    (Path(str(found.folder)) / "history.parquet").unlink()
    with pytest.raises(RunError, match=r"cannot read .*history.parquet"):
        found.history()
    assert len(json.loads(ape("verify", "--results", str(where), "--json", code=1)[0])[0]["problems"]) == 1


def test_a_file_that_is_not_listed_does_not_count(where: Path, words: Dataset) -> None:
    found = first(where)
    edit(Path(str(found.folder)) / "run.json", files={})
    assert found.read().files == {}
    assert found.evaluations() == ([], [])
    assert found.history().is_empty()
    with pytest.raises(RunError, match="no weights"):
        found.load_model()


def test_weights_that_do_not_fit_into_memory_are_refused(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = first(where)
    size = (Path(str(found.folder)) / "model.safetensors").stat().st_size
    monkeypatch.setattr(run_module, "half_memory", lambda: size - 1)
    with pytest.raises(RunError, match=f"it has more than {size - 1:,} bytes"):
        found.load_model()
    monkeypatch.setattr(run_module, "half_memory", lambda: size)
    assert found.load_model()


Change = Callable[[dict[str, Any]], Any]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("run.json", lambda x: x["result"].update(best_accuracy=7.5), "result.best_accuracy"),
        ("run.json", lambda x: x["dataset"]["rows"].pop("test"), "dataset.rows"),
        ("run.json", lambda x: x["files"].update({"../../x": "0" * 64}), "files"),
        ("run.json", lambda x: x.update(result=None), "finished but has no result"),
        ("eval", lambda x: x["overall"].update(token_accuracy=1.5), "overall.token_accuracy"),
        ("eval", lambda x: x.update(split="all"), "split"),
    ],
)
def test_what_has_not_the_form_is_left_out_and_named(where: Path, name: str, change: Change, message: str) -> None:
    found = first(where)
    (path,) = (path for path in files_of(found) if name in (path.name, path.parent.name))
    edit(path, change)
    with left_out() as bad:
        lines = aggregation.lines(open_registry(where), Options())
    assert lines["seeds"].to_list() == [1]
    (line,) = bad
    assert line.startswith(f"{found.name}: ")
    assert message in line


def test_a_run_that_was_trained_again_gets_no_scores_of_its_old_weights(where: Path) -> None:
    found = first(where)
    evaluated = found.read()
    (evaluation,) = found.evaluations()[0]
    edit(Path(str(found.folder)) / "run.json", files=evaluated.files | {"model.safetensors": "0" * 64})
    with pytest.raises(RunError, match="was retrained during the evaluation"):
        found.save_evaluation(evaluation | {"split": "train"}, evaluated)


def test_a_state_that_was_cut_is_not_resumed(words: Dataset, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        run(words, tmp_path, stop=stopping_after(3))
    path = Path(str(first(tmp_path).folder)) / "state" / "state.safetensors"
    whole = path.read_bytes()
    for cut in (0, 5, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(RunError, match="not a complete"):
            run(words, tmp_path, existing=ExistingRun.RESUME)
    path.write_bytes(whole)
    assert run(words, tmp_path, existing=ExistingRun.RESUME).trained


def test_a_run_that_was_never_started_is_not_damaged(where: Path) -> None:
    """A kill before run.json leaves a folder with a lock file."""
    (where / "runs" / "copy-rope-1-0123abcd").mkdir()
    (where / "runs" / "copy-rope-1-0123abcd" / ".lock").touch()
    assert ape("verify", "--results", str(where))[0] == "2 runs, 0 damaged\n"
    assert "0123abcd" not in "".join(ape("runs", "--results", str(where)))


def test_the_dataset_of_a_run_is_not_what_it_was(where: Path, words: Dataset, tmp_path: Path) -> None:
    """The path of the dataset in run.json is only read. A dataset with another fingerprint is refused."""
    found = first(where)
    data = found.read().dataset.model_copy(update={"fingerprint": "0" * 64})
    found._record = found.read().model_copy(update={"dataset": data})
    with pytest.raises(DataError, match="has changed since"):
        evaluate.own_dataset(found)
