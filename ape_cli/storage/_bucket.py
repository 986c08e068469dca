"""Buckets of object stores, and how they are connected.

All requests go through obstore, the Python package of the Rust library object_store. It is imported at the first
request.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl

from ape_cli.core.errors import PlaceError
from ape_cli.core.extras import how_to_install
from ape_cli.storage._store_errors import CREATE, CREDENTIALS, RETRIES, explained, is_no_bucket, no_bucket, unreachable

_BOTH: dict[str, tuple[str, ...]] = {
    "endpoint_override": (),
    "scheme": ("http", "https"),
    "anonymous": ("true", "false"),
}
OPTIONS = {"s3": _BOTH | {"region": ()}, "gs": _BOTH}  # option of an address -> allowed values; () allows any value
_CONNECT, _SILENT = timedelta(seconds=4), timedelta(seconds=5)  # time to connect; time without an answer
_LONGEST = timedelta(minutes=10)  # for one request, with all data that it transfers
_PATIENCE = timedelta(seconds=20)  # after this time, a request is not repeated again


_URL = re.compile(r"https?://[!-?A-~]+")  # without a name and a password


class Guard(Protocol):
    """Decides whether this process may write into a folder. A lease is one (`leases.py`)."""

    versions: dict[str, Any]
    """For the path of each object that this process has written in the folder: the version that it should have now."""

    def covers(self, path: str) -> bool:
        """Whether the object `path` lies in the folder."""

    def check(self) -> None:
        """Raise `ApeError` if this process may not write into the folder any more. Nothing is requested."""

    def renew(self) -> None:
        """Make sure, by a request to the store, that nobody else may write into the folder; `check` knows it then."""


@dataclass(frozen=True)
class Bucket:
    """A bucket and its connection options, which all paths in it share.

    A `Bucket` can be pickled; the other process opens its own connection.
    """

    kind: str
    name: str
    query: str  # the options of the address, as given

    @cached_property
    def guards(self) -> list[Guard]:
        """The guards that are asked before and after each upload."""
        return []

    @cached_property
    def store(self) -> Any:
        """The obstore store, for all requests that send little. Raises `PlaceError` if it cannot be made."""
        return self._connect(read_timeout=_SILENT)

    @cached_property
    def uploads(self) -> Any:
        """The same store for large uploads. It does not limit the time to the answer, which includes that to send."""
        return self._connect()

    def once(self, headers: dict[str, str]) -> Any:
        """A store for one request with these headers, which obstore does not repeat."""
        return self._connect(0, read_timeout=_SILENT, default_headers=headers)

    def _connect(self, retries: int = RETRIES, **client: Any) -> Any:
        """Make an obstore store with additional options of its client. Nothing is requested, except a region of S3."""
        given = dict(parse_qsl(self.query))
        with explained(self):
            make, config = (_s3 if self.kind == "s3" else _gcs)(self.name, given)
            return make(
                self.name,
                client_options={"allow_http": True, "connect_timeout": _CONNECT, "timeout": _LONGEST, **client},
                retry_config={"max_retries": retries, "retry_timeout": _PATIENCE},
                **config,
            )

    def check(self) -> None:
        """Raise `PlaceError` if the bucket does not exist.

        The store is asked only once per `Bucket`, and callers use this only when an object is missing.
        """
        _ = self._exists

    @cached_property
    def _exists(self) -> bool:
        """True, also if the store does not allow the question. Raises `PlaceError` if the bucket does not exist."""
        from obstore import list as list_objects
        from obstore.exceptions import BaseError

        try:
            next(list_objects(self.store, "none"), None)
        except (BaseError, OSError) as error:  # the credentials may not allow this question
            if is_no_bucket(str(error)):
                raise no_bucket(self) from error
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the address, so that another process opens its own connection."""
        return Bucket, (self.kind, self.name, self.query)

    def __str__(self) -> str:
        """The address of the bucket, without options."""
        return f"{self.kind}://{self.name}"


