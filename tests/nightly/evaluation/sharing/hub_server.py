"""A server on loopback with the endpoints of the Hugging Face Hub that an upload needs, for tests."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_of_the_test"


class Hub(ThreadingHTTPServer):
    """Repositories in memory. `refuse` and `refuse_files`: statuses with which requests and files are refused, or 0."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.refuse = self.refuse_files = 0
        self.repositories: dict[str, dict[str, bytes]] = {}  # by kind and name, such as "models/me/x": path -> content
        self.private: dict[str, bool] = {}
        self.large: dict[str, bytes] = {}  # uploaded contents by their SHA-256
        self.commits: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def hub_server() -> Iterator[Hub]:
    """Yield a server that answers until the end of the block."""
    with Hub() as hub:
        thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield hub
        finally:
            hub.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def _answer(self, status: int, body: Any) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        if status >= 400:
            self.send_header("X-Error-Message", body["error"])
        self.end_headers()
        self.wfile.write(raw)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _allowed(self) -> bool:
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._answer(401, {"error": "Invalid username or password."})
        elif self.server.refuse:
            self._answer(self.server.refuse, {"error": "said by the server"})
        else:
            return True
        return False

    def do_PUT(self) -> None:
        self.server.large[self.path.rpartition("/")[2]] = self._body()
        self._answer(self.server.refuse_files or 200, {"error": "said by the server"})

    def do_GET(self) -> None:
        if not self._allowed():
            return
        kind, name = re.match(r"/api/(\w+)/([^/]+/[^/?]+)", self.path).groups()  # type: ignore[union-attr]
        found = self.server.repositories[f"{kind}/{name}"]
        if "/tree/" in self.path:
            self._answer(200, [{"type": "file", "path": p, "oid": "0", "size": len(c)} for p, c in found.items()])
        else:
            private = self.server.private[f"{kind}/{name}"]
            self._answer(200, {"id": name, "sha": "0" * 40, "private": private, "siblings": []})

    def do_POST(self) -> None:
        raw = self._body()
        if not self._allowed():
            return
        if self.path == "/api/repos/create":
            self._create(json.loads(raw))
        elif self.path == "/api/validate-yaml":
            self._answer(200, {"errors": [], "warnings": []})
        elif "/preupload/" in self.path:
            files = [file["path"] for file in json.loads(raw)["files"]]
            large = (".safetensors", ".parquet")
            modes = [{"path": p, "uploadMode": "lfs" if p.endswith(large) else "regular"} for p in files]
            self._answer(200, {"files": [mode | {"shouldIgnore": False} for mode in modes]})
        elif self.path.endswith("/info/lfs/objects/batch"):
            wanted = json.loads(raw)["objects"]
            upload = [{"upload": {"href": f"{self.server.address}/lfs/{each['oid']}"}} for each in wanted]
            objects = [each | {"actions": action} for each, action in zip(wanted, upload, strict=True)]
            self._answer(200, {"transfer": "basic", "objects": objects})
        else:
            self._commit([json.loads(line) for line in raw.splitlines()])

    def _create(self, asked: dict[str, Any]) -> None:
        name = f"{asked.get('type', 'model')}s/{asked['organization']}/{asked['name']}"
        url = f"{self.server.address}/{name.removeprefix('models/')}"
        if name in self.server.repositories:
            self._answer(409, {"error": "You already created this repo", "url": url})
            return
        self.server.repositories[name] = {}
        self.server.private[name] = asked.get("visibility") == "private" or bool(asked.get("private"))
        self._answer(200, {"url": url})

    def _commit(self, lines: list[dict[str, Any]]) -> None:
        kind, name = re.fullmatch(r"/api/(\w+)/([^/]+/[^/]+)/commit/main", self.path).groups()  # type: ignore[union-attr]
        found = self.server.repositories[f"{kind}/{name}"]
        for line in lines:
            value = line["value"]
            if line["key"] == "header":
                self.server.commits.append(value["summary"])
            elif line["key"] == "file":
                found[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                found[value["path"]] = self.server.large[value["oid"]]
            elif line["key"] == "deletedFile":
                del found[value["path"]]
        url = f"{self.server.address}/{name}/commit/{'1' * 40}"
        self._answer(200, {"success": True, "commitOid": "1" * 40, "commitUrl": url, "hookOutput": ""})
