"""An object store that loses every fifth request or answer: what is stored is the same as in a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ape_cli.data.loader import Dataset
from ape_cli.storage import files
from ape_cli.storage.object_store import ConflictError, RemotePath
from ape_cli.storage.paths import storage_path
from tests.conftest import ape
from tests.nightly import google
from tests.nightly.flaky import FAILURES, Flaky, flaky
from tests.nightly.store import Server, at


@pytest.fixture
def proxy(server: Server) -> Iterator[Flaky]:
    with flaky(server.endpoint) as found:
        yield found


def repeated(*words: str) -> str:
    """The output of a command, which is repeated if the store failed, as its message says."""
    for _ in range(20):
        try:
            return ape(*words)[0]
        except AssertionError as error:
            assert "run the same command again" in str(error)  # noqa: PT017 - only then it is repeated
    raise AssertionError("the command never succeeded")


def test_the_commands_of_every_day(
    server: Server, proxy: Flaky, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Generation, training, evaluation and a report give the same files as on a local disk."""
    monkeypatch.chdir(tmp_path)
    words = ["gen", "reverse", "--n", "400", "--n-validation", "30", "--n-test", "30", "--shard-rows", "40"]
    words += ["--length-mean", "5", "--length-std", "1", "--out"]
    steps = ["train", "--scheme", "rope", "--preset", "tiny", "--set", "steps=6", "--set", "validate_every_steps=1"]
    tables = []
    for data, results, resume in (
        ("words", "results", []),
        (*(str(at(proxy.endpoint, f"flaky/{name}")) for name in ("words", "results")), ["--resume"]),
    ):
        repeated(*words, data)
        asked = [*steps, "--json", "--data", data, "--results", results]
        try:
            trained = json.loads(ape(*asked)[0])
        except AssertionError:
            trained = json.loads(repeated(*asked, *resume))
        repeated("eval", "--results", results, "--decode", "greedy", "--data", data, trained["run"])
        tables.append(repeated("report", "--results", results, "--format", "csv"))
        assert repeated("verify", "--results", results)
    assert tables[0] == tables[1]
    for folder in ("words", f"results/runs/{trained['run']}"):
        here = {str(p.relative_to(tmp_path / folder)): p for p in (tmp_path / folder).rglob("*") if p.is_file()}
        there = server.objects(f"ape/flaky/{folder}")
        assert {name for name in there if not name.startswith("state/")} == here.keys()  # a removal may fail
        assert all(
            there[name] == here[name].read_bytes()
            for name in here
            if name.endswith(("parquet", "safetensors")) and "history" not in name
        )
    assert {kind for kind, _ in proxy.failed} == set(FAILURES)
    assert {method for _, method in proxy.failed} >= {"GET", "PUT", "HEAD"}


@pytest.mark.parametrize("failure", ["403 AccessDenied"])
def test_a_file_that_the_store_does_not_give_is_not_called_altered(
    server: Server, proxy: Flaky, words: Dataset, failure: str
) -> None:
    """The error is that of the store, and its fix does not destroy a good run."""
    where = failure.partition(" ")[2]
    train = ["train", "--scheme", "rope", "--preset", "tiny", "--set", "steps=2", "--data", str(words.folder)]
    name = json.loads(ape(*train, "--json", "--results", str(at(server.endpoint, where)))[0])["run"]
    for file in ("model.safetensors", "history.parquet"):
        proxy.plan = lambda method, path, file=file: failure if method == "GET" and file in path else None
        said = ape("verify", name, "--results", str(at(proxy.endpoint, where)), code=1)[1]
        assert not any(word in said for word in ("altered", "overwrite", "train")), said
        assert "a request to S3 failed" in said


@pytest.mark.parametrize("kind", ["s3", "gs"])
def test_conditional_writes(server: Server, kind: str) -> None:
    """By the documentation of both stores: a write of an outdated version changes nothing."""
    with google.serving() as store:
        url = f"gs://{google.BUCKET}/c?anonymous=true&endpoint_override={store.endpoint}"
        path = at(server.endpoint, f"conditional/{kind}") if kind == "s3" else storage_path(url)
        assert isinstance(path, RemotePath)
        assert path.version() == "create"
        files.write_text(path, "one", path.version())
        first = path.version()
        with pytest.raises(ConflictError):
            files.write_text(path, "two", "create")
        files.write_text(path, "two", first)
        assert path.version() != first
        with pytest.raises(ConflictError):
            files.write_text(path, "three", first)
        assert path.read_bytes() == b"two"
        second = path.version()
        path.unlink()
        path.unlink(missing_ok=True)
        with pytest.raises(ConflictError):
            files.write_text(path, "three", second)
        assert not path.exists()
