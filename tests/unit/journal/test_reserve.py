"""What a journal writes on a full disk: receipts, verdicts and ends from the reserve, intents not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from perdure import codec
from perdure.errors import DiskFull
from perdure.journal import load, verify
from perdure.state import events as e
from perdure.store.memory import MemoryStore
from perdure.store.protocol import NEVER, Appended, Batch, RowChange
from perdure.testing.clock import MovableClock
from tests.unit.journal.book import RUN, Book, intent, opened, receipt, turn


class FullStore(MemoryStore):
    """A store whose disk may be full: then it takes only what may use the reserve."""

    full = False

    def append(self, batch: Batch) -> asyncio.Future[Appended]:
        """Write, or refuse."""
        if not self.full or batch.reserve:
            return super().append(batch)
        refused: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        refused.set_exception(DiskFull("no room", path="/nowhere"))
        return refused


async def full(*before: e.AnyBody) -> tuple[Book, FullStore]:
    """A run with these facts, on a disk that is full from here on."""
    store = FullStore(clock=MovableClock())
    book = await opened(store)
    for body in before:
        await (book.intended(body) if isinstance(body, e.CallIntended) else book.journal.append(body))
    await book.flushed()
    store.full = True
    return book, store


UNKNOWN = e.CallUnknown("1:0", "timeout", 5)
HELD = e.RunHeld("step-error", "it broke", ("perdure retry r",))


@pytest.mark.parametrize(
    ("before", "body"),
    [
        ([intent(0)], e.CallSettled("1:0", "done", codec.encode("paid"))),
        ([intent(0)], UNKNOWN),
        ([intent(0), UNKNOWN], e.CallReconciled("1:0", "not_done", "hook")),
        ([intent(0), UNKNOWN], e.CallLate("1:0", 1, "done", codec.encode("paid"), used=True)),
        ([], e.CancelRequested("ada")),
        ([], HELD),
        ([HELD], e.RunReleased("ada", "retry")),
        ([], e.RunFinished("succeeded", codec.encode(1))),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_receipts_verdicts_and_ends_are_written(before: list[e.AnyBody], body: e.AnyBody) -> None:
    """With everything that lies before them."""
    book, store = await full(*before)
    seq = await book.durable()
    await book.journal.append(receipt(7))
    if isinstance(body, e.RunFinished):
        closing = book.journal.close(RowChange(status="succeeded", terminal=True), body)
        await closed(book, lambda: closing)
    else:
        await book.journal.append(body)
        await book.flushed()
    assert await book.durable() == seq + 2
    assert (await load(store, RUN)).record == book.journal.record
    assert (await verify(store, RUN)).ok


async def test_an_intent_is_refused_alone() -> None:
    """And the journal goes on: the run can be held, or ended."""
    book, store = await full()
    with pytest.raises(DiskFull):
        await book.intended(intent(0))
    assert book.journal.record.calls == {}
    await book.journal.append(HELD)
    await book.flushed()
    assert (await load(store, RUN)).record.held is not None


async def test_a_read_is_refused_and_what_follows_it_too() -> None:
    """Its journal has a gap from then on: nothing behind it may be written."""
    book, _ = await full()
    await book.journal.append(receipt(0))
    with pytest.raises(DiskFull):
        await book.flushed()
    for body in (receipt(1), HELD):
        with pytest.raises(DiskFull):
            await book.journal.append(body)
    assert await book.durable() == 1


async def test_while_an_act_is_under_way_what_comes_before_its_receipt_is_written() -> None:
    """A read that ends meanwhile must not cost the act its receipt."""
    book, store = await full(intent(0))
    await book.journal.append(receipt(1))
    await book.flushed()
    done = e.CallSettled("1:0", "done", codec.encode("paid"))
    await book.journal.append(done)
    await book.flushed()
    assert (await load(store, RUN)).record.calls["1:0"].standing == "done"
    assert book.journal.refused == []
    await book.journal.append(receipt(2))  # the act is over: reads are refused again
    with pytest.raises(DiskFull):
        await book.flushed()


async def test_an_intent_that_was_refused_is_no_act_under_way() -> None:
    book, _ = await full()
    with pytest.raises(DiskFull):
        await book.intended(intent(0))
    await book.journal.append(receipt(1))
    with pytest.raises(DiskFull):
        await book.flushed()


@pytest.mark.parametrize("outcome", ["done", "failed", "not_done"])
async def test_the_receipt_of_an_act_that_failed_ends_it_too(outcome: Any) -> None:
    book, _ = await full(intent(0))
    await book.journal.append(e.CallSettled("1:0", outcome, codec.encode(None), final=False))
    await book.flushed()
    await book.journal.append(receipt(1))
    with pytest.raises(DiskFull):
        await book.flushed()


@pytest.mark.parametrize(
    ("last", "change"),
    [
        ((HELD,), RowChange(status="held", due_at=NEVER)),
        ((e.RunFinished("succeeded", b"\x01"),), RowChange(status="succeeded", terminal=True)),
        ((), RowChange(due_at=0)),
    ],
    ids=["held", "finished", "given back"],
)
async def test_an_end_is_written_with_what_lies_before_it(
    last: tuple[e.AnyBody, ...], change: RowChange
) -> None:
    book, store = await full()
    if last:
        await book.journal.append(receipt(0))
    await closed(book, lambda: book.journal.close(change, *last))
    row = await store.row(RUN)
    assert (row.worker, row.seq) == (None, 3 if last else 1)
    assert (await verify(store, RUN)).ok


async def test_a_run_that_goes_to_sleep_waits_for_room() -> None:
    """A wait is neither a receipt nor an end; runs that wake and sleep would use the reserve up."""
    book, _ = await full()
    change, wait = RowChange(status="waiting", due_at=9), e.WaitOpened("1:0", "sleep", 9)
    with pytest.raises(DiskFull):
        await closed(book, lambda: book.journal.close(change, wait))


async def closed(book: Book, close: Callable[[], Any]) -> None:
    """Close a journal while the disk writes."""
    task = asyncio.ensure_future(close())
    await turn()
    book.disk.commit()
    await task
