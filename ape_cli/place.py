"""Where datasets and results lie: a folder of this machine, or an address in an object store.

`of` reads what a user names. A folder is a `pathlib.Path`; `s3://bucket/path` and `gs://bucket/path` are a `Remote`,
which has the part of pathlib's names that the stages use, over `pyarrow.fs` (imported at the first request).

`s3://bucket/path?endpoint_override=http://localhost:9000` is another server than Amazon's, as the environment's
AWS_ENDPOINT_URL is; `_OPTIONS` has what else may stand there. Credentials never do: they come from the usual
environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, the machine's role;
GOOGLE_APPLICATION_CREDENTIALS).

An object store has no folders: an address is one if names of objects go on from it, `mkdir` does nothing, and where
a file is removed pyarrow leaves an empty object `folder/`. It cannot rename: an object is uploaded whole
(`files.replacing`). It has no locks: see `lease.py`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl

from ape_cli.errors import ApeError, PlaceError, UsageError, pick

_KINDS = {"s3": "S3", "gs": "Google Cloud Storage"}
_OPTIONS = ("endpoint_override", "scheme", "region", "anonymous")
_BUFFER = 8 << 20  # bytes of a request where a whole object is read from its beginning
_ATTEMPTS, _CONNECT, _SILENT = 4, 4.0, 5.0  # of a request to S3: how often; seconds to connect, and without a byte
_PATIENCE = 20.0  # seconds of attempts of a request to Google's


def of(text: str | Place) -> Place:
    """The place that a user names. Raises `UsageError` for an address that is none."""
    if isinstance(text, Remote):
        return text
    if isinstance(text, Path) and text.parts[:1] in {(f"{kind}:",) for kind in _KINDS}:
        raise UsageError("a Path cannot carry an address", got=text, fix="give it as a string")
    kind, separator, rest = str(text).partition("://")
    if not separator or not kind.isalnum():
        return Path(text)
    if kind not in _KINDS:
        allowed = "a folder, s3://bucket/path, gs://bucket/path"
        raise UsageError("unknown kind of address", got=text, allowed=allowed, fix="use one of those")
    path, _, query = rest.partition("?")
    parts = [part for part in path.split("/") if part]
    if not parts or path.startswith("/"):
        raise UsageError("the address names no bucket", got=text, allowed=f"{kind}://bucket/path", fix="add it")
    if "@" in parts[0]:
        raise UsageError(
            "credentials do not belong into an address, which is stored and shown",
            got=f"{kind}://…@{path.partition('@')[2]}",
            fix=f"{_CREDENTIALS[kind]}, and leave them out here",
        )
    for key, value in parse_qsl(query, keep_blank_values=True):
        pick("option of an address", key, _OPTIONS)
        if key == "anonymous":
            pick("value of anonymous", value, ("true", "false"))
    return Remote(Bucket(kind, parts[0], query), "/".join(parts))


@dataclass(frozen=True)
class Bucket:
    """A bucket, and how it is reached: what the addresses in it share."""

    kind: str
    name: str
    query: str  # the options, as they were given

    @cached_property
    def guards(self) -> list[Callable[[Remote], None]]:
        """Called with each object before and after it is uploaded: where a lease was lost, they raise an error."""
        return []

    @cached_property
    def system(self) -> Any:
        """The `pyarrow.fs.FileSystem`."""
        given = dict(parse_qsl(self.query))
        with _explained(self):
            return _s3(self.name, given) if self.kind == "s3" else _gcs(given)

    def check(self) -> None:
        """Raise `PlaceError` if there is no such bucket. Asked once, and only where something is missing."""
        _ = self._exists

    @cached_property
    def _exists(self) -> bool:
        try:
            kind = self.system.get_file_info(self.name).type.name
        except OSError:  # not for us to ask
            return True
        if kind == "NotFound":
            raise _no_bucket(self)
        return True

    def __reduce__(self) -> tuple[Any, ...]:  # another process connects itself
        return Bucket, (self.kind, self.name, self.query)

    def __str__(self) -> str:
        return f"{self.kind}://{self.name}"


class Stat(NamedTuple):
    """Of an object."""

    st_size: int  # bytes
    st_mtime_ns: int  # by the store's clock


@dataclass(frozen=True)
class Remote:
    """An address; a method is what pathlib's of the same name is, as far as an object store has it.

    All that fails for another reason than a missing object is a `PlaceError`.
    """

    bucket: Bucket
    path: str  # the bucket's name, and the object's behind it
    _found: Any = field(default=None, compare=False, repr=False)  # by `iterdir`, so that nobody asks again

    def __str__(self) -> str:
        return f"{self.bucket.kind}://{self.path}" + (f"?{self.bucket.query}" if self.bucket.query else "")

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix

    @property
    def parent(self) -> Remote:
        return Remote(self.bucket, self.path.rpartition("/")[0] or self.path)

    def __truediv__(self, more: str) -> Remote:
        return Remote(self.bucket, "/".join([self.path, *(part for part in more.split("/") if part)]))

    def with_name(self, name: str) -> Remote:
        return self.parent / name

    def resolve(self) -> Remote:
        return self

    def exists(self) -> bool:
        return self._kind(self._ask()) != "NotFound"

    def is_file(self) -> bool:
        return self._kind(self._found or self._ask()) == "File"

    def is_dir(self) -> bool:
        return self._kind(self._found or self._ask()) == "Directory"

    def stat(self) -> Stat:
        about = self._found or self._ask()
        if self._kind(about) != "File":
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        return Stat(about.size, about.mtime_ns)

    def iterdir(self) -> Iterator[Remote]:
        """What is in it, nothing if it is not there; each as it is now, even if it is asked later."""
        from pyarrow.fs import FileSelector

        with _explained(self.bucket):
            found = self.bucket.system.get_file_info(FileSelector(self.path, allow_not_found=True))
        if not found:
            self.bucket.check()
        return (Remote(self.bucket, about.path, about) for about in found)

    def glob(self, pattern: str) -> Iterator[Remote]:
        """`*` and the like within a name; no `**`."""
        first, _, rest = pattern.partition("/")
        for entry in (e for e in self.iterdir() if fnmatch(e.name, first)):
            if not rest:
                yield entry
            elif entry.is_dir():
                yield from entry.glob(rest)

    def open(self, mode: str = "rb") -> Any:
        """To read it once, from its beginning."""
        assert mode == "rb"
        with _explained(self.bucket):
            return self.bucket.system.open_input_stream(self.path, compression=None, buffer_size=_BUFFER)

    def opened(self) -> Any:
        """To read parts of it, each by a request for its range."""
        with _explained(self.bucket):
            return self.bucket.system.open_input_file(self.path)

    def read_bytes(self) -> bytes:
        with _explained(self.bucket), self.bucket.system.open_input_file(self.path) as file:
            return file.read()

    def read_text(self, encoding: str) -> str:
        return self.read_bytes().decode(encoding)

    def write_bytes(self, data: bytes) -> None:
        with _explained(self.bucket), self.bucket.system.open_output_stream(self.path) as file:
            file.write(data)

    def upload(self, local: Path) -> None:
        """All of a file as this object. It is there when it is complete, and not before."""
        self._guard()
        self._copy(str(local), None, self.path, self.bucket.system)
        if (size := self._ask().size) != local.stat().st_size:
            raise PlaceError(f"{self} was not stored whole", got=f"{size} bytes", fix="try again")
        self._guard()

    def _guard(self) -> None:
        for guard in self.bucket.guards:
            guard(self)

    def download(self, local: Path) -> None:
        self._copy(self.path, self.bucket.system, str(local), None)

    def _copy(self, source: str, from_system: Any, target: str, to_system: Any) -> None:
        """In Arrow's own code, where no Ctrl-C comes in between: closed there, half an object would be a whole one."""
        from pyarrow.fs import LocalFileSystem, copy_files

        disk = LocalFileSystem()
        with _explained(self.bucket):
            copy_files(source, target, source_filesystem=from_system or disk, destination_filesystem=to_system or disk)

    def unlink(self, missing_ok: bool = False) -> None:
        try:
            with _explained(self.bucket):
                self.bucket.system.delete_file(self.path)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def mkdir(self, parents: bool = True, exist_ok: bool = True) -> None:
        """Nothing: a folder is there with what is in it."""

    def rmdir(self) -> None:
        """Remove what is left of an empty folder."""
        if self.path == self.bucket.name or any(self.iterdir()):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(self))
        with _explained(self.bucket):
            self.bucket.system.delete_dir(self.path)

    def _ask(self) -> Any:
        with _explained(self.bucket):
            return self.bucket.system.get_file_info(self.path)

    def _kind(self, about: Any) -> str:
        kind: str = about.type.name
        if kind == "NotFound":
            self.bucket.check()
        return kind


