"""A server of S3 and of Google Cloud Storage on loopback. It is moto's server of S3, which keeps objects in memory.

obstore asks both stores in the same way, except for conditional writes. They are translated here by Google's
documentation: https://cloud.google.com/storage/docs/xml-api/reference-headers. The tests therefore do not show what
Google's servers do.
"""

from __future__ import annotations

import itertools
import logging
import os
import re
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3
import pytest

from ape_cli.storage.object_store import RemotePath
from ape_cli.storage.paths import storage_path

OURS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true"}


@dataclass
class Hold:
    """A request that the server does not carry out until `go_on` is set: the one of this number that matches."""

    method: str
    path: str
    number: int
    go_on: threading.Event = field(default_factory=threading.Event)
    seen: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def wait(self, request: dict[str, Any]) -> None:
        asked = request["REQUEST_METHOD"] == self.method and re.search(self.path, request["PATH_INFO"])
        if asked and next(self.seen) == self.number:
            self.go_on.wait(120)


@dataclass(frozen=True)
class Server:
    endpoint: str
    holds: list[Hold]

    def bucket(self, name: str) -> None:
        self._client().create_bucket(Bucket=name)

    def objects(self, path: str) -> dict[str, bytes]:
        """Returns the objects below `bucket/path` by relative name."""
        bucket, _, prefix = path.partition("/")
        pages = self._client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{prefix}/")
        names = [found["Key"] for page in pages for found in page.get("Contents", ())]
        return {name.removeprefix(f"{prefix}/"): self.get(f"{bucket}/{name}") for name in sorted(names)}

    def get(self, path: str) -> bytes:
        content: bytes = self._client().get_object(**_named(path))["Body"].read()
        return content

    def put(self, path: str, data: bytes) -> None:
        self._client().put_object(**_named(path), Body=data)

    def remove(self, path: str) -> None:
        self._client().delete_object(**_named(path))

    @contextmanager
    def asking_for_keys(self) -> Iterator[None]:
        """Within this context the server checks credentials and rejects all of them."""
        self._authorise("0")
        try:
            yield
        finally:
            self._authorise("inf")

    @contextmanager
    def holding(self, method: str, path: str, number: int) -> Iterator[threading.Event]:
        """Within this context, one request waits until the event is set. `path`: a pattern of the path in the URL."""
        hold = Hold(method, path, number)
        self.holds.append(hold)
        try:
            yield hold.go_on
        finally:
            hold.go_on.set()
            self.holds.remove(hold)

    def _authorise(self, after: str) -> None:
        address, plain = f"{self.endpoint}/moto-api/reset-auth", {"Content-Type": "text/plain"}
        urllib.request.urlopen(urllib.request.Request(address, after.encode(), plain)).close()

    def _client(self) -> Any:
        keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
        with pytest.MonkeyPatch.context() as patch:  # a test may have set a profile for our own connection
            patch.delenv("AWS_PROFILE", raising=False)
            return boto3.Session(region_name="us-east-1", **keys).client("s3", endpoint_url=self.endpoint)


def _named(path: str) -> dict[str, str]:
    """What boto3 calls `bucket/name`."""
    return dict(zip(("Bucket", "Key"), path.split("/", 1), strict=True))


def at(endpoint: str, path: str, bucket: str = "ape") -> RemotePath:
    """An object as another process has it: with a connection of its own."""
    found = storage_path(f"s3://{bucket}/{path}?endpoint_override={endpoint}")
    assert isinstance(found, RemotePath)
    return found


def translated(app: Any, holds: list[Hold]) -> Any:
    """The server, which waits for `holds`, and has Google's headers for copies and for the version of an object.

    The version is its ETag as a number, or 0 if there is none. Requests without credentials, as those to Google here,
    are those of anybody with some.
    """
    anybody = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request"

    def answer(request: dict[str, Any], start: Any) -> Any:
        for hold in list(holds):
            hold.wait(request)
        request.setdefault("HTTP_AUTHORIZATION", anybody)
        expected = request.get("HTTP_X_GOOG_IF_GENERATION_MATCH")
        if expected is not None:
            name, tag = ("MATCH", f'"{int(expected):032x}"') if int(expected) else ("NONE_MATCH", "*")
            request[f"HTTP_IF_{name}"] = tag
        if "HTTP_X_GOOG_COPY_SOURCE" in request:
            request["HTTP_X_AMZ_COPY_SOURCE"] = request["HTTP_X_GOOG_COPY_SOURCE"]

        def begin(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            tags = [value.strip('"') for name, value in headers if name.lower() == "etag"]
            more = [("x-goog-generation", str(int(tag, 16))) for tag in tags if tag.isalnum()]
            return start(status, [*headers, *more], *rest)

        return app(request, begin)

    return answer


@contextmanager
def serving() -> Iterator[Server]:
    """Runs the server in a thread, on a free port. The only `AWS_` variables in the environment are its credentials."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    before = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    for name in before:
        del os.environ[name]
    os.environ.update(OURS)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    holds: list[Hold] = []
    server._server.app = translated(server._server.app, holds)
    try:
        yield Server("http://{}:{}".format(*server.get_host_and_port()), holds)
    finally:
        server.stop()
        for name in OURS:
            del os.environ[name]
        os.environ.update(before)
