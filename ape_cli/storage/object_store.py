"""Object stores: buckets, how their errors are explained to the user, and paths with an interface like `pathlib.Path`.

All requests go through obstore, the Python package of the Rust library object_store. It is an optional dependency (the
extra `cloud`), is imported at the first request, and repeats requests that got no answer.
"""

from __future__ import annotations

import errno
import io
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, fields
from datetime import timedelta
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias
from urllib.parse import parse_qsl

from ape_cli.core.errors import ApeError, PlaceError, cannot_write
from ape_cli.core.extras import how_to_install

KINDS = {"s3": "S3", "gs": "Google Cloud Storage"}
CREDENTIALS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS to a key file, or run `gcloud auth application-default login`",
}
_BOTH: dict[str, tuple[str, ...]] = {
    "endpoint_override": (),
    "scheme": ("http", "https"),
    "anonymous": ("true", "false"),
}
OPTIONS = {"s3": _BOTH | {"region": ()}, "gs": _BOTH}  # option of an address -> allowed values; () allows any value
_CONNECTING = timedelta(seconds=5)
_SILENCE = timedelta(minutes=1)  # without any answer of the server, also while it is sent data
_LONGEST = timedelta(minutes=10)  # of one request, with all data that it transfers
_RETRIES = {"max_retries": 6, "retry_timeout": timedelta(seconds=15)}  # no request is repeated after this time
_BUFFER = 8 << 20  # bytes per request when an object is read sequentially
_FOLDER = "folder"  # stands for a folder where a file has a `Stat`

# the version that an object has, for a conditional write; `create` if there is no object
Version: TypeAlias = dict[str, Any] | Literal["create"]


class ConflictError(ApeError):
    """The stored object is not the version that a conditional write expects."""


