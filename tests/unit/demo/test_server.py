"""The bank as a server of its own: four pages, a payment that stands whatever becomes of its caller."""

from __future__ import annotations

import json
import pickle
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from perdure.demo.client import Bank, BankRefused
from perdure.demo.ledger import Ledger
from perdure.demo.server import Counter, serve


@pytest.fixture
def told() -> list[dict[str, Any]]:
    """What the bank tells."""
    return []


@pytest.fixture
def counter(tmp_path: Path, told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> Counter:
    """A bank's counter that tells into a list."""
    monkeypatch.setattr(Counter, "tell", lambda self, **what: told.append(what))
    return Counter(Ledger(tmp_path / "bank.db"), hold_first=False)


@pytest.fixture
def url(counter: Counter) -> Iterator[str]:
    """A bank that serves."""
    server = serve(counter)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


async def test_orders_refunds_and_the_ledger(url: str, told: list[dict[str, Any]]) -> None:
    bank = Bank(url)
    assert (await bank.order("o-77"))["cents"] == 1200
    assert await bank.find("k/1") is None
    assert await bank.refund("o-77", 1200, key="k/1") == "rf-1"
    assert await bank.find("k/1") == "rf-1"
    assert await bank.refund("o-77", 1200, key="k/1") == "rf-2"
    assert [paid["receipt"] for paid in await bank.ledger()] == ["rf-1", "rf-2"]
    assert {"paid": "rf-1", "order": "o-77", "cents": 1200, "key": "k/1"} in told
    assert {"asked": "k/1", "found": "rf-1"} in told


async def test_a_refusal_is_a_definite_answer(url: str) -> None:
    bank = Bank(url)
    with pytest.raises(BankRefused) as unknown:
        await bank.order("o-1")
    with pytest.raises(BankRefused) as refused:
        await bank.refund("o-1", 5, key="k")
    assert str(unknown.value) == str(refused.value) == "the bank said no (404): there is no order o-1"
    again = pickle.loads(pickle.dumps(refused.value))
    assert (again.status, again.message) == (404, "there is no order o-1")
    assert await bank.ledger() == []


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/", None, 404),
        ("GET", "/orders", None, 404),
        ("POST", "/refunds", "not json", 400),
        ("POST", "/refunds", '{"order_id": "o-77"}', 400),
        ("POST", "/refunds", "[]", 400),
    ],
)
def test_what_is_not_understood_is_refused(
    url: str, counter: Counter, method: str, path: str, body: str | None, status: int
) -> None:
    connection = HTTPConnection(url.removeprefix("http://"))
    connection.request(method, path, body)
    reply = connection.getresponse()
    assert reply.status == status
    assert "error" in json.loads(reply.read())
    connection.close()
    assert counter.book.entries() == []


def test_a_held_answer_leaves_only_when_its_caller_is_gone(
    url: str, counter: Counter, told: list[dict[str, Any]]
) -> None:
    counter.hold_first = True
    host, port = url.removeprefix("http://").split(":")
    body = b'{"order_id": "o-77", "cents": 1200}'
    request = b"POST /refunds HTTP/1.1\r\nIdempotency-Key: k-1\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.create_connection((host, int(port))) as caller:
        caller.sendall(request + body)
        while not told:
            pass
        caller.settimeout(0.2)
        with pytest.raises(TimeoutError):
            caller.recv(1)
    assert [paid.key for paid in counter.book.entries()] == ["k-1"]
    assert counter.hold_first is False


async def test_only_the_first_answer_is_held(url: str, counter: Counter) -> None:
    counter.hold_first = True
    assert counter.take_hold() is True
    assert await Bank(url).refund("o-77", 1200, key="k-2") == "rf-1"
