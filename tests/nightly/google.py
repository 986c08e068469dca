"""A fake Google Cloud Storage server on loopback. It answers the few XML API requests that obstore makes.

It follows the API's documentation. Tests therefore show that our code and obstore agree with the documentation, not
with Google's servers.
Source: https://cloud.google.com/storage/docs/xml-api/reference-methods
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "ape"


class _Object(NamedTuple):
    data: bytes
    written: datetime
    generation: int


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # sends head and body in one packet; otherwise each answer takes 40 ms longer
    server: _Server

    def do_GET(self) -> None:
        bucket, name, query = self._asked()
        found = self.server.objects.get(name)
        if bucket != BUCKET:
            self._answer(
                404, b"<Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist.</Message></Error>"
            )
        elif not name:
            assert query["list-type"] == "2"
            self._answer(200, _listing(self.server.objects, query.get("prefix", ""), query.get("delimiter", "")))
        elif found is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            self._send_range(found)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        _, name, query = self._asked()
        assert not query, "this server has no uploads in parts"
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        expected = self.headers.get("x-goog-if-generation-match")  # 0 stands for an object that does not exist
        with self.server.writing:
            found = self.server.objects.get(name)
            if expected is not None and int(expected) != (found.generation if found else 0):
                self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
                return
            made = self.server.objects[name] = _Object(data, datetime.now(UTC), next(self.server.generations))
        self._answer(200, b"", _about(made))

    def do_DELETE(self) -> None:
        found = self.server.objects.pop(self._asked()[1], None)
        self._answer(204 if found else 404, b"")

    def _asked(self) -> tuple[str, str, dict[str, str]]:
        parts = urlsplit(self.path)
        bucket, _, name = parts.path.removeprefix("/").partition("/")
        return bucket, unquote(name), {key: values[0] for key, values in parse_qs(parts.query).items()}

    def _send_range(self, found: _Object) -> None:
        last = len(found.data) - 1
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
        first, last = (int(wanted[1]), min(int(wanted[2]), last)) if wanted else (0, last)
        partial = {"Content-Range": f"bytes {first}-{last}/{len(found.data)}"} if wanted else {}
        self._answer(206 if wanted else 200, found.data[first : last + 1], partial | _about(found))

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *words: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, _Object] = {}
        self.generations, self.writing = count(1), threading.Lock()


def _about(found: _Object) -> dict[str, str]:
    return {
        "ETag": f'"{found.generation:x}"',
        "Last-Modified": format_datetime(found.written, usegmt=True),
        "x-goog-generation": str(found.generation),
    }


def _listing(objects: dict[str, _Object], prefix: str, delimiter: str) -> bytes:
    items, prefixes = [], dict[str, None]()
    for name in sorted(n for n in objects if n.startswith(prefix)):
        head, separator, _ = name.removeprefix(prefix).partition(delimiter) if delimiter else (name, "", "")
        if separator:
            prefixes[f"{prefix}{head}{separator}"] = None
        else:
            found = objects[name]
            items.append(
                f"<Contents><Key>{escape(name)}</Key><Generation>{found.generation}</Generation>"
                f"<LastModified>{found.written:%Y-%m-%dT%H:%M:%S.%fZ}</LastModified>"
                f'<ETag>"{found.generation:x}"</ETag><Size>{len(found.data)}</Size></Contents>'
            )
    folders = [f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in prefixes]
    return f"<ListBucketResult>{''.join(items + folders)}</ListBucketResult>".encode()


class Store(NamedTuple):
    """The running server."""

    endpoint: str
    server: _Server

    def objects(self, path: str) -> dict[str, bytes]:
        """The objects below `path` by relative name."""
        found = sorted(self.server.objects.items())
        return {name.removeprefix(f"{path}/"): about.data for name, about in found if name.startswith(f"{path}/")}


@contextmanager
def serving() -> Iterator[Store]:
    """Runs the server in a thread, on a free port."""
    with _Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Store(f"http://127.0.0.1:{server.server_port}", server)
        finally:
            server.shutdown()
            thread.join()
