"""Uploads with a stand-in for the client of the Hugging Face Hub: what arrives, and one message for each error."""

from __future__ import annotations

import fnmatch
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ape_cli
from ape_cli.data.loader import Dataset, open_dataset
from ape_cli.evaluation.sharing import exported
from ape_cli.runs.run import Run
from tests.conftest import ape, write
from tests.runs.test_registry import run

huggingface_hub = pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")


class Hub:
    """Repositories in memory. `error` is raised by an upload."""

    endpoint = "https://hub.test"

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, bytes]] = {}  # by kind and name, such as "model me/x": path -> content
        self.private: dict[str, bool] = {}
        self.commits: list[str] = []
        self.error: Exception | None = None

    def create_repo(self, name: str, *, repo_type: str, private: bool | None, exist_ok: bool) -> None:
        assert exist_ok
        self.repositories.setdefault(f"{repo_type} {name}", {})
        self.private.setdefault(f"{repo_type} {name}", bool(private))

    def repo_info(self, name: str, *, repo_type: str) -> Any:
        return SimpleNamespace(private=self.private[f"{repo_type} {name}"])

    def upload_folder(self, *, repo_id: str, repo_type: str, **given: Any) -> Any:
        if self.error:
            raise self.error
        content = self.repositories[f"{repo_type} {repo_id}"]
        for name in fnmatch.filter(content, given["delete_patterns"] or "nothing"):
            del content[name]
        content |= {name: (given["folder_path"] / name).read_bytes() for name in given["allow_patterns"]}
        self.commits.append(given["commit_message"])
        return SimpleNamespace(commit_url=f"{self.endpoint}/{repo_id}/commit/1")


@pytest.fixture(scope="module")
def done(words: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(words, tmp_path_factory.mktemp("pushed")).run


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Hub:
    """A Hub with no repositories, and a token in the environment."""
    stand_in = Hub()
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda **_: stand_in)
    monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_test")
    return stand_in


def push(run: Run, *words: str, code: int = 0) -> tuple[str, str]:
    return ape("push", run.name[:-2], "--results", str(run.folder.parents[1]), *words, code=code)


def fetched(content: dict[str, bytes], folder: Path) -> Path:
    """Writes the files of a repository to a folder, as a download does."""
    for name, raw in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(raw)
    return folder


def test_a_run_arrives_as_its_export(hub: Hub, done: Run, tmp_path: Path) -> None:
    """What should be private is never public."""
    assert f"model uploaded: {hub.endpoint}/me/reverse" in push(done, "--to", "me/reverse", "--private")[0]
    exported.export(done, tmp_path / "own")
    files = {path.name: path.read_bytes() for path in (tmp_path / "own").iterdir()}
    assert hub.repositories == {"model me/reverse": files}
    assert hub.private == {"model me/reverse": True}
    assert hub.commits == [f"Add {done.name}"]
    model = ape_cli.load(fetched(hub.repositories["model me/reverse"], tmp_path / "there"))
    assert model.about["run"] == done.name
    assert json.loads(ape("push", str(tmp_path / "own"), "--to", "me/other", "--json")[0])["kind"] == "model"
    assert hub.repositories["model me/other"] == files
    assert not hub.private["model me/other"]
    assert "exists and is public" in push(done, "--to", "me/other", "--private", code=2)[1]
    assert len(hub.commits) == 2


def test_a_dataset_arrives_whole_and_replaces_another(hub: Hub, here: Path, words: Dataset) -> None:
    larger = write(here / "datasets" / "larger", "reverse", rows=(200, 40, 40))  # has more shards
    ape("push", "larger", "--to", "me/words")
    content = hub.repositories["dataset me/words"]
    assert len(content) == len(list(larger.folder.rglob("*.*")))
    content["notes.txt"] = b"x"
    assert "dataset uploaded" in ape("push", str(words.folder), "--to", "me/words")[0]
    assert content.pop("notes.txt") == b"x"
    parts = [path for path in words.folder.rglob("*.*") if path.parent.name != "baselines"]  # they can be counted again
    assert content == {str(path.relative_to(words.folder)): path.read_bytes() for path in parts}
    assert open_dataset(fetched(content, here / "there")).fingerprint == words.fingerprint


def test_a_refusal_is_one_message(hub: Hub, done: Run) -> None:
    answer = SimpleNamespace(status_code=403, reason_phrase="", headers={}, request=None)
    refused = huggingface_hub.errors.HfHubHTTPError("said by the server", response=answer)
    for error in (refused, huggingface_hub.errors.HTTPError("connection refused")):
        hub.error = error
        _, err = push(done, "--to", "me/x", code=1)
        assert "the upload to the Hub failed" in err
        assert str(error) in err


def test_what_cannot_be_pushed(hub: Hub, done: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("me", "me/a b"):
        assert "invalid repository name" in push(done, "--to", name, code=2)[1]
    assert "no runs in results" in ape("push", "nothing", "--to", "me/x", code=2)[1]
    monkeypatch.delenv("HF_TOKEN")
    assert "no token for the Hugging Face Hub" in push(done, "--to", "me/x", code=2)[1]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "huggingface_hub is not installed" in push(done, "--to", "me/x", code=2)[1]
    assert not hub.repositories
