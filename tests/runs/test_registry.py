"""Runs on disk: names, statuses and damage, and that no pickle is ever loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ape_cli import experiment
from ape_cli.core.errors import ApeError, BusyError, RunError, UsageError, left_out
from ape_cli.data.loader import Dataset
from ape_cli.evaluation import evaluate
from ape_cli.evaluation.evaluate import pending
from ape_cli.experiment import ExperimentSpec
from ape_cli.models import device, factory
from ape_cli.models.checkpoint import load_weights
from ape_cli.runs import config
from ape_cli.runs.registry import Registry, open_registry
from ape_cli.runs.run import Run
from ape_cli.storage import files
from ape_cli.storage.paths import StoragePath
from ape_cli.training import trial
from ape_cli.training.execution import Execution, ExistingRun
from ape_cli.training.trainer import Stopped
from tests.registered import vouch

CPU = torch.device("cpu")


def resolve(scheme: str = "rope", seed: int = 1, model: str = "encoder-decoder", **settings: Any) -> config.Config:
    chosen = {"steps": 4, "validate_every_steps": 2} | settings
    return ExperimentSpec(preset="tiny", scheme=scheme, seed=seed, model=model, set=chosen).config("sequence")


def run(data: Dataset, where: StoragePath, **options: Any) -> trial.Trial:
    fields = ("scheme", "seed", "steps", "validate_every_steps", "d_model", "d_ff_decoder", "memory", "model")
    wanted = resolve(**{k: options.pop(k) for k in fields if k in options})
    execution = Execution(CPU, **{k: options.pop(k) for k in ("stop",) if k in options})
    return trial.run_trial(experiment.of(wanted, data), open_registry(where), execution, **options)


def test_a_finished_run_s_folder(words: Dataset, tmp_path: Path) -> None:
    done = run(words, tmp_path)
    assert done.trained
    names = {str(p.relative_to(done.run.folder)) for p in done.run.folder.rglob("*") if p.is_file()}
    evaluation = f"eval/{words.manifest.fingerprint[:12]}-test-teacher.json"
    assert names == {"run.json", "model.safetensors", "history.parquet", evaluation}
    about = done.run.read()
    assert about.status == "finished"
    assert about.dataset.fingerprint == words.manifest.fingerprint
    assert about.config.steps == 4
    assert about.versions["torch"] == torch.__version__
    assert about.processor == device.processor()
    assert set(about.files) == names - {"run.json"}
    history = done.run.history()
    assert history["step"].to_list() == [2, 4]
    assert {"epoch", "loss", "lr", "validation_token_accuracy"} <= set(history.columns)
    frame = open_registry(tmp_path).runs()
    assert frame.height == 1
    assert frame.row(0, named=True)["status"] == "finished"


def test_the_name_says_task_order_scheme_seed(words: Dataset, trees: Dataset, tmp_path: Path) -> None:
    assert run(words, tmp_path).run.name.startswith("reverse-rope-1-")
    name = run(trees, tmp_path, scheme="orthogonal-tree", seed=5).run.name
    assert name.startswith("tree-rotate-breadth-orthogonal-tree-5-")
    assert len(name.rsplit("-", 1)[1]) == 8


def test_the_same_configuration_is_the_same_run(words: Dataset, tmp_path: Path) -> None:
    first = run(words, tmp_path)
    modified = (first.run.folder / "model.safetensors").stat().st_mtime_ns
    again = run(words, tmp_path)
    assert not again.trained
    assert again.run.name == first.run.name
    assert again.evaluation == first.evaluation
    assert (first.run.folder / "model.safetensors").stat().st_mtime_ns == modified
    assert run(words, tmp_path, d_model=64).run.name != first.run.name
    assert run(words, tmp_path, existing=ExistingRun.OVERWRITE).trained


def stopping_after(steps: int) -> Any:
    asked = iter(range(1000))
    return lambda: next(asked) >= steps - 1


def test_a_stopped_run_waits_for_resume(words: Dataset, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        run(words, tmp_path, stop=stopping_after(3))
    found = next(iter(open_registry(tmp_path)))
    assert found.status == "stopped"
    assert (found.folder / "state" / "state.safetensors").exists()
    with pytest.raises(RunError, match=r"continue it with `resume`, or start it again with `overwrite`"):
        run(words, tmp_path)
    done = run(words, tmp_path, existing=ExistingRun.RESUME)
    assert done.trained
    assert not (found.folder / "state").exists()
    straight = run(words, tmp_path / "other")
    one, other = ((t.run.folder / "model.safetensors").read_bytes() for t in (done, straight))
    assert one == other
    assert done.evaluation == straight.evaluation


def test_a_run_that_goes_on_with_another_processor_says_so(
    words: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    here = device.processor()
    other = {**here, "products": "oneDNN (linear from 1M)"}  # an earlier version of ape had another rule
    existing = ExistingRun.REFUSE
    for processor in (here, here, other):
        for module in (device, trial):
            monkeypatch.setattr(module, "processor", lambda chosen=processor: chosen)
        with pytest.raises(Stopped):
            run(words, tmp_path, existing=existing, stop=stopping_after(1))
        existing = ExistingRun.RESUME
        says_so = f"with {here['products']} on {here['name']} so far, and continues with {other['products']} on"
        assert (says_so in caplog.text) == (processor is other)
    about = run(words, tmp_path, existing=ExistingRun.RESUME).run.read()
    assert about.processor == here
    assert about.resumed_on == [other]


def test_resume_without_a_run(words: Dataset, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such run to resume"):
        run(words, tmp_path, existing=ExistingRun.RESUME)
    assert list(open_registry(tmp_path)) == []  # nothing of the run is left


def test_what_cannot_be_trained_leaves_no_run_behind(words: Dataset, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="heads"):
        run(words, tmp_path, d_model=33)
    assert list(open_registry(tmp_path)) == []


def test_a_run_without_its_run_json_is_begun_afresh(words: Dataset, tmp_path: Path) -> None:
    """Files of a deleted run are not taken for the beginning of the new one."""
    with pytest.raises(Stopped):
        run(words, tmp_path, stop=stopping_after(3))
    (found,) = open_registry(tmp_path)
    (found.folder / "run.json").unlink()
    assert run(words, tmp_path).run.history()["step"].to_list() == [2, 4]


def test_overwrite_replaces_whatever_is_there(words: Dataset, tmp_path: Path) -> None:
    done = run(words, tmp_path).run
    (done.folder / "run.json").write_text('{"version": 99}')
    with pytest.raises(RunError, match="--overwrite`"):
        run(words, tmp_path)
    assert run(words, tmp_path, existing=ExistingRun.OVERWRITE).trained


def test_a_state_that_does_not_fit_is_explained(words: Dataset, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        run(words, tmp_path, stop=stopping_after(3))
    (found,) = open_registry(tmp_path)
    tensors, progress = found.load_state() or ({}, {})
    for bad_tensors, bad_progress in [
        ({k: v for k, v in tensors.items() if k != "rng.cpu"}, progress),
        ({k: v for k, v in tensors.items() if "embedding" not in k}, progress),
        (tensors, progress | {"unknown": 1}),
    ]:
        found.save_state(bad_tensors, bad_progress)
        with pytest.raises(RunError, match=r"stored state[\s\S]*--overwrite`"):
            run(words, tmp_path, existing=ExistingRun.RESUME)
    found.save_state(tensors, progress)
    assert run(words, tmp_path, existing=ExistingRun.RESUME).trained


def test_a_run_whose_process_is_gone_counts_as_stopped(words: Dataset, tmp_path: Path) -> None:
    done = run(words, tmp_path)
    done.run.update(status="running")
    assert done.run.status == "stopped"
    with files.locked(done.run.folder / ".lock", RunError("busy")):
        assert done.run.status == "running"
        for options in ({}, {"existing": ExistingRun.RESUME}):
            with pytest.raises(BusyError, match="another process"):
                run(words, tmp_path, **options)


# Damage


def load(run: Run, data: Dataset) -> None:
    load_weights(run, factory.build(run.record.config, data.structure, data.ids))


def test_weights_that_are_not_ours(words: Dataset, tmp_path: Path) -> None:
    done = run(words, tmp_path).run
    path = done.folder / "model.safetensors"
    whole = path.read_bytes()
    other = run(words, tmp_path / "other", d_model=64).run.folder / "model.safetensors"

    class Evil:
        def __reduce__(self) -> Any:
            return (Path(tmp_path / "harm").write_text, ("done",))

    torch.save({"embedding": Evil()}, tmp_path / "pickle")
    for content, message in [
        (whole[: len(whole) // 2], "not a complete safetensors file"),
        (b"", "not a complete safetensors file"),
        ((tmp_path / "pickle").read_bytes(), "not a complete safetensors file"),
        (other.read_bytes(), r"does not fit[\s\S]*size mismatch"),
    ]:
        path.write_bytes(content)
        with pytest.raises(RunError, match="was altered"):
            load(Run(done.folder), words)
        vouch(done.folder)  # a digest of the damaged file does not make it usable
        with pytest.raises(RunError, match=message):
            load(Run(done.folder), words)
        path.write_bytes(whole)
        vouch(done.folder)
    load(Run(done.folder), words)
    assert not (tmp_path / "harm").exists()
    path.unlink()
    with pytest.raises(RunError, match="no weights"):
        load(Run(done.folder), words)


def test_half_written_runs_are_left_out_and_named(words: Dataset, tmp_path: Path) -> None:
    done = run(words, tmp_path)
    for name in ("empty", "broken"):
        (tmp_path / "runs" / name).mkdir()
    (tmp_path / "runs" / "broken" / "run.json").write_text('{"version": 1, "config"')
    with left_out() as lines:
        assert [r.name for r, _ in open_registry(tmp_path).readable()] == [done.run.name]
    assert [line.partition(":")[0] for line in lines] == ["broken", "empty"]
    bad: list[str] = []
    with pytest.warns(DeprecationWarning, match="`bad` is deprecated"):
        assert len(list(open_registry(tmp_path).readable(bad))) == 1
    with pytest.warns(DeprecationWarning, match="`table` is deprecated"):
        table, again = open_registry(tmp_path).table()
    assert (table.height, bad, again) == (1, lines, lines)
    with pytest.warns(DeprecationWarning, match="Registry.own_code is now called user_code"):
        assert (found := open_registry(tmp_path)).own_code is found.user_code


def test_finding_runs(words: Dataset, tmp_path: Path) -> None:
    one, two = run(words, tmp_path, seed=1).run, run(words, tmp_path, seed=2).run
    found = Registry(tmp_path)
    assert found.find(one.name).folder == one.folder
    assert found.find("reverse-rope-2").folder == two.folder
    assert found.find(str(one.folder)).folder == one.folder
    with pytest.raises(UsageError, match="several runs"):
        found.find("reverse-rope")
    with pytest.raises(ApeError, match="unknown run"):
        found.find("copy-rope")


def test_damaged_evaluations_are_named(words: Dataset, tmp_path: Path) -> None:
    """They are named whether or not run.json has their digest, and the rows are evaluated again."""
    done = run(words, tmp_path).run
    path = next((done.folder / "eval").iterdir())
    path.write_text(path.read_text().replace('"token_accuracy": 0', '"token_accuracy": NaN'))
    for _ in range(2):
        good, (_,) = done.evaluations()
        assert good == []
        with pytest.raises(RunError, match=r"eval"):
            done.evaluation(f"eval/{path.name}")
        vouch(done.folder)
        done.read()
    assert [r.name for r, _ in pending(open_registry(tmp_path), [], "test", "teacher")] == [done.name]
    evaluate.evaluate(done, words, split="test", decode="teacher", device=CPU)
    assert len(done.evaluations()[0]) == 1


def test_a_kill_before_an_evaluation_is_listed(words: Dataset, tmp_path: Path) -> None:
    """The evaluation is computed again."""
    done = run(words, tmp_path)
    known = done.run.read()
    done.run.write_record(known.model_copy(update={"files": {k: v for k, v in known.files.items() if "eval" not in k}}))
    assert done.run.evaluations() == ([], [])
    again = run(words, tmp_path)
    assert not again.trained
    assert again.evaluation == done.evaluation
    assert Run(done.run.folder).read() == known
