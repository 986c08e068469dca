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
from ape_cli.core.errors import DataError, UsageError, pick
from ape_cli.storage.object_store import CREDENTIALS, KINDS, OPTIONS, Bucket, RemotePath

__all__ = ["LONGEST_NAME", "RemotePath", "StoragePath", "checked_name", "local_path", "storage_path"]

StoragePath: TypeAlias = Path | RemotePath

_ALMOST = re.compile(r"(s3|gs|gcs|https?|file|az|abfs):(/?[^/]|/?$)")
LONGEST_NAME = 200  # characters; file systems allow 255, and temporary files add to a name
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_BUCKET = re.compile(r"[A-Za-z0-9._-]{1,222}")


def storage_path(text: str | StoragePath) -> StoragePath:
    """Parse a local path or an address of an object store.

    `text` is a string, or a path that was parsed before, which is returned as it is. Nothing is requested from the
    object store.

    Raises `UsageError` if the address has an unknown kind, no bucket, credentials, an unknown option or an unknown
    value of an option, and for a name that looks like an address, such as an address that was given as a `Path`.
    """
    if isinstance(text, RemotePath):
        return text
    provider, separator, rest = str(text).partition("://")
    if not separator:
        return _local(text)
    if provider not in KINDS:
        allowed = "a folder, s3://bucket/path, gs://bucket/path"
        raise UsageError("unknown kind of address", got=_hidden(provider), allowed=allowed, fix="use one of those")
    path, _, query = rest.partition("?")
    parts = [part for part in path.split("/") if part]
    if escaping.redacted(unquote(str(text))) != unquote(str(text)):  # nothing of the address is shown
        what, fix = "an address must not contain credentials, because it is stored and shown", CREDENTIALS[provider]
        raise UsageError(what, got=f"{provider}://…", allowed=f"{provider}://bucket/path", fix=fix)
    if path.startswith("/") or not _BUCKET.fullmatch("".join(parts[:1])) or {".", ".."} & set(parts):
        allowed = f"{provider}://bucket/path, with letters, digits, hyphens, dots and underscores in the bucket's name"
        raise UsageError("this is not a valid address of an object", got=text, allowed=allowed, fix="correct it")
    for key, value in parse_qsl(query, keep_blank_values=True):
        if values := OPTIONS[provider][pick(f"option of {provider}:// addresses", key, OPTIONS[provider])]:
            pick(f"value of {key}", value, values)
    return RemotePath(Bucket(provider, parts[0], query), "/".join(parts))


def local_path(text: str | Path) -> Path:
    """Parse a path of this machine. Raises `UsageError` for an address."""
    provider, separator, _ = str(text).partition("://")
    if separator:
        raise UsageError("this must be a local path", got=_hidden(provider), fix="copy it here first")
    return _local(text)


def _local(text: str | Path) -> Path:
    """Parse a local path. A `~` at its start is the home folder. Raises `UsageError` if it looks like an address."""
    name = str(text)
    if _ALMOST.match(name):
        provider = name.partition(":")[0]
        fix = "write both slashes, and do not turn it into a pathlib.Path"
        raise UsageError(
            "an address needs two slashes", got=f"{provider}:…", allowed=f"{provider}://bucket/path", fix=fix
        )
    if name != name.encode(errors="ignore").decode():
        raise UsageError("a name that is not UTF-8 text", got=ascii(name), fix="rename the file or folder")
    return Path(text).expanduser()


def _hidden(provider: str) -> str:
    """An address that is not shown, because it may contain a secret."""
    return f"{provider if provider.isalnum() else '…'}://…"


def checked_name(what: str, name: str) -> str:
    """Return `name`, which is called `what` in errors, if a path may contain it as one component.

    Such a name has no separator, is not `.` or `..`, and does not hide a file. Raises `DataError` otherwise.

    >>> checked_name("task", "tree-copy")
    'tree-copy'
    >>> checked_name("task", "../copy")
    Traceback (most recent call last):
    ape_cli.core.errors.DataError: the task cannot be a part of a path
      got:     '../copy'
      allowed: at most 200 ASCII letters, digits, dots, hyphens and underscores; the first is a letter or a digit
      fix:     rename it
    """
    if len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
        allowed = (
            f"at most {LONGEST_NAME} ASCII letters, digits, dots, hyphens and underscores; "
            "the first is a letter or a digit"
        )
        got = ascii(name[:LONGEST_NAME])
        raise DataError(f"the {what} cannot be a part of a path", got=got, allowed=allowed, fix="rename it")
    return name
