"""The demo from end to end: real processes, a real SIGKILL, one refund; and honest when it is not so."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure import journal
from perdure.demo.ledger import Ledger
from perdure.state import events as e
from perdure.store import open_store


def demo(folder: Path, *arguments: str, **names: str) -> subprocess.CompletedProcess[str]:
    """`perdure demo` in a folder."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("OPENAI_")}
    command = [sys.executable, "-m", "perdure", "demo", "--dir", str(folder), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=clean | names, timeout=120, check=False
    )


def history(folder: Path) -> list[e.Event]:
    async def read() -> list[e.Event]:
        store = open_store(str(folder / "perdure.db"))
        await store.open()
        try:
            return await journal.history(store, "order-1042")
        finally:
            await store.close()

    return asyncio.run(read())


def test_one_refund_in_spite_of_a_real_kill(tmp_path: Path) -> None:
    folder = tmp_path / "play"
    done = demo(folder, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["ok"], document["killed"], document["status"]) == (True, True, "succeeded")
    [paid] = Ledger(folder / "bank.db").entries()
    assert document["refunds"] == [
        {"receipt": "rf-1", "order_id": "o-77", "cents": 1200, "key": paid.key, "at": paid.at}
    ]
    assert document["model_asked"] == 3
    assert len((folder / "asked.log").read_text().splitlines()) == 3

    bodies = [event.body for event in history(folder)]
    intents = [body for body in bodies if isinstance(body, e.CallIntended) and body.head.name == "refund"]
    assert [intent.key for intent in intents] == [paid.key]
    assert [body.cause for body in bodies if isinstance(body, e.CallUnknown)] == ["crash"]
    assert [body.verdict for body in bodies if isinstance(body, e.CallReconciled)] == ["done"]
    assert sum(isinstance(body, e.RunResumed) for body in bodies) == 1
    assert "killed with SIGKILL" in next(s["text"] for s in document["scenes"] if s["who"] == "killed")
    assert "is interrupted" in next(s["text"] for s in document["scenes"] if s["who"] == "run")


def test_it_is_drawn_for_people_and_what_it_names_can_be_typed(tmp_path: Path) -> None:
    folder = tmp_path / "play"
    done = demo(folder)
    assert done.returncode == 0, done.stderr
    assert "✓ one refund, in spite of the kill" in done.stdout
    assert "refund: it had happened; not repeated" in done.stdout
    commands = [line.split("look", 1)[-1].strip() for line in done.stdout.splitlines() if "--store" in line]
    assert len(commands) == 2
    for command in commands:
        looked = subprocess.run(
            [sys.executable, "-m", *command.split()], capture_output=True, text=True, check=True
        )
        assert "order-1042" in looked.stdout


def test_a_folder_that_holds_a_play_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "perdure.db").write_text("mine")
    done = demo(tmp_path)
    assert done.returncode == 1
    assert "U708" in done.stderr
    assert (tmp_path / "perdure.db").read_text() == "mine"


ENDPOINT = """
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": "I would rather not."}
        data = json.dumps({"choices": [{"message": message}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
    def log_message(self, *_):
        pass

server = HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@pytest.fixture
def unwilling() -> Any:
    """The address of a model that refunds nothing."""
    server = subprocess.Popen([sys.executable, "-c", ENDPOINT], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    yield f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
    server.kill()
    server.wait()
    server.stdout.close()


def test_a_model_that_does_not_play_along_is_no_success(tmp_path: Path, unwilling: str) -> None:
    names = {"OPENAI_BASE_URL": unwilling, "OPENAI_API_KEY": "sk-test", "no_proxy": "*"}
    done = demo(tmp_path / "play", **names)
    assert done.returncode == 1, done.stderr
    assert "without asking the bank for a refund; nobody was killed" in done.stdout
    assert Ledger(tmp_path / "play" / "bank.db").entries() == []
