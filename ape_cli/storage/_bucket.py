"""A bucket of an object store: how it is reached, and what a user is told when it is not."""

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
OPTIONS = {"s3": _BOTH | {"region": ()}, "gs": _BOTH}  # of an address, with their values where these are few
_ATTEMPTS, _CONNECT, _SILENT = 4, 4.0, 5.0  # of a request to S3: how often; seconds to connect, and without a byte
_PATIENCE = 20.0  # seconds of attempts of a request to Google's


@dataclass(frozen=True)
class Bucket:
    """A bucket, and how it is reached: what the addresses in it share."""

    kind: str
    name: str
    query: str  # the options, as they were given

    @cached_property
    def guards(self) -> list[Callable[[Any], None]]:
        """Called with each object (a `Remote`) before and after its upload; they raise an error if a lease was lost."""
        return []

    @cached_property
    def system(self) -> Any:
        """The `pyarrow.fs.FileSystem`."""
        given = dict(parse_qsl(self.query))
        with explained(self):
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

CREDENTIALS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS to a key file, or run `gcloud auth application-default login`",
}
_REFUSED = ("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE", "EXPIRED_TOKEN", "status 403", "status 401",
            "PERMISSION_DENIED", "UNAUTHENTICATED", "OAuth2 access token")  # fmt: skip
_UNREACHABLE = ("NETWORK_CONNECTION", "curlCode", "CURL error", "UNAVAILABLE")


def _no_bucket(bucket: Bucket) -> PlaceError:
    return PlaceError("no such bucket", got=str(bucket), fix="create it first, or mend its name")


@contextmanager
def explained(bucket: Bucket) -> Iterator[None]:
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
            fix=f"see to the network; another server is named by ?endpoint_override=http://HOST:PORT{other}",
        )
    if "status 301" in said or "PERMANENT_REDIRECT" in said:
        return PlaceError(f"{bucket} is in another region", got=got, fix="name it with ?region=… or AWS_REGION")
    return PlaceError(f"{store} failed at {bucket}", got=got, fix="try again; the same command goes on")
