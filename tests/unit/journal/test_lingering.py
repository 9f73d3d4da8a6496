"""What may wait a little: one timer for all runs of a loop; a barrier knows what became of a write."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.errors import StoreIO
from perdure.journal import Lingering
from perdure.store.protocol import Appended
from tests.unit.journal.book import opened, receipt, turn


class _Notes:
    """Hears that it has lingered."""

    def __init__(self) -> None:
        self.heard: list[float] = []
        self.told = asyncio.Event()

    def lingered(self, since: float) -> None:
        self.heard.append(since)
        self.told.set()


async def test_one_timer_serves_many() -> None:
    """Each is told of its own moment, once; and whoever comes later is told as well."""
    lingering, many = Lingering(), [_Notes() for _ in range(50)]
    loop = asyncio.get_running_loop()
    timers: list[float] = []
    call_at = loop.call_at

    def counted(when: float, *rest: Any, **more: Any) -> asyncio.TimerHandle:
        timers.append(when)
        return call_at(when, *rest, **more)

    loop.call_at = counted  # type: ignore[method-assign,assignment]
    for number, one in enumerate(many):
        lingering.add(one, float(number))
    assert len(timers) == 1
    await asyncio.gather(*(one.told.wait() for one in many))
    assert [one.heard for one in many] == [[float(number)] for number in range(50)]
    late = _Notes()
    lingering.add(late, 1.0)
    await late.told.wait()
    assert late.heard == [1.0]


def test_what_waited_in_a_loop_that_has_ended_waits_for_nothing() -> None:
    """Its timer never comes, and must keep nobody in another loop waiting."""
    lingering, lost, found = Lingering(), _Notes(), _Notes()

    async def left() -> None:
        lingering.add(lost, 1.0)

    async def heard() -> None:
        lingering.add(found, 2.0)
        await found.told.wait()

    asyncio.run(left())
    asyncio.run(heard())
    assert (lost.heard, found.heard) == ([], [2.0])


async def test_what_was_sent_leaves_what_came_later_for_another_time() -> None:
    """The moment at which a fact began to wait is its own."""
    book = await opened()
    await book.journal.append(receipt(1))
    book.clock.advance(0.004)
    first = book.journal._since
    book.journal.flush()
    await book.journal.append(receipt(2))
    book.journal.lingered(first)
    assert len(book.disk.queue) == 1
    book.journal.lingered(book.journal._since)
    assert len(book.disk.queue) == 2


async def test_nothing_lingers_once_the_journal_is_abandoned() -> None:
    """The lease is lost: what was not sent is not sent any more."""
    book = await opened()
    await book.journal.append(receipt(1))
    book.journal.abandon()
    book.journal.lingered(book.journal._since)
    assert not book.disk.queue


async def test_a_barrier_does_not_pass_before_a_failure_is_known() -> None:
    """The store has answered, and the loop has not come round to the journal yet."""
    book = await opened()
    await book.journal.append(receipt(1))
    failing: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
    book.disk.append = lambda batch: failing  # type: ignore[method-assign]
    book.journal.flush()
    failing.set_exception(StoreIO("the disk failed"))
    with pytest.raises(StoreIO):
        await book.journal.barrier()


async def test_a_cancelled_wait_leaves_the_write_and_who_else_waits_for_it() -> None:
    """Two branches wait for one write; one of them is given up."""
    book = await opened()
    await book.journal.append(receipt(1))
    waits = [asyncio.create_task(book.journal.barrier()) for _ in range(2)]
    await turn()
    waits[0].cancel()
    await turn()
    assert waits[0].cancelled()
    assert not waits[1].done()
    book.disk.commit()
    await waits[1]
    assert await book.durable() == 2
