"""A network in front of a database: a process on loopback that keeps every byte back for a while, both ways.

    python -m bench.distance HOST PORT SECONDS

prints the port on which it listens and goes on until it is ended. `HOST` may be the folder of a socket. So a
server on this machine is as far away as one in the next building; nothing is lost and nothing is slowed down.
"""

from __future__ import annotations

import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import quote

from bench.table import HERE

CHUNK = 1 << 16


@contextmanager
def distant(url: str, seconds: float) -> Iterator[str]:
    """The address of the same database, `seconds` away in each direction."""
    from psycopg.conninfo import conninfo_to_dict

    parts = conninfo_to_dict(url)
    host, port = str(parts.get("host") or "127.0.0.1"), str(parts.get("port") or 5432)
    command = [sys.executable, "-m", "bench.distance", host, port, str(seconds)]
    network = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HERE.parent)
    try:
        assert network.stdout is not None
        at = int(network.stdout.readline())
        user = quote(str(parts.get("user") or "postgres"))
        yield f"postgresql://{user}@127.0.0.1:{at}/{parts['dbname']}?sslmode=disable&gssencmode=disable"
    finally:
        network.kill()
        network.wait()
        assert network.stdout is not None
        network.stdout.close()


def _reach(host: str, port: int) -> socket.socket:
    if not host.startswith("/"):
        return socket.create_connection((host, port))
    there = socket.socket(socket.AF_UNIX)
    there.connect(os.path.join(host, f".s.PGSQL.{port}"))
    return there


def _carry(source: socket.socket, target: socket.socket, seconds: float) -> None:
    """Hand on what comes, each piece when it is due."""
    under_way: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
    threading.Thread(target=_arrive, args=(under_way, target), daemon=True).start()
    data = b"-"
    while data:
        try:
            data = source.recv(CHUNK)
        except OSError:
            data = b""
        under_way.put((time.monotonic() + seconds, data))


def _arrive(under_way: queue.SimpleQueue[tuple[float, bytes]], target: socket.socket) -> None:
    while True:
        due, data = under_way.get()
        time.sleep(max(due - time.monotonic(), 0.0))
        try:
            if not data:
                target.shutdown(socket.SHUT_WR)
                return
            target.sendall(data)
        except OSError:
            return


def main(host: str, port: int, seconds: float) -> None:
    """Accept for ever."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            near, _ = server.accept()
            far = _reach(host, port)
            for one in (near, far):
                with suppress(OSError):  # a socket in a folder knows no packets
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for pair in ((near, far), (far, near)):
                threading.Thread(target=_carry, args=(*pair, seconds), daemon=True).start()


if __name__ == "__main__":
    _, where, number, away = sys.argv
    main(where, int(number), float(away))
