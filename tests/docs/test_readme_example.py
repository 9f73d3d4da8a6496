"""The README's first example, as it stands there, against a real OpenAI-compatible endpoint on loopback.

The endpoint answers in the shapes of the API; the `openai` package speaks to it over HTTP. The example is run
whole, and once more with a SIGKILL between the bank's act and its receipt.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from perdure.demo.ledger import Ledger

README = Path(__file__).resolve().parents[2] / "README.md"
CALL = {"name": "refund", "arguments": json.dumps({"order_id": "o-77", "cents": 1200})}


class Endpoint(BaseHTTPRequestHandler):
    """Asks for the refund first, and says what became of it when the tool has answered."""

    def do_POST(self) -> None:
        """POST /v1/chat/completions."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answered = [message for message in asked["messages"] if message["role"] == "tool"]
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if answered:
            message["content"] = f"Refunded: {answered[-1]['content']}"
        else:
            message["tool_calls"] = [{"id": "c1", "type": "function", "function": CALL}]
        body = {
            "id": "chat-1",
            "object": "chat.completion",
            "created": 1,
            "model": asked["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the name that http.server gives)
        """Quiet."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    """A model's API on loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()
    thread.join()


def start(folder: Path, endpoint: str, **more: str) -> subprocess.Popen[str]:
    """Run the README's first block in a folder of its own."""
    block = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    script = folder / "example.py"
    script.write_text(block[1], encoding="utf-8")
    known = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE")}
    known |= {"OPENAI_BASE_URL": endpoint, "OPENAI_API_KEY": "none", **more}
    return subprocess.Popen(
        [sys.executable, script.name],
        cwd=folder,
        env=known,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def refunds(folder: Path) -> int:
    """How often the bank has paid."""
    return len(Ledger(folder / "bank.db").entries())


def test_the_first_example_runs(tmp_path: Path, endpoint: str) -> None:
    """It finishes with the receipt, having paid once."""
    out, err = (running := start(tmp_path, endpoint)).communicate(timeout=60)
    assert running.returncode == 0, err
    assert out.strip() == "Refunded: rf-1"
    assert refunds(tmp_path) == 1


def test_the_first_example_survives_a_kill(tmp_path: Path, endpoint: str) -> None:
    """Killed after the bank has paid and before it answered; started again: one refund."""
    running = start(tmp_path, endpoint, PERDURE_BANK_PAUSE="60")
    deadline = time.monotonic() + 60
    while not ((tmp_path / "bank.db").exists() and refunds(tmp_path)):
        assert running.poll() is None, running.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.05)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    out, err = (again := start(tmp_path, endpoint)).communicate(timeout=60)
    assert again.returncode == 0, err
    assert out.strip() == "Refunded: rf-1"
    assert refunds(tmp_path) == 1
