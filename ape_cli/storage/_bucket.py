"""Buckets of object stores: how they are connected, and how their errors are explained to the user.

All requests go through obstore, the Python package of the Rust library object_store. It is imported at the first
request, and repeats requests that got no answer.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from ape_cli.core.errors import ApeError, PlaceError
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
_SILENCE = timedelta(seconds=20)  # without any answer of the server, after which a request is given up
_LONGEST = timedelta(minutes=10)  # of one request, with all data that it transfers
_RETRIES = {"max_retries": 6, "retry_timeout": timedelta(seconds=15)}  # no request is repeated after this time
_ASKED = re.compile(r"(https?://[^/?\s]+)\S* in (?:([\d.]+)s)?")  # of a message of obstore: the server, and the seconds
_URL = re.compile(r"https?://[!-?A-~]+")  # without a name and a password


class ConflictError(ApeError):
    """The stored object is not the version that a conditional write expects."""


@dataclass(frozen=True)
class Bucket:
    """A bucket and its connection options, which all paths in it share.

    A `Bucket` can be pickled; the other process opens its own connection.
    """

    kind: str
    name: str
    query: str  # the options of the address, as given

    @cached_property
    def store(self) -> Any:
        """The obstore store of usual requests, which fail after `_SILENCE` without an answer.

        Raises `PlaceError` if it cannot be made.
        """
        return self._connected(_SILENCE)

    @cached_property
    def patient_store(self) -> Any:
        """The store of requests that are answered late: those that send or copy a large object."""
        return self._connected(_LONGEST)

    def _connected(self, silence: timedelta) -> Any:
        """An obstore store. A request fails after `silence` without an answer, which includes the time to send it."""
        with explained(self):
            make, config = (_s3 if self.kind == "s3" else _gcs)(dict(parse_qsl(self.query)))
            client = {"allow_http": True, "connect_timeout": _CONNECTING, "read_timeout": silence, "timeout": _LONGEST}
            return make(self.name, client_options=client, retry_config=_RETRIES, **config)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the fields, so that another process opens its own connection."""
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    def __str__(self) -> str:
        """The address of the bucket, without options."""
        return f"{self.kind}://{self.name}"

    def check_writable(self) -> None:
        """Nothing: who may write is decided by the store."""


@contextmanager
def explained(bucket: Bucket, key: str = "") -> Iterator[None]:
    """Turn the errors of obstore in this block into errors of ours.

    A missing object, whose name is `key`, stays a `FileNotFoundError`. Without `key`, the bucket is missing.

    Raises `ConflictError` if a condition of a write is not met, and `PlaceError` for any other error of obstore.
    """
    from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

    try:
        yield
    except FileNotFoundError as error:
        if not key:
            raise failed(bucket, "no such bucket") from error
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{bucket}/{key}") from error
    except (AlreadyExistsError, PreconditionError) as error:
        raise conflict(bucket) from error
    except ApeError:
        raise
    except (BaseError, ValueError) as error:  # a ValueError is about the settings, or the name of the object
        raise failed(bucket, str(error)) from error


def conflict(bucket: Bucket) -> ConflictError:
    """The error that an object is not as a conditional write expects."""
    return ConflictError("another process writes the same object", got=str(bucket), fix="run the same command again")


def failed(bucket: Bucket, message: str) -> PlaceError:
    """The error for a request that failed with this message of obstore."""
    line = message.splitlines()[0].rpartition(" - ")[2] if message else "no message"
    code = re.search(r"<Code>(\w+)</Code>", message)
    server = "?endpoint_override=http://HOST:PORT" + " or AWS_ENDPOINT_URL, AWS_REGION" * (bucket.kind == "s3")
    got = f"{line.partition(': <')[0]}{f' ({code[1]})' if code else ''}"
    if asked := _ASKED.search(message):
        got = f"{asked[1]}: {got}{f', after {float(asked[2]):.0f} s' if asked[2] else ''}"
    fix = f"check the network, the bucket, its server ({server}) and the credentials ({CREDENTIALS[bucket.kind]})"
    return PlaceError(f"a request to {KINDS[bucket.kind]} failed at {bucket}", got=got, fix=fix)


def _s3(options: dict[str, str]) -> tuple[Any, dict[str, Any]]:
    """The class of an S3 store and its settings.

    `options` are those of the address; the environment variables of AWS come second, and its profile third.
    """
    from obstore.store import S3Store

    environment = os.environ.get
    endpoint = options.get("endpoint_override") or environment("AWS_ENDPOINT_URL_S3") or environment("AWS_ENDPOINT_URL")
    region = options.get("region") or environment("AWS_REGION") or environment("AWS_DEFAULT_REGION")
    # obstore reads all variables of AWS itself, so what an address says is set even if it is the default
    config: dict[str, Any] = {"conditional_put": "etag"}
    if "anonymous" in options:
        config["skip_signature"] = options["anonymous"] == "true"
    if options.get("anonymous") != "true" and _has_profile():
        config["credential_provider"] = profile = _profile()
        region = region or profile.config.get("region")
    if endpoint:
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
    """The URL of a server that was named with or without its scheme. Raises `PlaceError` if it cannot be one."""
    url = endpoint if "://" in endpoint else f"{options.get('scheme', 'https')}://{endpoint}"
    if not _URL.fullmatch(url):
        fix = "correct endpoint_override or AWS_ENDPOINT_URL"
        raise PlaceError("the address of the object store's server is not a URL", allowed="http://HOST:PORT", fix=fix)
    return url
