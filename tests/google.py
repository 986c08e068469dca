"""A fake Google Cloud Storage server on loopback. It answers the few JSON API requests that pyarrow.fs makes.

It follows the API's documentation. Tests therefore show that our code and pyarrow's client agree with the
documentation, not with Google's servers.
Source: https://cloud.google.com/storage/docs/json_api/v1
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

BUCKET = "ape"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # sends head and body in one packet; otherwise each answer takes 40 ms longer
    server: _Server

    def do_GET(self) -> None:
        path, query = self._asked()
        objects = self.server.objects
        if path == f"/storage/v1/b/{BUCKET}":
            self._answer({"kind": "storage#bucket", "name": BUCKET})
        elif path == f"/storage/v1/b/{BUCKET}/o":
            self._answer(_listing(objects, query.get("prefix", ""), query.get("delimiter", "")))
        elif (name := self._name(path)) not in objects:
            self._answer({"error": {"code": 404, "message": "Not Found"}}, 404)
        elif query.get("alt") == "media":
            self._send_range(objects[name][0])
        else:
            self._answer(_about(name, *objects[name]))

    def do_POST(self) -> None:
        _, query = self._asked()
        self._body()
        if query["uploadType"] != "resumable":
            raise AssertionError(self.path)
        self.server.uploads[query["name"]] = b""
        self._answer({}, headers={"Location": f"{self.server.address}/upload?name={query['name']}"})

    def do_PUT(self) -> None:
        """Takes one part of an upload.

        `Content-Range` is `bytes 0-9/*`, and for the last part `bytes 10-19/20` or `bytes */20`.
        """
        _, query = self._asked()
        name = query["name"]
        self.server.uploads[name] += self._body()
        total = self.headers["Content-Range"].rpartition("/")[2]
        if total == "*":
            done = len(self.server.uploads[name])
            self._answer({}, 308, {"Range": f"bytes=0-{done - 1}"})
            return
        self.server.objects[name] = (self.server.uploads.pop(name), datetime.now(UTC))
        self._answer(_about(name, *self.server.objects[name]))

    def do_DELETE(self) -> None:
        name = self._name(self._asked()[0])
        found = self.server.objects.pop(name, None)
        self._answer({}, 204 if found else 404)

    def _asked(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        return parts.path, {key: values[0] for key, values in parse_qs(parts.query).items()}

    def _name(self, path: str) -> str:
        return unquote(re.sub(r"^(/download)?/storage/v1/b/[^/]+/o/", "", path))

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _send_range(self, data: bytes) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "bytes=0-")
        assert asked is not None
        first, last = int(asked[1]), min(int(asked[2] or len(data)), len(data) - 1)
        partial = {"Content-Range": f"bytes {first}-{last}/{len(data)}"} if "Range" in self.headers else {}
        self._send(data[first : last + 1], 206 if partial else 200, partial)

    def _answer(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._send(b"" if status == 204 else json.dumps(value).encode(), status, headers or {})

    def _send(self, data: bytes, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, tuple[bytes, datetime]] = {}
        self.uploads: dict[str, bytes] = {}
        self.address = f"http://127.0.0.1:{self.server_port}"


def _about(name: str, data: bytes, written: datetime) -> dict[str, Any]:
    when = written.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "kind": "storage#object",
        "bucket": BUCKET,
        "name": name,
        "size": str(len(data)),
        "generation": "1",
        "metageneration": "1",
        "timeCreated": when,
        "updated": when,
    }


def _listing(objects: dict[str, tuple[bytes, datetime]], prefix: str, delimiter: str) -> dict[str, Any]:
    items, prefixes = [], dict[str, None]()
    for name in sorted(n for n in objects if n.startswith(prefix)):
        head, found, _ = name.removeprefix(prefix).partition(delimiter) if delimiter else (name, "", "")
        if found:
            prefixes[f"{prefix}{head}{delimiter}"] = None
        if not found or name.endswith(delimiter):  # as with the API's includeTrailingDelimiter
            items.append(_about(name, *objects[name]))
    return {"kind": "storage#objects", "items": items, "prefixes": list(prefixes)}


@contextmanager
def serving() -> Iterator[str]:
    """Runs the server in another process, because pyarrow's client blocks while it reads, and yields its address."""
    command = [sys.executable, "-m", "tests.google"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


if __name__ == "__main__":
    with _Server() as made:
        print(made.address, flush=True)
        made.serve_forever()
