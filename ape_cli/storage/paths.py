"""Paths of datasets and results: a local folder, or an address in an object store.

`storage_path` parses what a user typed. A local path becomes a `pathlib.Path`. An address `s3://bucket/path` or
`gs://bucket/path` becomes a `RemotePath`. It implements the methods of pathlib that the stages use, on top of
obstore, which is imported at the first request.

Options follow the path as a query. For example, `s3://bucket/path?endpoint_override=http://localhost:9000` names
another server than Amazon's, like the environment variable AWS_ENDPOINT_URL. `OPTIONS` in `object_store.py` lists all
options. Credentials are never part of an address. They come from the usual environment (AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY; a profile of AWS, which needs boto3; the machine's role; GOOGLE_APPLICATION_CREDENTIALS).

An object store differs from a file system in these points:

- It has no folders. An address counts as a folder if the names of objects continue from it. `mkdir` does nothing,
  and a folder disappears with its last object.
- It cannot rename. An object is uploaded as a whole (`files.replacing`).
- It has no locks. `runs/run.py` describes how a run is written without them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeAlias
from urllib.parse import parse_qsl, unquote

from ape_cli.core import escaping
from ape_cli.core.errors import UsageError, pick
from ape_cli.storage.object_store import CREDENTIALS, KINDS, OPTIONS, Bucket, RemotePath

__all__ = ["RemotePath", "StoragePath", "local_path", "storage_path"]

StoragePath: TypeAlias = Path | RemotePath

_ALMOST = re.compile(r"(s3|gs|gcs|https?|file|az|abfs):/?[^/]|(s3|gs|gcs|https?|file|az|abfs):/?$")
_BUCKET = re.compile(r"[A-Za-z0-9._-]{1,222}")
_VALUE = re.compile(r"[!-~]*")  # of an option


def storage_path(text: str | StoragePath) -> StoragePath:
    """Parse a local path or an address of an object store.

    `text` is a string, or a path that was parsed before, which is returned as it is. Nothing is requested from the
    object store.

    Raises `UsageError` if the address has an unknown kind, no bucket, credentials, an unknown option or an unknown
    value of an option, or if it was given as a `Path`; and if no local file can have this name.
    """
    if isinstance(text, RemotePath):
        return text
    if isinstance(text, Path) and text.parts[:1] in {(f"{kind}:",) for kind in KINDS}:
        raise UsageError("a pathlib.Path cannot hold an address", got=f"{text.parts[0]}…", fix="give it as a string")
    kind, separator, rest = str(text).partition("://")
    if not separator:
        return _local(text)
    if kind not in KINDS:
        known = "a folder, s3://bucket/path, gs://bucket/path"
        got = f"{kind if kind.isalnum() else '…'}://…"
        raise UsageError("unknown kind of address", got=got, allowed=known, fix="use one of those")
    path, _, query = rest.partition("?")
    parts = [part for part in path.split("/") if part]
    if escaping.redacted(unquote(str(text))) != unquote(str(text)):  # nothing of the address is shown
        raise UsageError(
            "an address must not contain credentials, because it is stored and shown",
            got=f"{kind}://… with an @ or a colon after a name",
            allowed=f"{kind}://bucket/path",
            fix=f"{CREDENTIALS[kind]}, and leave them out here",
        )
    if path.startswith("/") or not _BUCKET.fullmatch("".join(parts[:1])) or {".", ".."} & set(parts):
        raise UsageError(
            "this is not a valid address of an object",
            got=text,
            allowed=f"{kind}://bucket/path, with letters, digits, hyphens, dots and underscores in the bucket's name",
            fix="correct it",
        )
    for key, value in parse_qsl(query, keep_blank_values=True):
        allowed = OPTIONS[kind][pick(f"option of {kind}:// addresses", key, OPTIONS[kind])]
        if not _VALUE.fullmatch(value):
            raise UsageError(f"bad value of {key}: only ASCII letters, digits and punctuation are allowed")
        if allowed:
            pick(f"value of {key}", value, allowed)
    return RemotePath(Bucket(kind, parts[0], query), "/".join(parts))


def local_path(text: str | Path) -> Path:
    """Parse a path of this machine. Raises `UsageError` for an address, and if no local file can have this name."""
    kind, separator, _ = str(text).partition("://")
    if separator:
        where = f"{kind if kind.isalnum() else '…'}://…"
        raise UsageError("this must be a local path", got=where, fix="copy it here first")
    return _local(text)


def _local(text: str | Path) -> Path:
    """Parse a local path. A `~` at its start is the home folder.

    Raises `UsageError` if it looks like an address, or if no file can have this name.
    """
    name = str(text)
    if _ALMOST.match(name):
        kind = name.partition(":")[0]
        raise UsageError(
            "an address needs two slashes", got=f"{kind}:…", allowed=f"{kind}://bucket/path", fix="add one"
        )
    try:
        name.encode()
        if "\0" in name:
            raise UnicodeError
    except UnicodeError:
        raise UsageError("a name that is not UTF-8 text", got=ascii(name), fix="rename the file or folder") from None
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise UsageError("no such home folder", got=name.partition("/")[0], fix="write the full path") from error
