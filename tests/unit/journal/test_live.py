"""The journal while its run is driven: numbers, barriers, bounds, fences, transactions, ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from perdure import codec
from perdure.errors import InboxMoved, StaleEpoch
from perdure.journal import Fences, verify
from perdure.journal import live as live_journal
from perdure.state import events as e
from perdure.store.protocol import NEVER, Message, RowChange
from tests.unit.journal.book import LEASE, RUN, claimed, intent, large, opened, receipt, turn

# ----------------------------------------------------------------------------------------- append and barrier


async def test_facts_are_numbered_and_folded_at_once_and_written_later() -> None:
    book = await opened()
    assert await book.journal.append(receipt(0), receipt(1)) == 3
    assert set(book.journal.record.calls) == {"1:0", "1:1"}
    assert await book.durable() == 1
    barrier = asyncio.create_task(book.journal.barrier())
    await turn()
    assert not barrier.done()
    book.disk.commit()
    await barrier
    assert await book.durable() == 3
    assert (await verify(book.store, RUN)).ok


async def test_a_barrier_covers_what_was_appended_before_it_and_nothing_else() -> None:
    book = await opened()
    await book.journal.append(receipt(0))
    barrier = asyncio.create_task(book.journal.barrier())
    await turn()
    await book.journal.append(receipt(1))
    book.disk.commit()
    await barrier
    assert await book.durable() == 2


async def test_strict_waits_for_every_fact() -> None:
    book = await opened(durability="strict")
    append = asyncio.create_task(book.journal.append(receipt(0)))
    await turn()
    assert not append.done()
    book.disk.commit()
    await append
    assert await book.durable() == 2


async def test_an_appender_waits_when_too_many_events_are_unwritten() -> None:
    book = await opened()

    async def flood() -> None:
        for n in range(3 * live_journal.UNACKED_EVENTS):
            await book.journal.append(receipt(n))

    task = asyncio.create_task(flood())
    most = 0
    while not task.done():
        await turn()
        most = max(most, sum(len(batch.events) for batch, _ in book.disk.queue))
        book.disk.commit()
    assert most <= live_journal.UNACKED_EVENTS + live_journal.PENDING_EVENTS
    assert book.disk.commits >= 3


async def test_an_appender_waits_when_too_many_bytes_are_unwritten() -> None:
    book = await opened()

    async def flood() -> None:
        for n in range(30):
            await book.journal.append(receipt(n, large(n)))

    task = asyncio.create_task(flood())
    most = 0
    while not task.done():
        await turn()
        queued = [batch for batch, _ in book.disk.queue]
        most = max(most, sum(len(blob.data) for batch in queued for blob in batch.blobs))
        book.disk.commit()
    assert 1 << 20 <= most <= live_journal.UNACKED_BYTES + (2 << 20)


# -------------------------------------------------------------------------------------------- fenced appends


async def test_facts_intended_together_share_a_write() -> None:
    book = await opened()
    intents = [asyncio.create_task(book.journal.intend([intent(n)], Fences(0))) for n in range(16)]
    await turn()
    assert [len(batch.events) for batch, _ in book.disk.queue] == [16]
    assert not any(task.done() for task in intents)
    book.disk.commit()
    await asyncio.gather(*intents)
    assert await book.durable() == 17


@pytest.mark.parametrize("alone", [False, True])
async def test_a_fence_that_no_longer_holds_refuses_the_intent_alone(alone: bool) -> None:
    """What was appended before is written; the journal goes on, and the same fact may be intended again."""
    book = await opened()
    await book.journal.append(receipt(0))
    await book.store.deliver(Message(RUN, "m-1", "cancel", codec.encode({"by": "ada"})))
    refused = asyncio.create_task(book.journal.intend([intent(1)], Fences(0), alone=alone))
    await turn()
    book.disk.commit()
    with pytest.raises(InboxMoved):
        await refused
    assert "1:1" not in book.journal.record.calls
    assert await book.durable() == 2
    again = asyncio.create_task(book.journal.intend([intent(1)], Fences(1), alone=alone))
    await turn()
    book.disk.commit()
    await again
    assert book.journal.record.calls["1:1"].standing == "open"
    assert await book.durable() == 3
    assert (await verify(book.store, RUN)).ok


@pytest.mark.parametrize("alone", [False, True])
async def test_several_facts_of_one_intent_are_written_together_or_not_at_all(alone: bool) -> None:
    book = await opened()
    await book.store.deliver(Message(RUN, "m-1", "cancel", codec.encode({"by": "ada"})))
    bodies: list[e.AnyBody] = [receipt(0), intent(1)]
    for seen, written in ((0, 0), (1, 2)):
        task = asyncio.create_task(book.journal.intend(bodies, Fences(seen), alone=alone))
        await turn()
        book.disk.commit()
        found = (await asyncio.gather(task, return_exceptions=True))[0]
        assert isinstance(found, InboxMoved) is not bool(written)
        assert await book.durable() == 1 + written
        assert len(book.journal.record.calls) == written


async def test_a_refused_group_is_refused_whole_and_leaves_no_gap() -> None:
    book = await opened()
    await book.store.deliver(Message(RUN, "m-1", "cancel", codec.encode({"by": "ada"})))
    tasks = [asyncio.create_task(book.journal.intend([intent(n)], Fences(1 if n else 0))) for n in range(3)]
    await turn()
    book.disk.commit()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(error) for error in found] == [InboxMoved] * 3
    append = asyncio.create_task(book.journal.append(receipt(9)))
    await append
    await book.flushed()
    assert await book.durable() == 2
    assert (await verify(book.store, RUN)).ok


async def test_a_cancelled_intent_is_written_all_the_same_and_its_siblings_go_on() -> None:
    """What was handed to the store cannot be taken back; the cancellation comes when that is known."""
    book = await opened()
    tasks = [asyncio.create_task(book.journal.intend([intent(n)], Fences(0))) for n in range(3)]
    await turn()
    tasks[0].cancel()
    await turn()
    tasks[0].cancel()
    await turn()
    assert not tasks[0].done()
    book.disk.commit()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert found[1:] == [None, None]
    assert {call.standing for call in book.journal.record.calls.values()} == {"open"}
    assert await book.durable() == 4


async def test_what_a_row_is_told_during_a_fenced_write_waits_for_its_end() -> None:
    """It is written with the number that the run then has, or the store would refuse it and end the drive."""
    book = await opened()
    fenced = asyncio.create_task(book.journal.intend([intent(0), receipt(1)], Fences(0)))
    await turn()
    assert len(book.disk.queue) == 1
    book.journal.tell(RowChange(info=b"asks", asks=True))
    book.journal.flush()  # as the timer does
    await turn()
    assert len(book.disk.queue) == 1
    book.disk.commit()
    await fenced
    await book.flushed()
    assert (await book.store.row(RUN)).info == b"asks"
    assert await book.durable() == 3
    await book.journal.append(receipt(2))
    await book.flushed()
    assert await book.durable() == 4


async def test_a_cancelled_intent_of_a_run_without_branches_is_written_all_the_same() -> None:
    book = await opened()
    task = asyncio.create_task(book.journal.intend([intent(0)], Fences(0), alone=True))
    await turn()
    assert len(book.disk.queue) == 1
    for _ in range(2):
        task.cancel()
        await turn()
        assert not task.done()
    book.disk.commit()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert book.journal.record.calls["1:0"].standing == "open"
    assert await book.durable() == 2
    await book.journal.append(receipt(1))
    await book.flushed()
    assert (await verify(book.store, RUN)).ok


@pytest.mark.parametrize("alone", [False, True])
async def test_what_is_appended_during_a_fenced_write_comes_behind_it(alone: bool) -> None:
    """Also for who cannot wait, and for who is cancelled while waiting: no fact is lost."""
    book = await opened()
    fenced = asyncio.create_task(book.journal.intend([intent(0)], Fences(0), alone=alone))
    await turn()
    book.journal.append_soon(receipt(1))
    waiting = asyncio.create_task(book.journal.append(receipt(2)))
    cancelled = asyncio.create_task(book.journal.append(receipt(3)))
    await turn()
    cancelled.cancel()
    await turn()
    assert set(book.journal.record.calls) == {"1:0"}
    book.disk.commit()
    await asyncio.gather(fenced, waiting)
    assert list(book.journal.record.calls) == ["1:0", "1:1", "1:2", "1:3"]
    await book.flushed()
    assert await book.durable() == 5
    assert (await verify(book.store, RUN)).ok


# ----------------------------------------------------------------------------------------------- transactions


async def test_a_transaction_that_raises_leaves_nothing_of_itself() -> None:
    book = await opened()
    await book.journal.append(receipt(0))

    def act(tx: Any) -> Sequence[e.AnyBody]:
        tx.execute("CREATE TABLE t (x)")
        raise LookupError("no")

    task = asyncio.create_task(book.journal.transact(act, seconds=1.0, fences=Fences(0)))
    await turn()
    book.disk.commit()
    with pytest.raises(LookupError):
        await task
    assert list(book.journal.record.calls) == ["1:0"]
    await book.journal.append(receipt(1))
    await book.flushed()
    assert await book.durable() == 3
    assert (await verify(book.store, RUN)).ok


async def test_a_cancelled_transaction_is_outlasted() -> None:
    book = await opened()
    task = asyncio.create_task(book.journal.transact(lambda tx: (receipt(0),), seconds=1.0, fences=Fences(0)))
    await turn()
    task.cancel()
    await turn()
    assert not task.done()
    book.journal.append_soon(receipt(1))
    book.disk.commit()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list(book.journal.record.calls) == ["1:0", "1:1"]
    assert await book.durable() == 2


# ------------------------------------------------------------------------------------------------------- ends


async def test_closing_is_one_write_with_the_last_facts() -> None:
    book = await opened()
    await book.journal.append(receipt(0))
    closing = asyncio.create_task(
        book.journal.close(RowChange(status="waiting", due_at=NEVER), e.WaitOpened("1:1", "sleep", 5))
    )
    await turn()
    assert [(len(batch.events), batch.release) for batch, _ in book.disk.queue] == [(2, True)]
    book.disk.commit()
    await closing
    row = await book.store.row(RUN)
    assert (row.status, row.worker, row.seq) == ("waiting", None, 3)
    assert book.journal.closed


async def test_a_stale_epoch_writes_nothing_and_keeps_its_receipts_for_the_new_owner() -> None:
    book = await opened()
    await book.intended(intent(0))
    act = book.journal.record.calls["1:0"]
    book.clock.advance(LEASE + 1)
    other = await claimed(book.store, book.clock, "other")
    assert other.journal.epoch == book.journal.epoch + 1
    done = e.CallSettled("1:0", "done", codec.encode("paid"))
    await book.journal.append(done)
    with pytest.raises(StaleEpoch):
        await book.flushed()
    assert await book.durable() == 2
    assert book.journal.refused == [(done, act)]
    journal = book.journal
    for write in (journal.append(receipt(5)), journal.intend([intent(6)], Fences(0)), journal.barrier()):
        with pytest.raises(StaleEpoch):
            await write
    with pytest.raises(StaleEpoch):
        await book.journal.transact(lambda tx: (), seconds=1.0, fences=Fences(0))
    assert await book.durable() == 2


async def test_a_refusal_that_is_known_at_once_is_no_success() -> None:
    """On a store that answers immediately too, a barrier after a refusal raises."""
    book = await opened()
    book.journal.store = book.store
    book.clock.advance(LEASE + 1)
    await claimed(book.store, book.clock, "other")
    await book.journal.append(receipt(0))
    with pytest.raises(StaleEpoch):
        await book.journal.barrier()
