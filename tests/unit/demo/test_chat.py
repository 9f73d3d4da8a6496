"""The desk's model: scripted answers, or an endpoint of one's own that is asked once for each answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from perdure.agent import read_reply, read_tool_calls
from perdure.demo.chat import ASKED, answer, model_name

USER = {"role": "user", "content": "Refund order o-78, please."}
ORDER = {"role": "tool", "tool_call_id": "c", "content": '{"id": "o-78", "cents": 4550}'}
PAID = {"role": "tool", "tool_call_id": "c", "content": '"rf-1"'}


@pytest.fixture(autouse=True)
def no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """No model but the scripted one."""
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL", ASKED):
        monkeypatch.delenv(name, raising=False)


async def calls(*messages: dict[str, Any]) -> list[tuple[str, Any]]:
    reply = read_reply(await answer(list(messages), []))
    return [(call.name, call.arguments) for call in read_tool_calls(reply.tool_calls)]


async def test_the_script_looks_pays_and_tells() -> None:
    assert model_name() == "scripted"
    assert await calls(USER) == [("order", {"order_id": "o-78"})]
    assert await calls(USER, ORDER) == [("refund", {"order_id": "o-78", "cents": 4550})]
    last = read_reply(await answer([USER, ORDER, PAID], []))
    assert (last.tool_calls, last.text) == ([], "The order is paid back, receipt rf-1.")


async def test_each_question_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ASKED, str(tmp_path / "asked.log"))
    await answer([USER], [])
    await answer([USER, ORDER], [])
    assert len((tmp_path / "asked.log").read_text().splitlines()) == 2


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """An endpoint that speaks chat completions and writes down what it was asked."""
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append({"path": self.path, "authorization": self.headers["Authorization"], **body})
            data = json.dumps({"choices": [{"message": {"role": "assistant", "content": "hello"}}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1/")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("no_proxy", "*")
    yield asked
    server.shutdown()
    server.server_close()
    thread.join()


async def test_an_endpoint_of_ones_own_is_asked(
    endpoint: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_MODEL", "some-model")
    assert model_name() == "some-model"
    assert read_reply(await answer([USER], [{"type": "function"}])).text == "hello"
    assert endpoint == [
        {
            "path": "/v1/chat/completions",
            "authorization": "Bearer sk-test",
            "model": "some-model",
            "messages": [USER],
            "tools": [{"type": "function"}],
        }
    ]


async def test_a_key_alone_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    assert model_name() == "scripted"
    assert await calls(USER) == [("order", {"order_id": "o-78"})]
