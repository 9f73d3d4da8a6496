"""How the desk speaks to the bank's server: three requests over plain HTTP, by the standard library alone."""

from __future__ import annotations

import asyncio
import json
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote, urlsplit

TIMEOUT_SECONDS = 20.0
"""How long the bank may take to answer."""


class BankRefused(Exception):
    """The bank said no: `status` is its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"the bank said no ({status}): {message}")
        self.status = status
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.status, self.message))


class Bank:
    """A bank at `url`, such as http://127.0.0.1:8100."""

    def __init__(self, url: str) -> None:
        self.address = urlsplit(url).netloc

    async def order(self, order_id: str) -> dict[str, Any]:
        """Look an order up. Raises BankRefused."""
        return dict(await self._ask("GET", f"/orders/{quote(order_id, safe='')}"))

    async def refund(self, order_id: str, cents: int, *, key: str) -> str:
        """Have it paid back: the receipt. Raises BankRefused. A lost connection says nothing of the money."""
        paid = await self._ask("POST", "/refunds", {"order_id": order_id, "cents": cents}, key)
        return str(paid["receipt"])

    async def find(self, key: str) -> str | None:
        """The receipt of what was paid under this key, or None."""
        try:
            return str((await self._ask("GET", f"/refunds/{quote(key, safe='')}"))["receipt"])
        except BankRefused as refused:
            if refused.status == 404:
                return None
            raise

    async def ledger(self) -> list[dict[str, Any]]:
        """Everything the bank has paid."""
        return list(await self._ask("GET", "/ledger"))

    async def _ask(self, method: str, path: str, body: Any = None, key: str = "") -> Any:
        return await asyncio.to_thread(_request, self.address, method, path, body, key)


def _request(address: str, method: str, path: str, body: Any, key: str) -> Any:
    connection = HTTPConnection(address, timeout=TIMEOUT_SECONDS)
    try:
        headers = {"Idempotency-Key": key} if key else {}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        reply = connection.getresponse()
        answer = json.loads(reply.read())
    finally:
        connection.close()
    if reply.status != 200:
        raise BankRefused(reply.status, str(answer.get("error", answer)))
    return answer
