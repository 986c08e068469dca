"""Where datasets and results lie: a folder of this machine, or an address in an object store.

`of` reads what a user names. A folder is a `pathlib.Path`; `s3://bucket/path` and `gs://bucket/path` are a `Remote`,
which has the part of pathlib's names that the stages use, over `pyarrow.fs` (imported at the first request).

`s3://bucket/path?endpoint_override=http://localhost:9000` is another server than Amazon's, as the environment's
AWS_ENDPOINT_URL is; `OPTIONS` has what else may stand there. Credentials never do: they come from the usual
environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, the machine's role;
GOOGLE_APPLICATION_CREDENTIALS).

An object store has no folders: an address is one if names of objects go on from it, `mkdir` does nothing, and where
a file is removed pyarrow leaves an empty object `folder/`. It cannot rename: an object is uploaded whole
(`files.replacing`). It has no locks: see `lease.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias
from urllib.parse import parse_qsl

from ape_cli.core.errors import UsageError, pick
from ape_cli.storage._bucket import CREDENTIALS, KINDS, OPTIONS, Bucket
from ape_cli.storage.object_store import RemotePath

__all__ = ["RemotePath", "StoragePath", "storage_path"]

StoragePath: TypeAlias = Path | RemotePath


def storage_path(text: str | StoragePath) -> StoragePath:
    """The place that a user names. Raises `UsageError` for an address that is none."""
    if isinstance(text, RemotePath):
        return text
    if isinstance(text, Path) and text.parts[:1] in {(f"{kind}:",) for kind in KINDS}:
        raise UsageError("a Path cannot carry an address", got=text, fix="give it as a string")
    kind, separator, rest = str(text).partition("://")
    if not separator or not kind.isalnum():
        return Path(text)
    if kind not in KINDS:
        known = "a folder, s3://bucket/path, gs://bucket/path"
        raise UsageError("unknown kind of address", got=text, allowed=known, fix="use one of those")
    path, _, query = rest.partition("?")
    parts = [part for part in path.split("/") if part]
    if not parts or path.startswith("/"):
        raise UsageError("the address names no bucket", got=text, allowed=f"{kind}://bucket/path", fix="add it")
    if "@" in parts[0]:
        raise UsageError(
            "credentials do not belong into an address, which is stored and shown",
            got=f"{kind}://…@{path.partition('@')[2]}",
            fix=f"{CREDENTIALS[kind]}, and leave them out here",
        )
    for key, value in parse_qsl(query, keep_blank_values=True):
        allowed = OPTIONS[kind][pick(f"option of {kind}:// addresses", key, OPTIONS[kind])]
        if allowed:
            pick(f"value of {key}", value, allowed)
    return RemotePath(Bucket(kind, parts[0], query), "/".join(parts))
