"""Files of a user's own schemes: run.json has their digests, and a change is noticed."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import ape_cli.position
from ape_cli import position
from ape_cli.core.errors import BusyError, RunError
from ape_cli.data.loader import Dataset
from ape_cli.models.own_files import changed, changes, check_same, outdated, own_files
from ape_cli.runs.config import resolve
from ape_cli.runs.record import OwnCode
from ape_cli.runs.registry import open_registry
from ape_cli.runs.run import Run
from ape_cli.training import trial
from ape_cli.training.execution import Execution, ExistingRun
from tests.conftest import ape

SCHEME = """
from ape_cli.position import Scheme


class Mine(Scheme):
    unique = False

    def embed(self, x, context):
        return x + context.positions[..., None]
"""
CHANGED = "the code of scheme 'mine-own' has changed since run"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a scheme `mine-own` on the path."""
    found = tmp_path / "mine" / "ape_cli" / "position" / "mine_own.py"
    found.parent.mkdir(parents=True)
    found.write_text(SCHEME)
    monkeypatch.setattr(ape_cli.position, "__path__", [*ape_cli.position.__path__, str(found.parent)])
    position.load.cache_clear()
    yield found
    position.load.cache_clear()
    sys.modules.pop("ape_cli.position.mine_own", None)


def rewrite(file: Path, text: str = SCHEME + "\n") -> None:
    """Writes the file of the scheme, and loads it again, as a new process does."""
    file.write_text(text)
    position.load.cache_clear()
    sys.modules.pop("ape_cli.position.mine_own", None)


def trained(words: Dataset) -> Run:
    """Trains a run with the scheme, in the present folder."""
    ape("train", "--scheme", "mine-own", "--data", str(words.folder), "--preset", "tiny", "--set", "steps=2")
    (run,) = open_registry("results")
    return run


def test_only_a_users_own_file_has_a_digest(file: Path) -> None:
    config = resolve("tiny", "mine-own", {}, kind="sequence")
    assert own_files(config) == {"scheme 'mine-own'": hashlib.sha256(SCHEME.encode()).hexdigest()}
    assert own_files(config.model_copy(update={"scheme": "rope"})) == {}