@dataclass(frozen=True)
class Bucket:
    """A bucket and its connection options, which all paths in it share.

    A `Bucket` can be pickled; the other process opens its own connection.
    """

    provider: str
    name: str
    query: str  # the options of the address, as given
    at_once: ClassVar[int] = 16  # requests

    @cached_property
    def store(self) -> Any:
        """The obstore store. Raises `PlaceError` if it cannot be made."""
        with self._requests():
            make, config = (_s3 if self.provider == "s3" else _gcs)(dict(parse_qsl(self.query)))
            client = {"allow_http": True, "connect_timeout": _CONNECTING, "read_timeout": _SILENCE, "timeout": _LONGEST}
            return make(self.name, client_options=client, retry_config=_RETRIES, **config)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the fields, so that another process opens its own connection."""
        return type(self), tuple(getattr(self, item.name) for item in fields(self))

    def __str__(self) -> str:
        """The address of the bucket, without options."""
        return f"{self.provider}://{self.name}"

    # Requests for the object `key`. Each raises `FileNotFoundError` if there is no such object, and `PlaceError` if the
    # request fails.

    def head(self, key: str) -> Any:
        """The metadata of the object: `size`, `last_modified`, `e_tag` and `version`."""
        with self._requests(key) as obstore:
            return obstore.head(self.store, key)

    def read(self, key: str, limit: int | None = None) -> bytes:
        """The content of the object. Raises `OSError` if it has more than `limit` bytes."""
        with self._requests(key) as obstore:
            response = obstore.get(self.store, key)
            if limit is not None and response.meta["size"] > limit:
                raise too_large(f"{self}/{key}", limit)
            return bytes(response.bytes())

    def read_range(self, key: str, start: int, end: int, e_tag: str) -> bytes:
        """The bytes from `start` to before `end`. Raises `ConflictError` if the object was replaced since."""
        with self._requests(key) as obstore:
            options = {"range": (start, end), "if_match": e_tag}
            return bytes(obstore.get(self.store, key, options=options).bytes())

    def opened(self, key: str) -> io.RawIOBase:
        """The object for random access. Each read is a request for a range of bytes."""
        return _Reader(self, key)

    def download(self, key: str, local: Path) -> None:
        """Write the content of the object to a local file."""
        with self._requests(key) as obstore, local.open("wb") as file:
            for chunk in obstore.get(self.store, key):
                file.write(chunk)

    def list_folder(self, key: str) -> tuple[list[str], list[Any]]:
        """The keys of the folders in a folder, and the metadata of its objects, which also have a `path`."""
        with self._requests() as obstore:
            listing = obstore.list_with_delimiter(self.store, key or None)
        return listing["common_prefixes"], listing["objects"]

    def is_folder(self, key: str) -> bool:
        """Whether the names of objects continue below `key`."""
        with self._requests() as obstore:
            page: Any = next(iter(obstore.list(self.store, key or None)), [])
        return any(entry["path"] != key for entry in page)

    def put(self, key: str, local: Path, expected: Version | None = None) -> None:
        """Upload a local file, as `RemotePath.replacing` describes."""
        options: Any = {} if expected is None else {"mode": expected, "use_multipart": False}
        try:
            with self._requests(key if isinstance(expected, dict) else "") as obstore:
                obstore.put(self.store, key, local, **options)
        except FileNotFoundError as error:
            raise self._conflict() from error

    def copy(self, key: str, target: str) -> None:
        """Copy the object to the key `target`. The store does so itself."""
        with self._requests(key) as obstore:
            obstore.copy(self.store, key, target)

    def delete(self, key: str) -> None:
        """Remove the object, which need not exist."""
        with suppress(FileNotFoundError), self._requests(key) as obstore:  # Google's store raises it, S3 does not
            obstore.delete(self.store, key)

    @contextmanager
    def _requests(self, key: str = "") -> Iterator[Any]:
        """Yield the package obstore, and turn its errors into errors of ours.

        A missing object, whose name is `key`, stays a `FileNotFoundError`. Without `key`, the bucket is missing.

        Raises `ConflictError` if a condition of a write is not met, and `PlaceError` for any other error of obstore, or
        if it is not installed.
        """
        try:
            import obstore
            from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
        except ImportError as error:
            what = "addresses of object stores need the package obstore, which is not installed"
            raise PlaceError(what, got=str(self), allowed="a local folder", fix=how_to_install("cloud")) from error
        try:
            yield obstore
        except FileNotFoundError as error:
            if not key:
                raise self._failed("no such bucket") from error
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{self}/{key}") from error
        except (AlreadyExistsError, PreconditionError) as error:
            raise self._conflict() from error
        except ApeError:
            raise
        except (BaseError, ValueError) as error:  # a ValueError is about the settings, or the name of the object
            raise self._failed(str(error)) from error

    def _conflict(self) -> ConflictError:
        """The error that an object is not as a conditional write expects."""
        return ConflictError("another process writes the same object", got=str(self), fix="run the same command again")

    def _failed(self, message: str) -> PlaceError:
        """The error for a request that failed with this message of obstore."""
        line = message.splitlines()[0].rpartition(" - ")[2] if message else "no message"
        code = re.search(r"<Code>(\w+)</Code>", message)
        server = "?endpoint_override=http://HOST:PORT" + " or AWS_ENDPOINT_URL, AWS_REGION" * (self.provider == "s3")
        got = f"{line.partition(': <')[0]}{f' ({code[1]})' if code else ''}"
        fix = f"check the network, the bucket, its server ({server}) and the credentials ({CREDENTIALS[self.provider]})"
        return PlaceError(f"a request to {KINDS[self.provider]} failed at {self}", got=got, fix=fix)


class _Reader(io.RawIOBase):
    """An object that is read by ranges of bytes. All of them are of the same version."""

    def __init__(self, bucket: Bucket, key: str) -> None:
        """Ask for the size and the version of the object. Raises `FileNotFoundError` if it does not exist."""
        metadata = bucket.head(key)
        self._bucket, self._key, self._offset = bucket, key, 0
        self._size, self._e_tag = metadata["size"], metadata["e_tag"]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._offset, os.SEEK_END: self._size}[whence]
        self._offset = max(0, offset + start)
        return self._offset

    def readinto(self, buffer: Any) -> int:
        """Read all that fits into `buffer`, or all that is left. Raises an error if the object was replaced."""
        end = min(self._offset + len(buffer), self._size)
        if end <= self._offset:
            return 0
        data = self._bucket.read_range(self._key, self._offset, end, self._e_tag)
        buffer[: len(data)] = memoryview(data)
        self._offset += len(data)
        return len(data)


def _s3(options: dict[str, str]) -> tuple[Any, dict[str, Any]]:
    """The class of an S3 store and its settings.

    `options` are those of the address; the environment variables of AWS come second, and its profile third.
    """
    from obstore.store import S3Store

    # obstore reads all variables of AWS itself, so what an address says is set even if it is the default
    config: dict[str, Any] = {"conditional_put": "etag"}
    if "anonymous" in options:
        config["skip_signature"] = options["anonymous"] == "true"
    region = options.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if options.get("anonymous") != "true" and _has_profile():
        config["credential_provider"] = profile = _profile()
        region = region or profile.config.get("region")
    if endpoint := options.get("endpoint_override"):
        config["aws_endpoint_url_s3"] = _with_scheme(endpoint, options)
    config["region"] = region or "us-east-1"
    return S3Store, config


def _has_profile() -> bool:
    """Whether credentials come from a profile: one is named, or the environment has no keys and a file has some."""
    files = {"AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials", "AWS_CONFIG_FILE": "~/.aws/config"}
    there = any(Path(os.environ.get(name, usual)).expanduser().is_file() for name, usual in files.items())
    return "AWS_PROFILE" in os.environ or (there and "AWS_ACCESS_KEY_ID" not in os.environ)


def _profile() -> Any:
    """Credentials from the profile of AWS, by boto3. Raises `PlaceError` if boto3 is missing or finds none."""
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        got = os.environ.get("AWS_PROFILE", "the profile `default`")
        fix = f"{how_to_install('aws')}, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        raise PlaceError("an AWS profile needs the package boto3", got=got, fix=fix) from error
    from botocore.exceptions import BotoCoreError

    try:
        return Boto3CredentialProvider()
    except (BotoCoreError, ValueError) as error:  # obstore raises ValueError if there are no credentials
        raise PlaceError("no credentials for S3", got=error, fix=CREDENTIALS["s3"]) from error


def _gcs(options: dict[str, str]) -> tuple[Any, dict[str, Any]]:
    """The class of a store of Google and its settings. `options` are those of the address."""
    from obstore.store import GCSStore

    config: dict[str, Any] = {}
    if options.get("anonymous") == "true":  # without a provider, writing asks for the role of the machine
        config = {"skip_signature": True, "credential_provider": lambda: {"token": "anonymous", "expires_at": None}}
    if endpoint := options.get("endpoint_override"):
        config["base_url"] = _with_scheme(endpoint, options)
    return GCSStore, config


def _with_scheme(endpoint: str, options: dict[str, str]) -> str:
    """The URL of a server that was named with or without its scheme."""
    return endpoint if "://" in endpoint else f"{options.get('scheme', 'https')}://{endpoint}"


class Stat(NamedTuple):
    """Size and modification time of an object."""

    st_size: int  # bytes
    st_mtime_ns: int  # by the store's clock


@dataclass(frozen=True)
class RemotePath:
    """A path in an object store. Each method does what the `pathlib.Path` method of the same name does.

    Differences that object stores require are described at the methods.

    Raises `PlaceError` from every method that sends a request, if the request fails for another reason than a missing
    object. A missing object is a `FileNotFoundError`, as in pathlib.
    """

    bucket: Bucket
    path: str  # the bucket's name, "/", and the name of the object
    _listed: Stat | str | None = field(default=None, compare=False, repr=False)  # as `iterdir` has listed it

    def __str__(self) -> str:
        """The address, including its options, as a user would write it."""
        return f"{self.bucket}/{self.key}".rstrip("/") + (f"?{self.bucket.query}" if self.bucket.query else "")

    @property
    def name(self) -> str:
        """The last component of the path."""
        return self.path.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The file extension of the last component, with its dot."""
        return PurePosixPath(self.name).suffix

    @property
    def parent(self) -> RemotePath:
        """The path without its last component; the bucket is its own parent."""
        return RemotePath(self.bucket, self.path.rpartition("/")[0] or self.path)

    def __truediv__(self, more: str) -> RemotePath:
        """Append the components of `more`."""
        return RemotePath(self.bucket, "/".join([self.path, *(part for part in more.split("/") if part)]))

    def with_name(self, name: str) -> RemotePath:
        """The path with its last component replaced by `name`."""
        return self.parent / name

    def resolve(self) -> RemotePath:
        """The path itself: addresses are always absolute."""
        return self

    @property
    def key(self) -> str:
        """The name of the object in its bucket."""
        return self.path.partition("/")[2]

    def exists(self) -> bool:
        """Whether there is an object at this path, or one below it."""
        return self._ask() is not None

    def is_file(self) -> bool:
        """Whether there is an object at this path."""
        return isinstance(self._listed or self._ask(), Stat)

    def is_dir(self) -> bool:
        """Whether the names of objects continue below this path."""
        return (self._listed or self._ask()) == _FOLDER

    def is_symlink(self) -> bool:
        """False."""
        return False

    def stat(self) -> Stat:
        """Size and modification time. Raises `FileNotFoundError` if there is no object at this path."""
        return self._listed if isinstance(self._listed, Stat) else _stat(self.bucket.head(self.key))

    def iterdir(self) -> Iterator[RemotePath]:
        """List the folder; the result is empty if the folder does not exist.

        Other programs store an empty object `folder/` for a folder. It is left out. Each path remembers what the
        listing says about it, so `is_file`, `is_dir` and `stat` of it do not ask again.
        """
        folders, objects = self.bucket.list_folder(self.key)
        entries: dict[str, Stat | str] = dict.fromkeys(folders, _FOLDER)
        entries |= {entry["path"]: _stat(entry) for entry in objects if entry["path"] != self.key}
        return (RemotePath(self.bucket, f"{self.bucket.name}/{key}", entry) for key, entry in entries.items())

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """Find paths that match `pattern`. Wildcards match within one component; `**` is not supported."""
        first, _, rest = pattern.partition("/")
        for entry in (e for e in self.iterdir() if fnmatch(e.name, first)):
            if not rest:
                yield entry
            elif entry.is_dir():
                yield from entry.glob(rest)

    def source(self) -> io.RawIOBase:
        """Open the object for random access. Each read is a request for a range of bytes."""
        return self.bucket.opened(self.key)

    def read_bytes(self, limit: int | None = None) -> bytes:
        """The content of the object. Raises `OSError` if it has more than `limit` bytes."""
        return self.bucket.read(self.key, limit)

    def read_text(self, encoding: str) -> str:
        """The content of the object, decoded with `encoding`."""
        return self.read_bytes().decode(encoding)

    def copy(self, target: RemotePath) -> None:
        """Copy the object within its bucket. Raises `FileNotFoundError` if there is none."""
        self.bucket.copy(self.key, target.key)

    def unlink(self, missing_ok: bool = True) -> None:
        """Remove the object. It need not exist."""
        self.bucket.delete(self.key)

    def mkdir(self, parents: bool = True, exist_ok: bool = True) -> None:
        """Do nothing: a folder exists as soon as there is an object in it."""

    def rmdir(self) -> None:
        """Do nothing: a folder disappears with its last object."""

    def _ask(self) -> Stat | str | None:
        """What is at this path: an object, a folder, or None. Raises `PlaceError` if there is no such bucket."""
        if self.key:
            with suppress(FileNotFoundError):
                return _stat(self.bucket.head(self.key))
        return _FOLDER if self.bucket.is_folder(self.key) else None

    # What `files` needs. Its functions say what each method does.

    @property
    def at_once(self) -> int:
        """How many requests run at once."""
        return self.bucket.at_once

    @contextmanager
    def replacing(self, expected: Version | None) -> Iterator[Path]:
        """Upload the file when the block ends. The object appears only when the upload is complete.

        With `expected`, the store carries out the upload only if the object has this version. Such an upload is one
        request, of at most 5 GiB on S3. Raises `ConflictError` if the object has another version, or was removed.
        """
        with self._copy() as temporary:
            yield temporary
            self.bucket.put(self.key, temporary, expected)

    @contextmanager
    def local(self) -> Iterator[Path]:
        """Download the object."""
        with self._copy() as copy:
            self.bucket.download(self.key, copy)
            yield copy

    @contextmanager
    def _copy(self) -> Iterator[Path]:
        """Yield a path on this machine, whose file is removed after the block."""
        try:
            with tempfile.TemporaryDirectory(prefix="ape-") as temporary:
                yield Path(temporary, self.name)
        except FileNotFoundError:  # there is no such object
            raise
        except OSError as error:
            raise cannot_write(error.filename or self, error) from error

    def open(self) -> io.BufferedReader:
        """Open the object for sequential reads."""
        return io.BufferedReader(self.source(), _BUFFER)

    def version(self) -> Version:
        """The version of the object, for a conditional upload."""
        try:
            metadata = self.bucket.head(self.key)
        except FileNotFoundError:
            return "create"
        return {name: metadata[name] for name in ("e_tag", "version") if metadata[name] is not None}

    def held(self, busy: ApeError, wait: float) -> AbstractContextManager[None]:
        """Every process gets the lock."""
        return nullcontext()

    def is_locked(self) -> bool:
        """False."""
        return False

    def remove_temporary(self) -> None:
        """Do nothing: there are no temporary files."""


def too_large(path: object, limit: int) -> OSError:
    """The error for a file of more than `limit` bytes."""
    return OSError(errno.EINVAL, f"it has more than {limit:,} bytes", str(path))


def _stat(metadata: Any) -> Stat:
    """Size and modification time from the metadata of an object."""
    return Stat(metadata["size"], int(metadata["last_modified"].timestamp() * 10**6) * 1000)
