"""Uploads to a stand-in of the Hugging Face Hub on loopback: what arrives, and one message for each error."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import ape_cli
from ape_cli.data.loader import Dataset, open_dataset
from ape_cli.evaluation.sharing import exported
from ape_cli.runs.run import Run
from tests.conftest import ape, write
from tests.nightly.evaluation.sharing.hub_server import TOKEN, Hub, hub_server
from tests.runs.test_registry import run

constants = pytest.importorskip("huggingface_hub.constants", reason="the extra `hub` is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # of huggingface_hub's own request


@pytest.fixture(scope="module")
def done(words: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(words, tmp_path_factory.mktemp("pushed")).run


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A server with no repositories; `huggingface_hub` uses it, with a token from the environment."""
    with hub_server() as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.address)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield server


def push(run: Run, *words: str, code: int = 0) -> tuple[str, str]:
    return ape("push", run.name[:-2], "--results", str(run.folder.parents[1]), *words, code=code)


def fetched(content: dict[str, bytes], folder: Path) -> Path:
    """Writes the files of a repository to a folder, as a download does."""
    for name, raw in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(raw)
    return folder


def test_a_run_arrives_as_its_export(hub: Hub, done: Run, tmp_path: Path) -> None:
    assert f"model uploaded: {hub.address}/me/reverse" in push(done, "--to", "me/reverse", "--private")[0]
    exported.export(done, tmp_path / "own")
    own = {path.name: path.read_bytes() for path in (tmp_path / "own").iterdir()}
    assert hub.repositories == {"models/me/reverse": own}
    assert hub.private == {"models/me/reverse": True}
    assert hub.commits == [f"Add {done.name}"]
    model = ape_cli.load(fetched(hub.repositories["models/me/reverse"], tmp_path / "there"))
    assert model.about["run"] == done.name
    said = json.loads(ape("push", str(tmp_path / "own"), "--to", "me/other", "--json")[0])
    assert said["kind"] == "model"
    assert hub.repositories["models/me/other"] == own
    assert not hub.private["models/me/other"]


def test_a_dataset_arrives_whole_and_replaces_another(
    hub: Hub, here: Path, words: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    larger = write(here / "datasets" / "larger", "reverse", rows=(200, 40, 40))  # has more shards
    ape("push", "larger", "--to", "me/words")
    assert len(hub.repositories["datasets/me/words"]) == len(list(larger.folder.rglob("*.*")))
    hub.repositories["datasets/me/words"]["notes.txt"] = b"x"
    assert "dataset uploaded" in ape("push", str(words.folder), "--to", "me/words")[0]
    content = hub.repositories["datasets/me/words"]
    assert content.pop("notes.txt") == b"x"
    assert content == {str(p.relative_to(words.folder)): p.read_bytes() for p in words.folder.rglob("*.*")}
    assert open_dataset(fetched(content, here / "there")).fingerprint == words.fingerprint


def test_what_should_be_private_is_never_public(hub: Hub, done: Run) -> None:
    push(done, "--to", "me/x")
    before = list(hub.commits)
    assert "exists and is public" in push(done, "--to", "me/x", "--private", code=2)[1]
    assert hub.commits == before


def test_one_message_for_each_refusal(hub: Hub, done: Run) -> None:
    for status, message in ((403, "no permission to write"), (500, "refused the upload")):
        hub.refuse = status
        _, err = push(done, "--to", "me/x", code=1)
        assert message in err
        assert err.count("error:") == 1
        assert f"said by the server (HTTP {status})" in err
        assert TOKEN not in err
    hub.refuse, hub.refuse_files = 0, 403
    _, err = push(done, "--to", "me/x", code=1)
    assert "no permission to write" in err
    assert not hub.commits


def test_a_wrong_token(hub: Hub, done: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    _, err = push(done, "--to", "me/x", code=1)
    assert "does not accept the token" in err
    assert "hf_wrong" not in err
    monkeypatch.delenv("HF_TOKEN")
    assert "there is no token" in push(done, "--to", "me/x", code=2)[1]


def test_no_network(hub: Hub, done: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{port}")
    _, err = push(done, "--to", "me/x", code=1)
    assert "the Hub cannot be reached" in err
    assert f"127.0.0.1:{port}" in err


def test_what_cannot_be_pushed(hub: Hub, done: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("me", "me/a/b", "me/a b"):
        assert "no repository can have this name" in push(done, "--to", name, code=2)[1]
    assert "unknown run or dataset" in ape("push", "nothing", "--to", "me/x", code=2)[1]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "huggingface_hub is not installed" in push(done, "--to", "me/x", code=2)[1]
    assert not hub.repositories
