"""Files of a user's own schemes: run.json has their digests, and a change is noticed."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ape_cli.position
from ape_cli import position
from ape_cli.data.loader import Dataset
from ape_cli.models.own_files import changes, own_files
from ape_cli.runs.config import resolve
from ape_cli.runs.registry import open_registry
from tests.conftest import ape

SCHEME = """
from ape_cli.position import Scheme


class Mine(Scheme):
    unique = False

    def embed(self, x, context):
        return x + context.positions[..., None]
"""
CHANGED = "the file of scheme 'mine-own' has changed since run"


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


def test_only_a_users_own_file_has_a_digest(file: Path) -> None:
    config = resolve("tiny", "mine-own", {}, kind="sequence")
    assert own_files(config) == {"scheme 'mine-own'": hashlib.sha256(SCHEME.encode()).hexdigest()}
    assert own_files(config.model_copy(update={"scheme": "rope"})) == {}


@pytest.mark.slow
def test_a_changed_file_is_named_once(
    words: Dataset, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = ["--data", str(words.folder), "--preset", "tiny", "--set", "steps=2"]
    train = ["train", "--scheme", "mine-own", *settings]
    ape(*train)
    (run,) = open_registry("results")
    assert run.read()["own_files"] == {"scheme 'mine-own'": hashlib.sha256(SCHEME.encode()).hexdigest()}
    assert CHANGED not in ape(*train)[1]
    file.write_text(SCHEME + "\n")
    for again in (train, [*train, "--resume"]):
        err = ape(*again)[1]
        assert err.count(f"{CHANGED} {run.name} was trained; `ape train … --overwrite` trains it again") == 1
    assert len(changes([(run, run.config())] * 2)) == 1
    refused = "the file of scheme 'mine-own' has changed since this run was trained"
    for words_of in (["eval", run.name], ["export", run.name, "--out", "exported"], ["draw", "--run", run.name]):
        assert refused in ape(*words_of, code=1)[1]
    assert run.status == "finished"
    evaluated = run.evaluations()[0]
    sealed = run.read()
    (run.folder / "run.json").write_text(json.dumps(sealed | {"status": "stopped", "result": None}))
    assert refused in ape(*train, "--resume", code=1)[1]
    (run.folder / "run.json").write_text(json.dumps(sealed))
    assert run.evaluations()[0] == evaluated
    assert ape("sweep", "--schemes", "mine-own", "--seeds", "42", *settings)[1].count(CHANGED) == 1
    assert CHANGED not in ape(*train, "--overwrite")[1]
    assert CHANGED not in ape(*train)[1]


@pytest.mark.slow
def test_a_sweep_trains_changed_runs_again(
    words: Dataset, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables and `ape verify` tell the versions apart until it has."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "mine")  # for the workers
    settings = ["--data", str(words.folder), "--preset", "tiny", "--set", "steps=2"]
    sweep = ["sweep", "--schemes", "mine-own,none", "--seeds", "1,2", *settings]
    ape("train", "--scheme", "mine-own", "--seed", "1", *settings)
    file.write_text(SCHEME + "\n")
    ape(*sweep)
    old, new = (hashlib.sha256(text.encode()).hexdigest()[:7] for text in (SCHEME, SCHEME + "\n"))
    said = ape("verify")[1]
    assert "the runs of scheme 'mine-own' were trained with 2 versions of its file" in said
    assert f"{old}: 1 run, {new}: 1 run" in said
    rows = {line["variant"] for line in json.loads(ape("report", "--json")[0]) if line["scheme"] == "mine-own"}
    assert rows == {f"steps=2, file {old}", f"steps=2, file {new}"}
    again = [*sweep, "--retrain-changed", "--json"]
    planned = {line["run"]: line["state"] for line in json.loads(ape(*again, "--dry-run")[0])["trials"]}
    assert sorted(planned.values()) == ["changed", "finished", "finished", "finished"]
    (changed,) = (run for run, state in planned.items() if state == "changed")
    assert "reverse-mine-own-1-" in changed
    for left in (1, 0):  # the second time, nothing is left to do
        ends = json.loads(ape(*again)[0])["trials"]
        assert [end["run"] for end in ends if end["trained"]] == [changed] * left
        assert {end["state"] for end in ends} == {"finished"}
    (other,) = (run for run in planned if "reverse-none-1-" in run)
    for path in Path("results", "runs", other, "eval").iterdir():
        path.unlink()  # so that there is something to do for a run that has not changed
    assert not any(end["trained"] for end in json.loads(ape(*again)[0])["trials"])
    assert "versions of its file" not in ape("verify")[1]
    rows = {line["variant"] for line in json.loads(ape("report", "--json")[0]) if line["scheme"] == "mine-own"}
    assert rows == {"steps=2"}


@pytest.mark.slow
def test_a_run_without_digests_is_taken_as_it_is(
    words: Dataset, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Early versions did not record them."""
    monkeypatch.chdir(tmp_path)
    train = ["train", "--scheme", "mine-own", "--data", str(words.folder), "--preset", "tiny", "--set", "steps=2"]
    ape(*train)
    (run,) = open_registry("results")
    about = {name: value for name, value in run.read().items() if name != "own_files"}
    (run.folder / "run.json").write_text(json.dumps(about))
    file.write_text(SCHEME + "\n")
    err = ape(*train)[1]
    assert "is trained already" in err
    assert CHANGED not in err


@pytest.mark.slow
def test_a_run_is_not_evaluated_without_the_file_of_its_scheme(
    words: Dataset, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ape("train", "--scheme", "mine-own", "--data", str(words.folder), "--preset", "tiny", "--set", "steps=2")
    file.unlink()
    position.load.cache_clear()
    err = ape("eval", "reverse-mine-own-42", code=1)[1]
    assert "scheme 'mine-own' is not part of ape, and its file is missing here" in err
    assert "ape_cli/position/mine_own.py" in err
