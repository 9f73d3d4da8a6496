"""What stands between a store and its database in tests: a link that can be cut, and a pooler.

`Cutter` passes bytes, and when told breaks the link just before a COMMIT reaches the server, or after the
server has answered it. `Pooler` gives each transaction to whichever of its few sessions is free, as a pooler
in transaction mode does. Both speak as much of the wire protocol as that takes, on loopback, in a thread with
a loop of their own.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Literal
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

When = Literal["before", "after"]


class Between:
    """A server on loopback in front of the database at `url`; its own address is `self.url`."""

    def __init__(self, url: str) -> None:
        whole = urlsplit(url)
        query = {name: values[0] for name, values in parse_qs(whole.query).items()}
        host = query.pop("host", None)
        self._socket = f"{host}/.s.PGSQL.{whole.port or 5432}" if host and host.startswith("/") else None
        self._where = (host or whole.hostname or "127.0.0.1", whole.port or 5432)
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        port = self._call(self._listen())
        user = f"{whole.username}@" if whole.username else ""
        self.port = port
        self.open = True
        self.url = urlunsplit(
            whole._replace(
                netloc=f"{user}127.0.0.1:{port}",
                query=urlencode({"sslmode": "disable", "gssencmode": "disable", **query}),
            )
        )

    def close(self) -> None:
        """Break every link and stop."""
        self.open = False
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await self._link(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()

    async def _upstream(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._socket:
            return await asyncio.open_unix_connection(self._socket)
        return await asyncio.open_connection(*self._where)

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError


class Cutter(Between):
    """Breaks links. `cut`: what to do at the next COMMIT; `cuts`: what was done so far."""

    def __init__(self, url: str) -> None:
        self.cut: When | None = None
        self.cuts: list[When] = []
        self._links: set[asyncio.StreamWriter] = set()
        super().__init__(url)

    def cut_all(self) -> None:
        """Break every link that there is now."""
        self._call(self._abort())

    async def _abort(self) -> None:
        for writer in list(self._links):
            writer.transport.abort()

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await self._upstream()
        ends = {writer, to_server}
        self._links |= ends
        dropping = asyncio.Event()

        async def forth() -> None:
            while data := await reader.read(1 << 16):
                if self.cut and b"COMMIT\0" in data:
                    when, self.cut = self.cut, None
                    self.cuts.append(when)
                    if when == "before":
                        return
                    dropping.set()
                to_server.write(data)
                await to_server.drain()

        async def back() -> None:
            while data := await from_server.read(1 << 16):
                if dropping.is_set():  # the server has answered
                    return
                writer.write(data)
                await writer.drain()

        ways = [asyncio.ensure_future(forth()), asyncio.ensure_future(back())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self._links -= ends
            for end in ends:
                end.transport.abort()
                with suppress(OSError):
                    await end.wait_closed()


class Pooler(Between):
    """A pooler in transaction mode: a client keeps a session for one transaction, the next gets another."""

    def __init__(self, url: str, sessions: int = 3) -> None:
        self._user = urlsplit(url).username or "postgres"
        self._database = urlsplit(url).path.lstrip("/")
        self._count = sessions
        self._free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        self._greeting = b""
        super().__init__(url)
        self._call(self._begin())

    async def _begin(self) -> None:
        for _ in range(self._count):
            reader, writer = await self._upstream()
            words = f"user\0{self._user}\0database\0{self._database}\0client_encoding\0utf8\0\0".encode()
            writer.write(struct.pack("!ii", len(words) + 8, 196608) + words)
            kept = b""
            while True:
                kind, body = await _message(reader)
                if kind != b"K":  # the key of the session is not the client's
                    kept += _framed(kind, body)
                if kind == b"Z":
                    break
            self._greeting = kept[:-6] + _framed(b"K", struct.pack("!ii", 1, 1)) + kept[-6:]
            self._free.put_nowait((reader, writer))

    async def _stop(self) -> None:
        await super()._stop()
        while not self._free.empty():
            writer = self._free.get_nowait()[1]
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (size,) = struct.unpack("!i", await reader.readexactly(4))
        await reader.readexactly(size - 4)
        writer.write(self._greeting)
        asked: asyncio.Future[tuple[bytes, bytes]] = asyncio.ensure_future(_message(reader))
        try:
            while True:
                await asyncio.wait([asked])
                if asked.result()[0] == b"X":
                    return
                session = await self._free.get()
                try:
                    asked = await self._transaction(asked, reader, writer, session)
                finally:
                    self._free.put_nowait(session)
        finally:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)

    async def _transaction(
        self,
        asked: asyncio.Future[tuple[bytes, bytes]],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        session: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> asyncio.Future[tuple[bytes, bytes]]:
        """Pass messages both ways until the server is idle and every question was answered.

        Returns what the client asks next.
        """
        open_questions, idle = 0, False
        from_server, to_server = session
        told = asyncio.ensure_future(_message(from_server))
        try:
            while not (idle and not open_questions):
                await asyncio.wait([asked, told], return_when=asyncio.FIRST_COMPLETED)
                if asked.done():
                    kind, body = asked.result()
                    if kind == b"X":
                        raise ConnectionError
                    open_questions += kind in (b"Q", b"S")
                    to_server.write(_framed(kind, body))
                    asked = asyncio.ensure_future(_message(reader))
                if told.done():
                    kind, body = told.result()
                    writer.write(_framed(kind, body))
                    if kind == b"Z":
                        open_questions, idle = open_questions - 1, body == b"I"
                        if idle and not open_questions:
                            break
                    told = asyncio.ensure_future(_message(from_server))
        except BaseException:
            asked.cancel()
            raise
        finally:
            told.cancel()
        return asked


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readexactly(5)
    return head[:1], await reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)


def _framed(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body
