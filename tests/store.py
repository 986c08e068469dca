"""An S3 server on loopback for tests of object storage. It is moto's server, which keeps all objects in memory."""

from __future__ import annotations

import logging
import os
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow.fs

OURS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true"}


@dataclass(frozen=True)
class Server:
    endpoint: str

    def bucket(self, name: str) -> None:
        self._system().create_dir(name)

    def objects(self, path: str) -> dict[str, bytes]:
        """Returns the objects below `bucket/path` by relative name, without the empty ones that stand for folders."""
        system = self._system()
        found = system.get_file_info(pyarrow.fs.FileSelector(path, recursive=True, allow_not_found=True))
        names = [f.path for f in found if f.type == pyarrow.fs.FileType.File]
        return {name.removeprefix(f"{path}/"): system.open_input_file(name).read() for name in sorted(names)}

    def put(self, path: str, data: bytes) -> None:
        with self._system().open_output_stream(path) as file:
            file.write(data)

    def remove(self, path: str) -> None:
        self._system().delete_file(path)

    @contextmanager
    def asking_for_keys(self) -> Iterator[None]:
        """Within this context the server checks credentials and rejects all of them."""
        self._authorise("0")
        try:
            yield
        finally:
            self._authorise("inf")

    def _authorise(self, after: str) -> None:
        address, plain = f"{self.endpoint}/moto-api/reset-auth", {"Content-Type": "text/plain"}
        urllib.request.urlopen(urllib.request.Request(address, after.encode(), plain)).close()

    def _system(self) -> pyarrow.fs.S3FileSystem:
        return pyarrow.fs.S3FileSystem(
            endpoint_override=self.endpoint,
            region="us-east-1",
            access_key="key",
            secret_key="secret",
            allow_bucket_creation=True,
        )


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
    try:
        yield Server("http://{}:{}".format(*server.get_host_and_port()))
    finally:
        server.stop()
        for name in OURS:
            del os.environ[name]
        os.environ.update(before)