def test_a_changed_file_is_named_once(
    words: Dataset, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = ["--data", str(words.folder), "--preset", "tiny", "--set", "steps=2"]
    train = ["train", "--scheme", "mine-own", *settings]
    ape(*train)
    (run,) = open_registry("results")
    assert run.read().own_files == {"scheme 'mine-own'": hashlib.sha256(SCHEME.encode()).hexdigest()}
    assert CHANGED not in ape(*train)[1]
    rewrite(file)
    for again in (train, [*train, "--resume"]):
        err = ape(*again)[1]
        assert err.count(f"{CHANGED} {run.name} was trained; `ape train … --overwrite` trains it again") == 1
    seen = f"{CHANGED} {run.name} was trained; `ape sweep … --retrain-changed` trains it again"
    for words_of in (["runs"], ["report"], ["sweep", "--schemes", "mine-own", "--seeds", "42", *settings, "--dry-run"]):
        assert ape(*words_of)[1].count(CHANGED) == ape(*words_of)[1].count(seen) == 1
    refused = "the code of scheme 'mine-own' has changed since this run was trained"
    for words_of in (["eval", run.name], ["export", run.name, "--out", "exported"], ["draw", "--run", run.name]):
        assert refused in ape(*words_of, code=1)[1]
    assert run.status == "finished"
    evaluated = run.evaluations()[0]
    whole = (run.folder / "run.json").read_text()
    (run.folder / "run.json").write_text(json.dumps(json.loads(whole) | {"status": "stopped", "result": None}))
    assert refused in ape(*train, "--resume", code=1)[1]
    (run.folder / "run.json").write_text(whole)
    assert run.evaluations()[0] == evaluated
    assert ape("sweep", "--schemes", "mine-own", "--seeds", "42", *settings)[1].count(CHANGED) == 1
    assert CHANGED not in ape(*train, "--overwrite")[1]
    assert CHANGED not in ape(*train)[1]


def test_changes_are_counted_for_each_part(file: Path) -> None:
    """Nothing is said about code that is not here, and nothing about runs with the present code."""
    now = own_files(resolve("tiny", "mine-own", {}, kind="sequence"))
    same = [OwnCode(f"same-{i}", "mine-own", "dot", now) for i in range(3)]
    old = [OwnCode(f"old-{i}", "mine-own", "dot", dict.fromkeys(now, "0" * 64)) for i in range(2)]
    gone = OwnCode("gone", "no-such-scheme", "dot", {"scheme 'no-such-scheme'": "0" * 64})
    assert changes([*same, gone], "this") == []
    assert outdated([*same, *old, gone]) == {"old-0", "old-1"}
    (said,) = changes([*same, *old, gone, *old], "this")
    present = now["scheme 'mine-own'"][:7]
    assert said == (
        "the code of scheme 'mine-own' has changed since 2 of 5 runs were trained, for example old-0 "
        f"(present version: {present}); this trains them again"
    )


def test_a_run_without_digests_is_taken_as_it_is(
    words: Dataset, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A class without a file, as of a notebook, has none."""
    monkeypatch.chdir(tmp_path)
    train = ["train", "--scheme", "mine-own", "--data", str(words.folder), "--preset", "tiny", "--set", "steps=2"]
    ape(*train)
    (run,) = open_registry("results")
    about = json.loads((run.folder / "run.json").read_text())
    (run.folder / "run.json").write_text(json.dumps(about | {"own_files": {}}))
    rewrite(file)
    err = ape(*train)[1]
    assert "is trained already" in err
    assert CHANGED not in err
    assert changed(run, run.known.config) == []  # so it may be evaluated, and is not trained again


def test_a_run_is_not_evaluated_without_the_file_of_its_scheme(
    words: Dataset, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trained(words)
    file.unlink()
    position.load.cache_clear()
    err = ape("eval", "reverse-mine-own-42", code=1)[1]
    assert "scheme 'mine-own' is not part of ape, and its file is missing here" in err
    assert "ape_cli/position/mine_own.py" in err


def test_the_digest_is_that_of_the_code_that_runs(
    words: Dataset, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is edited while the program has the old code in memory."""
    monkeypatch.chdir(tmp_path)
    config = resolve("tiny", "mine-own", {}, kind="sequence")
    position.load("mine-own")
    file.write_text(SCHEME + "\n")
    assert own_files(config) == {"scheme 'mine-own'": hashlib.sha256(SCHEME.encode()).hexdigest()}
    run = trained(words)
    assert run.read().own_files == own_files(config)


def test_a_scheme_that_cannot_be_trained_leaves_the_run_as_it_is(
    words: Dataset, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = ["--data", str(words.folder), "--preset", "tiny", "--set", "steps=2"]
    ape("train", "--scheme", "mine-own", *settings)
    (run,) = open_registry("results")
    before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    rewrite(file, SCHEME.replace("x + context", "x[:, :, :1] + context"))
    assert "the hook `embed`" in ape("train", "--scheme", "mine-own", *settings, "--overwrite", code=1)[1]
    assert {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()} == before


def test_a_run_that_another_process_trained_again_is_left_as_it_is(
    words: Dataset, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sweeps find a changed run. The second one waits for the lock, and then looks again."""
    monkeypatch.chdir(tmp_path)
    run = trained(words)
    before = run.read()
    answers = iter([["scheme 'mine-own'"], []])
    monkeypatch.setattr(trial, "changed", lambda run, config: next(answers))
    execution = Execution(torch.device("cpu"))
    with pytest.raises(BusyError, match="another process has trained this run meanwhile"):
        trial.run_trial(
            run.known.config, words, open_registry("results"), execution, existing=ExistingRun.OVERWRITE_CHANGED
        )
    assert run.read() == before


def test_a_run_that_is_just_being_removed_is_not_changed(file: Path, tmp_path: Path) -> None:
    config = resolve("tiny", "mine-own", {}, kind="sequence")
    assert changed(Run(tmp_path / "runs" / "gone"), config) == []


def test_code_that_is_not_own_any_more_is_another_one(file: Path) -> None:
    """A scheme that was a user's own, and has the name of one of ape now; or the other way round."""
    rope = resolve("tiny", "rope", {}, kind="sequence")
    with pytest.raises(RunError, match="the code of scheme 'rope' is not the one") as error:
        check_same(rope, {"scheme 'rope'": "a" * 64})
    assert "is part of ape" in str(error.value.got)
    check_same(rope, {})
