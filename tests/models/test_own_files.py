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
from ape_cli.models.factory import changed, own_files
from ape_cli.runs.record import user_code
from ape_cli.runs.registry import open_registry
from ape_cli.runs.run import Run
from ape_cli.training.execution import ExistingRun
from ape_cli.training.trainer import Stopped
from tests.conftest import ape
from tests.runs.test_registry import run as trial_of

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
        assert err.count(f"{CHANGED} {run.name} was trained; `ape train … --overwrite` trains again") == 1
    sweep = ["sweep", "--schemes", "mine-own", "--seeds", "42", *settings, "--dry-run"]
    for words_of in (["runs"], ["report"], ["eval", run.name, "--split", "validation"], sweep):
        assert ape(*words_of)[1].count(f"{CHANGED} {run.name} was trained") == 1, words_of
    assert CHANGED not in ape(*train, "--overwrite")[1]
    assert CHANGED not in ape(*train)[1]


def test_a_score_of_other_code_is_not_stored(
    words: Dataset, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheme is edited, the run evaluated again, and the edit undone."""
    monkeypatch.chdir(tmp_path)
    run = trained(words)
    stored, table = run.evaluations()[0], ape("report", "--json")[0]
    assert [one["own_files"] for one in stored] == [own_files("mine-own", "dot", "plain")]
    rewrite(file, SCHEME.replace("x + ", "x + 100 * "))
    for split in ("validation", "test"):
        out, err = ape("eval", run.name, "--split", split, "--json")
        assert f"the score of {run.name} is not stored: scheme 'mine-own' changed after training" in err
        (other,) = json.loads(out)
        assert other["own_files"] != stored[0]["own_files"]
    assert other["overall"] != stored[0]["overall"]
    rewrite(file, SCHEME)
    assert Run(run.folder).evaluations()[0] == stored
    assert ape("report", "--json")[0] == table


def test_a_run_that_was_resumed_with_other_code_is_shown_as_such(
    words: Dataset, file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = ({"scheme 'mine-own'": hashlib.sha256((SCHEME + more).encode()).hexdigest()} for more in ("", "\n"))
    with pytest.raises(Stopped):
        trial_of(words, tmp_path / "results", scheme="mine-own", stop=lambda: True)
    rewrite(file)
    done = trial_of(words, tmp_path / "results", scheme="mine-own", existing=ExistingRun.RESUME).run
    assert (done.read().own_files, done.read().resumed_with) == (old, [new])
    (evaluation,) = done.evaluations()[0]
    assert evaluation["own_files"] == new
    assert changed([code for code in [user_code(done.read())] if code]) == {}
    rewrite(file, SCHEME)
    assert changed([code for code in [user_code(done.read())] if code]) == {"scheme 'mine-own'": [done.name]}
    first, second = (digests["scheme 'mine-own'"] for digests in (old, new))
    (line,) = json.loads(ape("report", "--json", "--results", str(tmp_path / "results"))[0])
    assert f"code {first[:7]} then {second[:7]}" in line["variant"]
    (row,) = open_registry(tmp_path / "results").runs().to_dicts()
    assert row["configuration"] == line["configuration"]
    assert row["configuration"].endswith(f"-{first[:7]} then {second[:7]}")
