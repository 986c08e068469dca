"""Paths: how addresses are parsed, and messages for users."""

from __future__ import annotations

import pickle
import socket
import sys
from pathlib import Path

import pytest

from ape_cli.core.errors import PlaceError, UsageError
from ape_cli.storage.object_store import RemotePath
from ape_cli.storage.paths import storage_path

CLOUD = "needs the extra `cloud`"

# Addresses


def test_what_is_no_address_is_a_folder() -> None:
    for text in ("results", "/tmp/x", "../a b", "", "c:/x"):
        assert storage_path(text) == storage_path(Path(text)) == Path(text)


@pytest.mark.parametrize(
    ("text", "again", "name"),
    [
        ("s3://bucket/a/b", "s3://bucket/a/b", "b"),
        ("gs://bucket//a///b/", "gs://bucket/a/b", "b"),
        ("s3://b/50% a?region=eu-west-1", "s3://b/50% a?region=eu-west-1", "50% a"),
        ("s3://b/x?endpoint_override=http://h:9000&anonymous=true", None, "x"),
    ],
)
def test_an_address_is_what_it_says(text: str, again: str | None, name: str) -> None:
    found = storage_path(text)
    assert isinstance(found, RemotePath)
    assert (str(found), found.name) == (again or text, name)
    assert storage_path(str(found)) == found == storage_path(found) == pickle.loads(pickle.dumps(found))


def test_the_options_go_with_what_is_in_it() -> None:
    """So that the address of a file can be given again."""
    found = storage_path("s3://b/x?region=r")
    assert str(found / "data/y.json") == "s3://b/x/data/y.json?region=r"
    assert (found / "data" / "y.json").parent.parent == found
    assert (found / "y.json").with_name("z.json") == found / "z.json"
    assert (found / "y.json").suffix == ".json"
    assert storage_path("s3://b").parent == storage_path("s3://b")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ftp://host/x", r"unknown kind of address[\s\S]*s3://bucket/path"),
        ("s3://", "this is not a valid address of an object"),
        ("s3://b/x?regoin=r", r"unknown option[\s\S]*did you mean 'region'"),
        ("gs://b/x?region=r", "unknown option of gs://"),
        ("s3://b/x/../y", "this is not a valid address of an object"),
        (Path("s3://bucket/x"), r"an address needs two slashes[\s\S]*pathlib.Path"),
    ],
)
def test_an_address_that_is_none(text: str | Path, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        storage_path(text)


def test_without_obstore_only_a_request_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address is parsed without it. Otherwise, the first line of `ape --help` would wait for it."""
    monkeypatch.setitem(sys.modules, "obstore", None)
    path = storage_path("s3://bucket/x") / "y"
    assert "store" not in vars(path.bucket)
    with pytest.raises(PlaceError, match=r"need the package obstore[\s\S]*s3://bucket[\s\S]*\[cloud\]'"):
        path.exists()


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore", reason=CLOUD)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


def test_an_address_and_locks_do_not_depend_on_other_variables(keys: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("AWS_CONDITIONAL_PUT", "disabled")
    found = storage_path("s3://bucket/x?endpoint_override=http://127.0.0.1:1&anonymous=false")
    config = found.bucket.store.config
    assert (config["skip_signature"], config["conditional_put"]) == ("false", "etag")


def test_a_server_that_is_not_there(keys: None) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}"
    found = storage_path(f"s3://bucket/x?endpoint_override={nobody}&region=us-east-1")
    with pytest.raises(PlaceError, match=r"a request to S3 failed at s3://bucket[\s\S]*AWS_ENDPOINT_URL"):
        found.exists()
