"""Waiting for what cannot be taken back.

A write that was handed to the store, a thread that runs: their end must be known before anything else is
done, so a cancellation that comes meanwhile is kept and handed back.
"""

from __future__ import annotations

import asyncio
from typing import Any


async def outlast(*futures: asyncio.Future[Any]) -> asyncio.CancelledError | None:
    """Wait until all are done, whatever happens; a cancellation meanwhile is returned, to be raised then.

    What the futures raised is left to whoever asks them.
    """
    cancelled: asyncio.CancelledError | None = None
    for future in futures:
        while not future.done():
            try:
                await until_done(future)
            except asyncio.CancelledError as error:
                cancelled = error
    return cancelled


async def until_done(future: asyncio.Future[Any]) -> None:
    """Return when the future is done, whatever it came to: like `asyncio.wait` for one, but cheaper. A
    cancellation does not reach it.
    """
    if future.done():
        return
    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(_: asyncio.Future[Any]) -> None:
        if not waiter.done():
            waiter.set_result(None)

    future.add_done_callback(wake)
    try:
        await waiter
    finally:
        future.remove_done_callback(wake)
