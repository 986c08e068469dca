"""An object store that loses every fifth request or answer: what is stored is the same as in a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from ape_cli.core.errors import ApeError, BusyError, PlaceError
from ape_cli.data.loader import Dataset
from ape_cli.storage import _bucket, _requests, files
from ape_cli.storage._stored_lock import SECONDS
from ape_cli.storage.leases import Lease, held
from ape_cli.storage.object_store import RemotePath
from ape_cli.storage.paths import storage_path
from tests.conftest import ape
from tests.nightly import google
from tests.nightly.flaky import FAILURES, Flaky, flaky
from tests.nightly.store import Server, at

BUSY = BusyError("busy", got="this", fix="wait")


@pytest.fixture
def proxy(server: Server) -> Iterator[Flaky]:
    with flaky(server.endpoint) as found:
        yield found


def test_the_commands_of_every_day(
    server: Server, proxy: Flaky, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Generation, training, evaluation and a report give the same files as on a local disk."""
    monkeypatch.chdir(tmp_path)
    words = ["gen", "reverse", "--n", "400", "--n-validation", "30", "--n-test", "30", "--shard-rows", "40"]
    words += ["--length-mean", "5", "--length-std", "1", "--out"]
    steps = ["train", "--scheme", "rope", "--preset", "tiny", "--set", "steps=6", "--set", "validate_every_steps=1"]
    tables = []
    for data, results in (
        ("words", "results"),
        tuple(str(at(proxy.endpoint, f"flaky/{name}")) for name in ("words", "results")),
    ):
        ape(*words, data)
        trained = json.loads(ape(*steps, "--json", "--data", data, "--results", results)[0])
        ape("eval", "--results", results, "--decode", "greedy", "--data", data, trained["run"])
        tables.append(ape("report", "--results", results, "--format", "csv")[0])
        assert ape("verify", "--results", results, "--data", data)[0]
    assert tables[0] == tables[1]
    for folder in ("words", f"results/runs/{trained['run']}"):
        here = {str(p.relative_to(tmp_path / folder)): p for p in (tmp_path / folder).rglob("*") if p.is_file()}
        there = server.objects(f"ape/flaky/{folder}")
        assert there.keys() == here.keys()
        assert all(
            there[name] == here[name].read_bytes()
            for name in here
            if name.endswith(("parquet", "safetensors")) and "history" not in name
        )
    assert {kind for kind, _ in proxy.failed} == set(FAILURES)
    assert {method for _, method in proxy.failed} >= {"GET", "PUT", "HEAD"}
    assert sum(proxy.failed.values()) > 30


@pytest.mark.parametrize("failure", ["503 SlowDown", "403 AccessDenied", "lost request"])
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
        assert any(word in said for word in ("S3 failed", "S3 refuses", "cannot be reached")), said


def test_one_holder_although_answers_are_lost(server: Server, proxy: Flaky) -> None:
    lock = at(proxy.endpoint, "locked/.lock")
    for i in range(12):  # each write meets each kind of failure
        with held(lock, BUSY) as mine:
            for _ in range(3):
                mine.renew()
                assert mine.is_ours()
            with pytest.raises(BusyError, match="by process"), held(at(server.endpoint, "locked/.lock"), BUSY):
                pass
            files.write_text(lock.parent / "x.json", str(i))
        assert server.objects("ape/locked") == {"x.json": str(i).encode()}
    assert {(kind, "PUT") for kind in FAILURES} <= set(proxy.failed)


def test_a_server_without_versions_has_no_locks(server: Server, proxy: Flaky) -> None:
    proxy.plan, proxy.hidden = (lambda method, path: None), {"etag"}
    with (
        pytest.raises(PlaceError, match="has no conditional writes"),
        held(at(proxy.endpoint, "untagged/.lock"), BUSY),
    ):
        pass
    with pytest.raises(PlaceError, match="has no conditional writes"):
        _requests.version_of(at(proxy.endpoint, "x").bucket, {"e_tag": None, "version": None})


REMOVING = ("DELETE", "POST")


