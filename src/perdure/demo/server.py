"""The pretend bank as a server of its own: HTTP on 127.0.0.1, its own process, its own book.

    GET  /orders/ID          an order POST /refunds            {"order_id", "cents"}, header Idempotency-Key;
    pays at once, and again if asked again GET  /refunds/KEY        the refund paid under a key, 404 if none
    was GET  /ledger             everything that was paid

It takes the key down but does not look at it: many real services do no better. With --hold-first it pays the
first refund, writes it down, and then keeps the answer to itself until its caller is gone. What it does, it
tells on its standard output, one JSON object a line.
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from perdure.demo.ledger import Ledger, NoSuchOrder, as_plain

HOLD_SECONDS_MAX = 30.0
"""Longest time for which a held answer waits for its caller to go away."""


@dataclass(slots=True)
class Counter:
    """What the request handlers share: the book, and whether the next refund's answer is held back."""

    book: Ledger
    hold_first: bool
    lock: threading.Lock = field(default_factory=threading.Lock)

    def tell(self, **what: Any) -> None:
        """Write one line for whoever started the bank."""
        with self.lock:
            sys.stdout.write(json.dumps(what) + "\n")
            sys.stdout.flush()

    def take_hold(self) -> bool:
        """Whether this refund is the one whose answer is held; true once at most."""
        with self.lock:
            held, self.hold_first = self.hold_first, False
        return held


def serve(counter: Counter) -> ThreadingHTTPServer:
    """A server on a free port of 127.0.0.1, ready for `serve_forever`."""

    class Handler(_Requests):
        desk = counter

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    return server


class _Requests(BaseHTTPRequestHandler):
    desk: Counter

    def do_GET(self) -> None:
        """Answer a question."""
        parts = [unquote(part) for part in self.path.strip("/").split("/")]
        match parts:
            case ["orders", order_id]:
                try:
                    self._answer(200, self.desk.book.order(order_id))
                except NoSuchOrder as missing:
                    self._answer(404, {"error": str(missing)})
            case ["refunds", key]:
                found = self.desk.book.find(key)
                self.desk.tell(asked=key, found=found.receipt if found else None)
                self._answer(200 if found else 404, as_plain(found) if found else {"error": "no such refund"})
            case ["ledger"]:
                self._answer(200, [as_plain(entry) for entry in self.desk.book.entries()])
            case _:
                self._answer(404, {"error": "no such page"})

    def do_POST(self) -> None:
        """Pay a refund."""
        try:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
            order_id, cents, key = (
                str(body["order_id"]),
                int(body["cents"]),
                self.headers["Idempotency-Key"] or "",
            )
            paid = self.desk.book.refund(order_id, cents, key)
        except NoSuchOrder as missing:
            self._answer(404, {"error": str(missing)})
            return
        except (ValueError, KeyError, TypeError) as wrong:
            self._answer(400, {"error": f"not a refund: {wrong!r}"})
            return
        self.desk.tell(paid=paid.receipt, order=order_id, cents=cents, key=key)
        if self.desk.take_hold():
            _wait_until_gone(self.connection)
        self._answer(200, as_plain(paid))

    def _answer(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except ConnectionError:
            self.close_connection = True  # the caller has gone: the book stands all the same

    def log_message(self, *_: Any) -> None:
        """Say nothing on standard error; `tell` speaks."""


def _wait_until_gone(connection: socket.socket) -> None:
    """Return when the other side has hung up, at the latest after HOLD_SECONDS_MAX."""
    readable, _, _ = select.select([connection], [], [], HOLD_SECONDS_MAX)
    if readable:
        try:
            connection.recv(1, socket.MSG_PEEK)
        except ConnectionError:
            return


def main() -> None:
    """Serve until standard input ends: the bank closes when the one who started it is gone."""
    options = argparse.ArgumentParser(description="a pretend bank")
    options.add_argument("ledger", type=Path)
    options.add_argument("--hold-first", action="store_true")
    chosen = options.parse_args()
    counter = Counter(Ledger(chosen.ledger), chosen.hold_first)
    server = serve(counter)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    counter.tell(listening=f"http://127.0.0.1:{server.server_port}")
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    main()
