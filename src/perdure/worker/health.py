"""Whether a worker lives and takes work, for whoever asks over HTTP: `/live`, `/ready`.

A thread of its own answers, so that it also does while the event loop is blocked; it looks at what the worker
counts and asks no store. It knows two paths, one method, and sends no word about any run.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

from perdure.errors import BadSetting

LIVE_SECONDS = 60.0
"""A worker whose event loop has not turned for so long is not alive."""

ANSWER_SECONDS = 15.0
"""A store that has not answered for so long is out of reach: an idle worker asks it more often."""

LOOPBACK = "127.0.0.1"
"""Where it listens if only a port is given."""

Facts = Callable[[], dict[str, Any]]
"""What a worker counts now: `Worker.facts`."""


def address_of(text: str) -> tuple[str, int]:
    """HOST:PORT, or a port of this machine alone. Raises BadSetting."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or LOOPBACK
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise BadSetting(f"{text!r} is no HOST:PORT", remedy="such as 8080, or 0.0.0.0:8080")
    return host, int(port)


def judged(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts, with `live`, `ready`, and why not."""
    dead = []
    if facts["loop_seconds"] >= LIVE_SECONDS:
        dead.append(f"the event loop has not turned for {facts['loop_seconds']:.0f} s")
    if facts["ended"]:
        dead.append("the worker has ended")
    why = list(dead)
    if facts["draining"]:
        why.append("it drains")
    if facts["store_error"]:
        why.append(f"the store failed: {facts['store_error']}")
    elif facts["store_seconds"] >= ANSWER_SECONDS and not dead:
        why.append(f"the store has not answered for {facts['store_seconds']:.0f} s")
    if facts["fenced"]:
        why.append("its leases could not be renewed in time")
    return {"live": not dead, "ready": not why, "why": why, **facts}


class Health:
    """Answers at an address until it is closed. Raises BadSetting where nobody can listen."""

    def __init__(self, host: str, port: int, facts: Facts) -> None:
        self._began = time.monotonic()

        class Answer(_Answer):
            source = staticmethod(facts)

        try:
            self._server = _Server((host, port), Answer)
        except OSError as error:
            what = f"nothing can listen at {host}:{port}: {error.strerror or error}"
            raise BadSetting(what, remedy="--health with another port") from error
        shown = f"[{host}]" if ":" in host else host
        self.address = f"{shown}:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.2,), name="perdure-health", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Answer no longer."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingTCPServer):
    """Listens, and asks no name service whose address that is; a host with a colon is one of IPv6."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], answer: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, answer)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a probe that has hung up is no fault of the worker's."""


class _Answer(BaseHTTPRequestHandler):
    source: Facts
    timeout = 5.0
    server_version = "perdure"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer with the facts: 200 if it is so, else 503."""
        facts = judged(self.source())
        path = self.path.partition("?")[0]
        if path not in ("/live", "/ready"):
            self._send(404, {"error": "/live and /ready are answered"})
        else:
            self._send(200 if facts[path[1:]] else 503, facts)

    do_HEAD = do_GET  # noqa: N815

    def _send(self, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing: probes come every few seconds."""
