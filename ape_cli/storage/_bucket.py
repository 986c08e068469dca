"""Buckets of object stores: how they are connected, and how their errors are explained to the user."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl

from ape_cli.core.errors import ApeError, PlaceError

KINDS = {"s3": "S3", "gs": "Google Cloud Storage"}
_BOTH: dict[str, tuple[str, ...]] = {
    "endpoint_override": (),
    "scheme": ("http", "https"),
    "anonymous": ("true", "false"),
}
OPTIONS = {"s3": _BOTH | {"region": ()}, "gs": _BOTH}  # option of an address -> allowed values; () allows any value
_ATTEMPTS, _CONNECT, _SILENT = 4, 4.0, 5.0  # per S3 request: attempts; seconds to connect; seconds without data
_PATIENCE = 20.0  # seconds for all attempts of one request to Google Cloud Storage


@dataclass(frozen=True)
class Bucket:
    """A bucket and its connection options, which all paths in it share.

    A `Bucket` can be pickled; the other process opens its own connection.
    """

    kind: str
    name: str
    query: str  # the options of the address, as given

    @cached_property
    def guards(self) -> list[Callable[[Any], None]]:
        """Functions that are called with each `RemotePath` before and after its upload.

        They raise an error if a lease was lost.
        """
        return []

    @cached_property
    def system(self) -> Any:
        """The `pyarrow.fs.FileSystem`, connected at first use. Raises `PlaceError` if that fails."""
        given = dict(parse_qsl(self.query))
        with explained(self):
            return _s3(self.name, given) if self.kind == "s3" else _gcs(given)

    def check(self) -> None:
        """Raise `PlaceError` if the bucket does not exist.

        The store is asked only once per `Bucket`, and callers use this only when an object is missing.
        """
        _ = self._exists

    @cached_property
    def _exists(self) -> bool:
        """True, also if the store does not allow the question. Raises `PlaceError` if the bucket does not exist."""
        try:
            kind = self.system.get_file_info(self.name).type.name
        except OSError:  # the credentials may not allow this question
            return True
        if kind == "NotFound":
            raise _no_bucket(self)
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the address, so that another process opens its own connection."""
        return Bucket, (self.kind, self.name, self.query)

    def __str__(self) -> str:
        """The address of the bucket, without options."""
        return f"{self.kind}://{self.name}"


def _s3(bucket: str, given: dict[str, str]) -> Any:
    """Connect to S3. `given` are the options of the address; the environment variables of AWS come second."""
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
    """Connect to Google Cloud Storage. `given` are the options of the address."""
    from datetime import timedelta

    from pyarrow import fs

    scheme, separator, host = given.get("endpoint_override", "").rpartition("://")
    return fs.GcsFileSystem(
        endpoint_override=host or None,
        scheme=scheme if separator else given.get("scheme"),
        anonymous=given.get("anonymous") == "true",
        retry_time_limit=timedelta(seconds=_PATIENCE),
    )


# Errors -------------------------------------------------------------------------------------------

CREDENTIALS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS to a key file, or run `gcloud auth application-default login`",
}
_REFUSED = ("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE", "EXPIRED_TOKEN", "status 403", "status 401",
            "PERMISSION_DENIED", "UNAUTHENTICATED", "OAuth2 access token")  # fmt: skip
_UNREACHABLE = ("NETWORK_CONNECTION", "curlCode", "CURL error", "UNAVAILABLE")


def _no_bucket(bucket: Bucket) -> PlaceError:
    """The error for a bucket that does not exist."""
    return PlaceError("no such bucket", got=str(bucket), fix="create it, or correct its name")


@contextmanager
def explained(bucket: Bucket) -> Iterator[None]:
    """Turn the errors of the object store in this block into errors of ours.

    A missing object stays a `FileNotFoundError`.

    Raises `PlaceError` for any other `OSError`, and for a missing object if its bucket does not exist either.
    """
    try:
        yield
    except FileNotFoundError:
        bucket.check()
        raise
    except OSError as error:
        raise _explanation(bucket, str(error).splitlines()[0]) from error


def _explanation(bucket: Bucket, said: str) -> ApeError:
    """The error for the message `said` of the store's SDK."""
    # the cause is at the end of the SDK's message; the rest only names the SDK call that failed
    got = said.rpartition("Details: ")[2].partition(" (Request ID")[0].partition(" error_info=")[0]
    store = KINDS[bucket.kind]
    if "NO_SUCH_BUCKET" in said:
        return _no_bucket(bucket)
    if any(word in said for word in _REFUSED):
        rights = "credentials that may list, read, write and delete there"
        return PlaceError(f"{store} refuses {bucket}", got=got, allowed=rights, fix=CREDENTIALS[bucket.kind])
    if any(word in said for word in _UNREACHABLE):
        other = " or by AWS_ENDPOINT_URL" if bucket.kind == "s3" else ""
        return PlaceError(
            f"the object store of {bucket} cannot be reached",
            got=got,
            fix=f"check the network; for another server add ?endpoint_override=http://HOST:PORT{other}",
        )
    if "status 301" in said or "PERMANENT_REDIRECT" in said:
        return PlaceError(f"{bucket} is in another region", got=got, fix="name it with ?region=… or AWS_REGION")
    return PlaceError(f"{store} failed at {bucket}", got=got, fix="run the same command again to continue")
