"""A web server that sells one file in many moods, and the shelf that buys it: what the tests of pulling share."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from appliance.models.fetch import Puller
from appliance.models.manifest import parse_manifest
from appliance.models.shelf import Shelf

PART = 1 << 20
DATA = hashlib.shake_256(b"toy weights").digest(3 * PART)
SHA = hashlib.sha256(DATA).hexdigest()


class Shop:
    """A web server with one file in many moods. `asked` holds (path, Range header) of every request."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.etag = '"v1"'
        self.cut_after = 0
        self.hold = threading.Event()
        shop = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                shop.asked.append((self.path, self.headers.get("Range", "")))
                shop.answer(self)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/gone":
            handler.send_error(404)
            return
        start = 0
        asked = handler.headers.get("Range", "")
        if asked and handler.path != "/stubborn" and handler.headers.get("If-Range", self.etag) == self.etag:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {start}-{len(DATA) - 1}/{len(DATA)}")
        else:
            handler.send_response(200)
        body = DATA[start:] if handler.path != "/other" else bytes(len(DATA))
        handler.send_header("Content-Length", str(len(body)))
        handler.send_header("ETag", self.etag)
        handler.end_headers()
        if handler.path == "/slow" and len(self.asked) == 1:
            handler.wfile.write(body[:PART])
            handler.wfile.flush()
            self.hold.wait(30)
        elif self.cut_after:
            handler.wfile.write(body[: self.cut_after])
            handler.close_connection = True
        else:
            handler.wfile.write(body)

    def close(self) -> None:
        self.hold.set()
        self.server.shutdown()
        self.server.server_close()


def manifest_text(sources: Any, *, known: bool = True, size: int = len(DATA), extra: str = "") -> str:
    """A manifest of one model `toy` with one file `a.bin`; without `known` its hash is locked at the first fetch."""
    lines = ["[[models]]", 'id = "toy"', 'kind = "llm"', 'licence = "MIT"', "[[models.files]]", 'name = "a.bin"']
    lines += [f'sha256 = "{SHA}"', f"bytes = {size}"] if known else ["locked_at_first_fetch = true"]
    return "\n".join([*lines, f"sources = {json.dumps(sources)}", extra])


def shelf_of(root: Path, sources: Any, **options: Any) -> Shelf:
    return Shelf(root, parse_manifest(manifest_text(sources, **options)))


def pull(shelf: Shelf) -> list[str]:
    """Pull `toy`; returns the notes. Raises what kept it from coming."""
    notes: list[str] = []
    result = Puller(shelf, lambda step: notes.append(step.note) if step.note else None).pull(["toy"])
    if result.failed:
        raise result.failed["toy"]
    return notes


def leftovers(root: Path) -> list[str]:
    """Names in the model's folder that are neither the file nor its stamp nor the lock."""
    kept = {"a.bin", ".a.bin.stamp", ".lock"}
    return sorted(path.name for path in (root / "toy").iterdir() if path.name not in kept)
