"""Errors of object stores: which requests are repeated, and how the others are explained to the user."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from ape_cli.core.errors import ApeError, PlaceError

T = TypeVar("T")

KINDS = {"s3": "S3", "gs": "Google Cloud Storage"}
RETRIES = 4  # per request
CREDENTIALS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS to a key file, or run `gcloud auth application-default login`",
}
CREATE = "create it, or correct its name"
_REFUSED = (
    "status code: 403",
    "status code: 401",
    "<Code>AccessDenied",
    "code: AccessDenied",
    "<Code>InvalidAccessKeyId",
    "<Code>ExpiredToken",
    "<Code>InvalidToken",
)
_NO_CREDENTIALS = (
    "169.254.",
    "/latest/api/token",
    "metadata.google.internal",
    "token request",
)  # where a machine of a cloud has its role
_NO_BUCKET = ("<Code>NoSuchBucket", "The specified bucket does not exist")
_CLOCK = ("<Code>RequestTimeTooSkewed",)
_REGION = ("status code: 301", "redirect without LOCATION")
_NO_VERSIONS = ("ETag Header missing",)
_NOT_THERE = ("status code: 501",)  # the only requests of ours that a server may lack are conditional writes
_UNANSWERED = ("HTTP error", "error sending request", "error decoding response body", "operation timed out")
_TIMED_OUT = ("operation timed out", "kind: Timeout")
_REPEATED = ", after "  # in a message of obstore: it has repeated the request itself, as often as it may


class _Bucket(Protocol):
    """What the errors need to know about a bucket (`_bucket.Bucket`)."""

    @property
    def kind(self) -> str:
        """A key of `KINDS`."""

    def check(self) -> None:
        """Raise `PlaceError` if the bucket does not exist."""


def again(do: Callable[[], T]) -> T:
    """Call `do` until the store has answered, up to five times, and return its result.

    obstore itself repeats the requests that change nothing. It does not repeat others if the connection was lost,
    because the request may have been carried out; so `do` must have the same effect if it is called twice.

    Raises the error of the last call.
    """
    from obstore.exceptions import GenericError

    for attempt in range(RETRIES):
        try:
            return do()
        except GenericError as error:
            said = str(error)
            if _REPEATED in said or not any(word in said for word in _UNANSWERED):
                raise
            time.sleep(0.1 * 2**attempt)
    return do()


def is_over(said: str) -> bool:
    """Whether a failed request is over: its connection was closed, or the server has failed.

    It may have been carried out. A request that timed out is not over, because it may still arrive.
    """
    closed = any(word in said for word in _UNANSWERED) and not any(word in said for word in _TIMED_OUT)
    return closed or ("status code: 5" in said and not is_not_there(said))


def is_not_there(said: str) -> bool:
    """Whether a message of the server says that it does not have what was requested."""
    return any(word in said for word in _NOT_THERE)


def is_no_bucket(said: str) -> bool:
    """Whether a message of the store says that the bucket does not exist."""
    return any(word in said for word in _NO_BUCKET)


def no_bucket(bucket: _Bucket) -> PlaceError:
    """The error for a bucket that does not exist."""
    return PlaceError("no such bucket", got=str(bucket), fix=CREATE)


def unreachable(bucket: str, kind: str, said: str) -> PlaceError:
    """The error for a store that does not answer."""
    other = " or by AWS_ENDPOINT_URL" if kind == "s3" else ""
    return PlaceError(
        f"the object store of {bucket} cannot be reached",
        got=said,
        fix=f"check the network; for another server add ?endpoint_override=http://HOST:PORT{other}",
    )


def no_conditions(bucket: _Bucket) -> PlaceError:
    """The error for a store that has no conditional writes."""
    return PlaceError(
        f"{bucket} has no conditional writes, so two processes could not exclude each other",
        allowed="Amazon S3, Google Cloud Storage, or a server that knows If-None-Match and If-Match",
        fix="update the server, or use a folder",
    )


@contextmanager
def explained(bucket: _Bucket, key: str = "") -> Iterator[None]:
    """Turn the errors of the object store in this block into errors of ours.

    A missing object, whose name is `key`, stays a `FileNotFoundError`.

    Raises `PlaceError` for any other error of obstore, and for a missing object if its bucket does not exist either.
    """
    from obstore.exceptions import BaseError

    try:
        yield
    except FileNotFoundError as error:
        bucket.check()
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{bucket}/{key}") from error
    except ApeError:
        raise
    except (BaseError, ValueError) as error:  # a ValueError is about the settings, or the name of the object
        raise _explanation(bucket, str(error)) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # a bug of obstore; the class cannot be imported
            raise
        fix = "look for unusual characters in the options of the address and in the variables AWS_… or GOOGLE_…"
        raise PlaceError(f"the settings for {bucket} cannot be used", fix=fix) from None


def _explanation(bucket: _Bucket, said: str) -> PlaceError:
    """The error for the message `said` of obstore."""
    said = said.partition("\n\nDebug source:")[0]
    got, store, credentials = _cause(said), KINDS[bucket.kind], CREDENTIALS[bucket.kind]
    rights = "credentials that may list, read, write and delete there"
    known = [
        (_NO_BUCKET, no_bucket(bucket)),
        (_NO_CREDENTIALS, PlaceError(f"no credentials for {store}", got="none in the environment", fix=credentials)),
        (_CLOCK, PlaceError(f"the clocks of this machine and of {store} differ", got=got, fix="set the clock")),
        (_REFUSED, PlaceError(f"{store} refuses {bucket}", got=got, allowed=rights, fix=credentials)),
        (_UNANSWERED, unreachable(str(bucket), bucket.kind, got)),
        (_REGION, PlaceError(f"{bucket} is in another region", got=got, fix="name it with ?region=… or AWS_REGION")),
        (_NO_VERSIONS + _NOT_THERE, no_conditions(bucket)),
    ]
    other = PlaceError(f"{store} failed at {bucket}", got=got, fix="run the same command again to continue")
    return next((error for words, error in known if any(word in said for word in words)), other)


def _cause(said: str) -> str:
    """The cause of an error from the message `said` of obstore, without the request that failed."""
    line = said.splitlines()[0]
    _, answered, status = line.partition("Server returned non-2xx status code: ")
    if not answered:
        return line.rpartition(" - ")[2]
    code = re.search(r"<Code>(\w+)</Code>", said)
    return f"status code: {status.partition(': <')[0]}" + (f" ({code[1]})" if code else "")