def _s3(bucket: str, given: dict[str, str]) -> tuple[Any, dict[str, Any]]:
    """The class of an S3 store and its settings.

    `given` are the options of the address; the environment variables of AWS come second, and its profile third.
    """
    from obstore.store import S3Store

    environment = os.environ.get
    endpoint = given.get("endpoint_override") or environment("AWS_ENDPOINT_URL_S3") or environment("AWS_ENDPOINT_URL")
    region = given.get("region") or environment("AWS_REGION") or environment("AWS_DEFAULT_REGION")
    # obstore reads all variables of AWS itself, so what an address says is set even if it is the default
    config: dict[str, Any] = {"conditional_put": "etag", "disable_bulk_delete": True}  # it could not have conditions
    if "anonymous" in given:
        config["skip_signature"] = given["anonymous"] == "true"
    if given.get("anonymous") != "true" and _has_profile():
        config["credential_provider"] = profile = _profile()
        region = region or profile.config.get("region")
    if endpoint:
        config["aws_endpoint_url_s3"] = _with_scheme(endpoint, given)
    config["region"] = region or ("us-east-1" if endpoint else _region(bucket))
    return S3Store, config


def _has_profile() -> bool:
    """Whether credentials come from a profile: one is named, or the environment has no keys and a file has some."""
    files = {"AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials", "AWS_CONFIG_FILE": "~/.aws/config"}
    if "AWS_PROFILE" in os.environ:
        return True
    if "AWS_ACCESS_KEY_ID" in os.environ:
        return False
    return any(Path(os.environ.get(name, usual)).expanduser().is_file() for name, usual in files.items())


def _profile() -> Any:
    """Credentials from the profile of AWS, by boto3. Raises `PlaceError` if boto3 is missing or finds none."""
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        raise PlaceError(
            "a profile of AWS needs the package boto3",
            got=os.environ.get("AWS_PROFILE", "the profile `default`"),
            fix=f"{how_to_install('aws')}, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ) from error
    from botocore.exceptions import BotoCoreError

    try:
        return Boto3CredentialProvider()
    except (BotoCoreError, ValueError) as error:  # obstore raises ValueError if there are no credentials
        said = str(error) if isinstance(error, BotoCoreError) else "a profile without credentials"
        raise PlaceError("no credentials for S3", got=said, fix=CREDENTIALS["s3"]) from error


def _region(bucket: str) -> str:
    """Ask AWS for the region of a bucket. Raises `PlaceError` if there is no such bucket, or no answer."""
    from urllib import request  # slow to import
    from urllib.error import HTTPError

    wanted, address = "x-amz-bucket-region", f"https://s3.amazonaws.com/{bucket}"
    try:
        with request.urlopen(request.Request(address, method="HEAD"), timeout=_SILENT.seconds) as answer:
            return str(answer.headers.get(wanted, "us-east-1"))
    except HTTPError as error:  # the bucket is not public, or is in another region; both answers name the region
        if error.code == 404:
            raise PlaceError("no such bucket", got=f"s3://{bucket}", fix=CREATE) from error
        return str(error.headers.get(wanted, "us-east-1"))
    except OSError as error:
        raise unreachable(f"s3://{bucket}", "s3", str(error)) from error


def _gcs(bucket: str, given: dict[str, str]) -> tuple[Any, dict[str, Any]]:
    """The class of a store of Google and its settings. `given` are the options of the address."""
    from obstore.store import GCSStore

    config: dict[str, Any] = {}
    if given.get("anonymous") == "true":  # `skip_signature` is for reading; without a provider, writing asks for a role
        config = {"skip_signature": True, "credential_provider": lambda: {"token": "anonymous", "expires_at": None}}
    if endpoint := given.get("endpoint_override"):
        config["base_url"] = _with_scheme(endpoint, given)
    return GCSStore, config


def _with_scheme(endpoint: str, given: dict[str, str]) -> str:
    """The URL of a server that was named with or without its scheme. Raises `PlaceError` if it cannot be one."""
    url = endpoint if "://" in endpoint else f"{given.get('scheme', 'https')}://{endpoint}"
    if not _URL.fullmatch(url):
        fix = "correct endpoint_override or AWS_ENDPOINT_URL"
        raise PlaceError("the address of the object store's server is no URL", allowed="http://HOST:PORT", fix=fix)
    return url
