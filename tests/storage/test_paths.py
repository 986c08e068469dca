"""Paths: how addresses are parsed, and messages for users."""

from __future__ import annotations

import pickle
import socket
from pathlib import Path
from typing import Any

import pytest
from obstore.store import GCSStore

from ape_cli.core.errors import PlaceError, UsageError
from ape_cli.storage.object_store import RemotePath
from ape_cli.storage.paths import storage_path

# Addresses


@pytest.mark.parametrize("text", ["results", "/tmp/x", "../a b", "", "c:/x"])
def test_what_is_no_address_is_a_folder(text: str) -> None:
    assert storage_path(text) == Path(text)
    assert storage_path(Path(text)) == Path(text)


@pytest.mark.parametrize(
    ("text", "again", "name"),
    [
        ("s3://bucket/a/b", "s3://bucket/a/b", "b"),
        ("s3://bucket", "s3://bucket", "bucket"),
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
        ("s3://b/x?region=eu%0aX", "bad value of region"),
        ("s3://b/x?anonymous=yes", r"anonymous[\s\S]*true"),
        ("gs://b/x?region=r", "unknown option of gs://"),
        ("s3://b/x/../y", "this is not a valid address of an object"),
        (Path("s3://bucket/x"), r"a pathlib.Path cannot hold an address[\s\S]*as a string"),
    ],
)
def test_an_address_that_is_none(text: str | Path, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        storage_path(text)


def test_nothing_is_asked_before_something_is_needed() -> None:
    """Otherwise the first line of `ape --help` would wait for obstore."""
    found = storage_path("s3://bucket/x") / "y"
    assert "store" not in vars(found.bucket)


def test_which_store_an_address_is_of() -> None:
    """Google is not contacted here. The test only checks that the address reaches its client with its options."""
    found = storage_path("gs://bucket/x?endpoint_override=http://127.0.0.1:1&anonymous=true")
    assert isinstance(found, RemotePath)
    store: Any = found.bucket.store
    assert isinstance(store, GCSStore)
    assert store.config == {"bucket": "bucket", "base_url": "http://127.0.0.1:1", "skip_signature": "true"}


def test_an_address_and_locks_do_not_depend_on_other_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("AWS_CONDITIONAL_PUT", "disabled")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    found = storage_path("s3://bucket/x?endpoint_override=http://127.0.0.1:1&anonymous=false")
    assert isinstance(found, RemotePath)
    config = found.bucket.store.config
    assert (config["skip_signature"], config["conditional_put"]) == ("false", "etag")


@pytest.mark.parametrize("endpoint", ["http://me:pa ss/x@127.0.0.1:1", "ftp://h"])
def test_a_server_that_is_no_url(monkeypatch: pytest.MonkeyPatch, endpoint: str, capfd: Any) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    with pytest.raises(PlaceError, match="server is not a URL") as told:
        storage_path("s3://bucket/x").exists()
    assert endpoint not in str(told.value) + "".join(capfd.readouterr())


# Messages for users


def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}"
    found = storage_path(f"s3://bucket/x?endpoint_override={nobody}&region=us-east-1")
    with pytest.raises(PlaceError, match=r"a request to S3 failed at s3://bucket[\s\S]*AWS_ENDPOINT_URL"):
        found.exists()
