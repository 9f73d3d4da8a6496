"""The server example: real processes on one store, which come and go between requests."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "server"


@dataclass
class Server:
    """One server process and a client of it."""

    process: subprocess.Popen[bytes]
    client: httpx.AsyncClient

    async def json(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """One request."""
        reply = await self.client.request(method, path, json=body)
        return reply.status_code, reply.json()

    async def until(self, path: str, words: str) -> Any:
        """Look until what is told of the run has these words in it."""
        async with asyncio.timeout(30):
            while words not in str(found := (await self.json("GET", path))[1]):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        return found

    def kill(self) -> None:
        """The machine loses power."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@asynccontextmanager
async def server(folder: Path) -> AsyncIterator[Server]:
    """A server process of its own, on a free port of this machine, ready for requests."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE")}
    environment |= {"PERDURE_STORE": str(folder / "desk.db"), "DESK_LEDGER": str(folder / "ledger.jsonl")}
    command = [sys.executable, "-m", "uvicorn", "app:app", "--app-dir", str(EXAMPLE), "--port", str(port)]
    process = subprocess.Popen(command, env=environment, cwd=folder)  # noqa: ASYNC220
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
            async with asyncio.timeout(30):
                while True:
                    try:
                        await client.get("/orders/nobody")
                        break
                    except httpx.TransportError:
                        assert process.poll() is None, "the server did not start"
                        await asyncio.sleep(0.05)
            yield Server(process, client)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(timeout=20)


@pytest.mark.slow
async def test_any_server_takes_any_request(tmp_path: Path) -> None:
    """Started at one, which is killed; asked at another; answered at a third while others run; paid early."""
    async with server(tmp_path) as first:
        assert await first.json("POST", "/orders/o-77", {"cents": 25000}) == (202, {"run": "o-77"})
        waiting = await first.until("/orders/o-77", "an answer to")
        assert waiting["reasons"] == ["an answer to 'Pay 25000 cents back for o-77?' at 1:0"]
        first.kill()
    async with server(tmp_path) as second, server(tmp_path) as third:
        assert await second.json("POST", "/orders/o-77", {"cents": 25000}) == (202, {"run": "o-77"})
        code, refusal = await third.json("POST", "/orders/o-77", {"cents": 1})
        assert (code, refusal["code"]) == (409, "R205")
        code, refusal = await third.json("POST", "/orders/o-77/answer", {"by": "ana", "value": "perhaps"})
        assert (code, refusal["code"]) == (409, "A415")
        paid = {"id": "evt-1", "cents": 25000}
        assert (await second.json("POST", "/orders/o-77/paid", paid))[1]["new"] is True
        assert (await third.json("POST", "/orders/o-77/paid", paid))[1]["new"] is False
        assert (await second.json("GET", "/orders/o-77"))[1]["status"] == "waiting"
        assert (await third.json("POST", "/orders/o-77/answer", {"by": "ana", "value": True}))[0] == 202
        ended = await second.until("/orders/o-77", "succeeded")
        assert ended["result"] == ["announced 25000", "paid 25000"]
        assert (await third.json("GET", "/orders/o-77"))[1]["result"] == ended["result"]
        assert (await third.json("POST", "/orders/o-77/paid", paid))[1]["new"] is False
        code, refusal = await third.json("POST", "/orders/o-77/paid", {"id": "evt-2", "cents": 1})
        assert (code, refusal["code"]) == (409, "S117")
        assert (await third.json("GET", "/orders/nobody"))[0] == 404
        stream = (await second.client.get("/orders/o-77/events", headers={"last-event-id": "2"})).text
    numbers = [int(line.removeprefix("id: ")) for line in stream.splitlines() if line.startswith("id: ")]
    assert numbers == list(range(3, numbers[-1] + 1))
    assert "event: run.finished" in stream
    told = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]
    assert [(line["order"], line["cents"]) for line in told] == [("o-77", 25000)]