Place: TypeAlias = Path | Remote


def _s3(bucket: str, given: dict[str, str]) -> Any:
    from pyarrow import fs

    environment = os.environ.get
    endpoint = given.get("endpoint_override") or environment("AWS_ENDPOINT_URL_S3") or environment("AWS_ENDPOINT_URL")
    region = given.get("region") or environment("AWS_REGION") or environment("AWS_DEFAULT_REGION")
    return fs.S3FileSystem(
        endpoint_override=endpoint,
        scheme=given.get("scheme"),
        region=region or ("us-east-1" if endpoint else fs.resolve_s3_region(bucket)),
        anonymous=given.get("anonymous") == "true",
        connect_timeout=_CONNECT,
        request_timeout=_SILENT,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
    )


def _gcs(given: dict[str, str]) -> Any:
    from datetime import timedelta

    from pyarrow import fs

    scheme, separator, host = given.get("endpoint_override", "").rpartition("://")
    return fs.GcsFileSystem(
        endpoint_override=host or None,
        scheme=scheme if separator else given.get("scheme"),
        anonymous=given.get("anonymous") == "true",
        retry_time_limit=timedelta(seconds=_PATIENCE),
    )


# What a user is told ------------------------------------------------------------------------------

_CREDENTIALS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS to a key file, or run `gcloud auth application-default login`",
}
_REFUSED = ("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE", "EXPIRED_TOKEN", "status 403", "status 401",
            "PERMISSION_DENIED", "UNAUTHENTICATED", "OAuth2 access token")  # fmt: skip
