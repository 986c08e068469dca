"""A proxy on loopback in front of an object store. Of its requests, every fifth fails."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle

EVERY = 5
FAILURES = (
    "503 SlowDown",  # the server answers that it is busy
    "lost request",  # the connection is reset before the server gets the request
    "lost answer",  # the server carries out the request, and the connection is reset before the answer
)
_OURS = {"connection", "transfer-encoding", "server", "date", "content-length"}  # headers of the proxy itself


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    server: Flaky

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        failure = self.server.next_failure(self.command, self.path)
        if failure is not None and failure[0].isdigit():
            status, _, code = failure.partition(" ")
            self._answer(int(status), [], f"<Error><Code>{code}</Code><Message>A - B</Message></Error>".encode())
            return
        if failure == "lost request":
            self._reset()
            return
        connection = http.client.HTTPConnection(self.server.behind)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for key, value in self.headers.items():
            connection.putheader(key, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        if failure == "lost answer":
            self._reset()
            return
        headers = [(key, value) for key, value in answer.getheaders() if key.lower() not in _OURS]
        self._answer(answer.status, headers, content, answer.headers.get("Content-Length"))

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on  # noqa: N815

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes, size: str | None = None) -> None:
        self.send_response(status)
        for key, value in headers:
            self.send_header(key, value)
        self.send_header("Content-Length", size if self.command == "HEAD" and size else str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RD)
        self.connection.close()

    def finish(self) -> None:
        with suppress(OSError):  # the connection was reset
            super().finish()

    def log_message(self, *words: object) -> None:
        pass


class Flaky(ThreadingHTTPServer):
    """The proxy. `failed` counts its failures by kind and method.

    A failure is one of `FAILURES`, or a status and a code of S3. `plan` decides on the failure of a request by its
    method and path, if it is set.
    """

    daemon_threads = True

    def __init__(self, behind: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = behind.removeprefix("http://")
        self.endpoint = f"http://127.0.0.1:{self.server_port}"
        self.failed = Counter[tuple[str, str]]()
        self.plan: Callable[[str, str], str | None] | None = None
        self._requests, self._kinds, self._counting = 0, cycle(FAILURES), threading.Lock()

    def next_failure(self, method: str, path: str) -> str | None:
        """How the next request fails; None if it does not."""
        with self._counting:
            kind = self.plan(method, path) if self.plan else self._every_fifth()
            if kind is not None:
                self.failed[kind, method] += 1
            return kind

    def _every_fifth(self) -> str | None:
        self._requests += 1
        return None if self._requests % EVERY else next(self._kinds)

    def handle_error(self, *words: object) -> None:
        pass


@contextmanager
def flaky(endpoint: str) -> Iterator[Flaky]:
    """Runs the proxy in a thread, on a free port."""
    with Flaky(endpoint) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
