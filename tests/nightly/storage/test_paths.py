"""Paths in an object store, compared with those of a folder. An S3 server runs on loopback."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import pytest

from ape_cli.core.errors import PlaceError
from ape_cli.storage import files
from ape_cli.storage.paths import storage_path
from tests.nightly.store import Server, at


def test_the_environment_names_the_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.put("ape/by/environment", b"here")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    plain = storage_path("s3://ape/by/environment")
    assert plain.read_bytes() == b"here"
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    assert at(server.endpoint, "by/environment").read_bytes() == b"here"  # an option in the address has precedence
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.endpoint)
    assert storage_path("s3://ape/by/environment").exists()
    host = server.endpoint.removeprefix("http://")
    assert storage_path(f"s3://ape/by/environment?endpoint_override={host}&scheme=http").exists()


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a file with a profile has keys."""
    file = tmp_path / "credentials"
    file.write_text("[lab]\naws_access_key_id = key\naws_secret_access_key = secret\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_a_profile_of_aws(server: Server, profile: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "lab")
    files.write_text(at(server.endpoint, "profile/x"), "here")
    assert server.objects("ape/profile") == {"x": b"here"}
    monkeypatch.setenv("AWS_PROFILE", "typo")
    with pytest.raises(PlaceError, match=r"no credentials for S3[\s\S]*typo"):
        at(server.endpoint, "profile/x").exists()
    monkeypatch.setitem(sys.modules, "obstore.auth.boto3", None)  # as without boto3
    with pytest.raises(PlaceError, match=r"needs the package boto3[\s\S]*pip install .*\[aws\]'"):
        at(server.endpoint, "profile/x").exists()


def test_no_credentials_at_all(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")  # there is no machine of a cloud around us
    with pytest.raises(PlaceError, match="AWS_ACCESS_KEY_ID"):
        at(server.endpoint, "nobody").exists()


def test_a_marker_of_another_program_is_an_empty_folder(server: Server) -> None:
    """Consoles and file managers store an empty object `folder/`."""
    server.put("ape/marked/folder/", b"")
    marked = at(server.endpoint, "marked/folder")
    assert not list(marked.iterdir())
    assert not marked.exists()
    marked.rmdir()
    files.write_text(marked / "x", "text")
    assert [p.name for p in marked.iterdir()] == ["x"]
    assert marked.is_dir()


def test_it_is_what_pathlib_is(server: Server, tmp_path: Path) -> None:
    """The same steps on a local folder and in a bucket."""
    found = []
    for where in (tmp_path / "folder", at(server.endpoint, "folder")):
        seen: list[object] = [where.exists(), where.is_dir()]
        for name in ("one/a.json", "one/b.txt", "two/a.json", "c.json"):
            files.write_text(where / name, f"{name} ü")
        seen += [where.exists(), where.is_dir(), where.is_file()]
        seen += [(where / "c.json").is_file(), (where / "c.json").is_dir(), (where / "d").exists()]
        seen += [sorted(p.name for p in where.iterdir()), files.entries(where), files.entries(where / "none")]
        seen += [sorted(p.parent.name for p in where.glob("*/a.json")), sorted(p.name for p in where.glob("*.json"))]
        seen += [(where / "one/a.json").read_text(encoding="utf-8"), (where / "one/b.txt").stat().st_size]
        seen += [files.sha256(where / "c.json"), (where / "one").resolve().name]
        (where / "one/a.json").unlink()
        (where / "one/a.json").unlink(missing_ok=True)
        with pytest.raises(FileNotFoundError, match=r"No such file|does not exist"):
            (where / "x").read_bytes()
        (where / "one/b.txt").unlink()
        seen += [list((where / "one").iterdir())]
        (where / "one").rmdir()
        seen += [(where / "one").exists(), files.entries(where / "one")]
        found.append(seen)
    assert found[0] == found[1]


def test_an_object_is_whole_or_absent(server: Server) -> None:
    target = at(server.endpoint, "whole/x.bin")

    with suppress(KeyboardInterrupt), files.replacing(target) as temporary:
        temporary.write_bytes(b"half")
        raise KeyboardInterrupt
    assert server.objects("ape/whole") == {}
    assert not temporary.exists()
    data = bytes(range(256)) * 50_000  # more than one part of an upload
    with files.replacing(target) as temporary:
        temporary.write_bytes(data)
        assert server.objects("ape/whole") == {}
    assert server.objects("ape/whole") == {"x.bin": data}
    with files.local(target) as copy:
        assert copy.read_bytes() == data
    assert not copy.exists()