_UNREACHABLE = ("NETWORK_CONNECTION", "curlCode", "CURL error", "UNAVAILABLE")


def _no_bucket(bucket: Bucket) -> PlaceError:
    return PlaceError("no such bucket", got=str(bucket), fix="create it first, or mend its name")


@contextmanager
def _explained(bucket: Bucket) -> Iterator[None]:
    """A store's error as one of ours. A missing object stays a FileNotFoundError, if its bucket is there."""
    try:
        yield
    except FileNotFoundError:
        bucket.check()
        raise
    except OSError as error:
        raise _explanation(bucket, str(error).splitlines()[0]) from error


def _explanation(bucket: Bucket, said: str) -> ApeError:
    # the SDK's sentence ends with what was wrong; the rest is which call of it failed
    got = said.rpartition("Details: ")[2].partition(" (Request ID")[0].partition(" error_info=")[0]
    store = _KINDS[bucket.kind]
    if "NO_SUCH_BUCKET" in said:
        return _no_bucket(bucket)
    if any(word in said for word in _REFUSED):
        rights = "credentials that may list, read, write and delete there"
        return PlaceError(f"{store} refuses {bucket}", got=got, allowed=rights, fix=_CREDENTIALS[bucket.kind])
    if any(word in said for word in _UNREACHABLE):
        other = " or by AWS_ENDPOINT_URL" if bucket.kind == "s3" else ""
        return PlaceError(
            f"the object store of {bucket} cannot be reached",
            got=got,
            fix=f"see to the network; another server is named by ?endpoint_override=http://HOST:PORT{other}",
        )
    if "status 301" in said or "PERMANENT_REDIRECT" in said:
        return PlaceError(f"{bucket} is in another region", got=got, fix="name it with ?region=… or AWS_REGION")
    return PlaceError(f"{store} failed at {bucket}", got=got, fix="try again; the same command goes on")