@pytest.mark.parametrize("ignored", [set(), {"DELETE if-match"}], ids=["conditional", "unconditional"])
def test_a_removal_whose_answer_was_lost_spares_the_next_holder(
    server: Server, proxy: Flaky, ignored: set[str]
) -> None:
    """The first request has removed the lock, and another process takes it before the second one."""
    folder = f"spared-{len(ignored)}"
    next_one = Lease(at(server.endpoint, f"{folder}/.lock"), SECONDS)
    proxy.plan, proxy.dropped, removals = lambda method, path: None, ignored, list[str]()

    def plan(method: str, path: str) -> str | None:
        if removals and next_one.version is None:
            assert next_one.acquire() is None
        if method not in REMOVING:
            return None
        removals.append(method)
        return "lost answer" if len(removals) == 1 else None

    with held(at(proxy.endpoint, f"{folder}/.lock"), BUSY):
        proxy.plan = plan
    assert len(removals) == 1
    assert list(server.objects(f"ape/{folder}")) == [".lock"]
    next_one.renew()
    assert next_one.is_ours()
    with pytest.raises(BusyError), held(at(server.endpoint, f"{folder}/.lock"), BUSY):
        pass


def test_a_removal_that_got_lost_is_repeated(server: Server, proxy: Flaky) -> None:
    for answer in ("lost request", "503 SlowDown", "409 ConditionalRequestConflict"):
        answers = iter([answer])
        proxy.plan = lambda method, path, to=answers: next(to, None) if method in REMOVING else None
        with held(at(proxy.endpoint, "again/.lock"), BUSY):
            pass
        assert server.objects("ape/again") == {}


def test_a_removal_that_may_still_arrive_is_not_repeated(
    server: Server, proxy: Flaky, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock stays until it expires, because the removal could otherwise hit that of another process."""
    monkeypatch.setattr(_bucket, "_SILENT", timedelta(seconds=0.5))
    proxy.plan = lambda method, path: "stuck" if method in REMOVING else None
    with held(at(proxy.endpoint, "arrives/.lock"), BUSY):
        pass
    assert proxy.failed["stuck", "DELETE"] == 1
    assert list(server.objects("ape/arrives")) == [".lock"]


def test_a_server_that_refuses_conditional_removals(server: Server, proxy: Flaky) -> None:
    answers = iter(["501 NotImplemented"])
    proxy.plan = lambda method, path: next(answers, None) if method in REMOVING else None
    with held(at(proxy.endpoint, "refuses/.lock"), BUSY):
        pass
    assert server.objects("ape/refuses") == {}
    assert proxy.failed["501 NotImplemented", "DELETE"] == 1


def test_the_removal_of_a_file_is_not_repeated_after_the_lock_is_lost(server: Server, proxy: Flaky) -> None:
    proxy.plan = lambda method, path: None
    with held(at(proxy.endpoint, "lost/.lock"), BUSY) as mine:
        target = mine.lock.with_name("state.bin")
        files.write_text(target, "ours")

        def plan(method: str, path: str) -> str | None:
            if method not in REMOVING or not mine.is_ours():
                return None
            mine.until = 0.0
            return "lost request"

        proxy.plan = plan
        with pytest.raises(ApeError, match="another process may have taken over"):
            target.unlink()
        proxy.plan = lambda method, path: None
    assert server.objects("ape/lost") == {"state.bin": b"ours"}


@pytest.mark.parametrize("kind", ["s3", "gs"])
def test_conditional_writes(server: Server, kind: str) -> None:
    """By the documentation of both stores: a write of an outdated version changes nothing."""
    with google.serving() as store:
        url = f"gs://{google.BUCKET}/c?anonymous=true&endpoint_override={store.endpoint}"
        path = at(server.endpoint, f"conditional/{kind}") if kind == "s3" else storage_path(url)
        assert isinstance(path, RemotePath)
        where = path.bucket, path.key
        first = _requests.replace(*where, b"one", None)
        with pytest.raises(_requests.ConflictError):
            _requests.replace(*where, b"two", None)
        second = _requests.replace(*where, b"two", first)
        assert first != second == _requests.version(*where)
        with pytest.raises(_requests.ConflictError):
            _requests.replace(*where, b"three", first)
        assert _requests.replace(*where, b"two", first) == second  # as if the answer had been lost
        _requests.delete(*where)
        _requests.delete(*where)
        assert not path.exists()
        with pytest.raises(_requests.ConflictError):
            _requests.replace(*where, b"three", second)
        assert not path.exists()
