"""What a worker answers to probes: alive, ready, why not; also while its event loop is blocked."""

from __future__ import annotations

import asyncio
import json
import socket
import time
import urllib.error
import urllib.request
from typing import Any

import pytest

from perdure import Run, Runtime
from perdure.errors import BadSetting
from perdure.store.memory import MemoryStore
from perdure.worker import health
from perdure.worker.health import Health, address_of, judged
from tests.unit.runtime.desk import agent_of

FINE: dict[str, Any] = {
    "loop_seconds": 0.1,
    "store_seconds": 0.1,
    "store_error": "",
    "draining": False,
    "fenced": False,
    "ended": False,
}


def probe(address: str, path: str) -> tuple[int, dict[str, Any]]:
    """The status and the document."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.mark.parametrize(
    ("change", "live", "ready"),
    [
        ({}, True, True),
        ({"loop_seconds": health.LIVE_SECONDS - 1}, True, True),
        ({"loop_seconds": health.LIVE_SECONDS}, False, False),
        ({"ended": True}, False, False),
        ({"draining": True}, True, False),
        ({"fenced": True}, True, False),
        ({"store_error": "the disk failed"}, True, False),
        ({"store_seconds": health.ANSWER_SECONDS}, True, False),
    ],
)
def test_what_is_told_of_what_is_counted(change: dict[str, Any], live: bool, ready: bool) -> None:
    told = judged(FINE | change)
    assert (told["live"], told["ready"], bool(told["why"])) == (live, ready, not ready)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("8080", ("127.0.0.1", 8080)),
        (":8080", ("127.0.0.1", 8080)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
        ("[::1]:80", ("::1", 80)),
    ],
)
def test_an_address_is_of_this_machine_alone_unless_it_says_more(text: str, address: tuple[str, int]) -> None:
    assert address_of(text) == address


@pytest.mark.parametrize("text", ["", "host", "host:", "host:port", "1:99999", "host:-1"])
def test_no_address_is_refused(text: str) -> None:
    with pytest.raises(BadSetting):
        address_of(text)


async def test_a_worker_answers_while_it_serves_drains_and_is_blocked() -> None:
    """Another path is not found, and a taken port is named."""

    async def step(run: Run[Any]) -> None:
        run.finish()

    store = MemoryStore()
    async with Runtime(store, [agent_of(step)], workers=3) as place:
        assert place.worker is not None
        answers = Health("127.0.0.1", 0, place.worker.facts)
        try:
            status, told = await asyncio.to_thread(probe, answers.address, "/ready")
            assert (status, told["ready"], told["why"], told["concurrency"]) == (200, True, [], 3)
            status, told = await asyncio.to_thread(probe, answers.address, "/runs")
            assert (status, set(told)) == (404, {"error"})
            with pytest.raises(BadSetting, match="nothing can listen"):
                Health("127.0.0.1", int(answers.address.rpartition(":")[2]), place.worker.facts)
            asked = asyncio.create_task(asyncio.to_thread(probe, answers.address, "/live"))
            await asyncio.sleep(0)
            time.sleep(0.3)  # noqa: ASYNC251 - the loop is blocked on purpose
            assert asked.get_loop() is asyncio.get_running_loop()
            assert (await asked)[0] == 200
            await place.drained()
            status, told = await asyncio.to_thread(probe, answers.address, "/ready")
            assert (status, told["live"], told["draining"], told["ended"]) == (503, False, True, True)
        finally:
            answers.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_it_listens_by_either_version_of_the_protocol_and_asks_no_name_service(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose address that is may take a name service many seconds, in which no run goes on."""
    monkeypatch.setattr(socket, "getfqdn", lambda *_: pytest.fail("a name service was asked"))
    monkeypatch.setattr(socket, "gethostbyaddr", lambda *_: pytest.fail("a name service was asked"))
    answers = Health(host, 0, lambda: dict(FINE))
    try:
        assert probe(answers.address, "/ready")[0] == 200
    finally:
        answers.close()
