"""Promises about what is sent to a run without a lease (laws 9 and 10)."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from perdure.errors import RunEnded, RunGone, StaleEpoch
from perdure.store.protocol import NEVER, Batch, Claim, Delivered, Inbound, Message, RowChange
from perdure.testing.contract.trial import Promises, Trial, events, message, promise, refused


class MessagePromises(Promises):
    """A run's inbox."""

    @promise
    async def test_messages_lie_in_the_order_of_their_coming(self, trial: Trial) -> None:
        await trial.new_run()
        assert await trial.store.deliver(Message("r", "m1", "signal", b"")) == Delivered(1, True)
        trial.clock.advance(1)
        assert await trial.store.deliver(Message("r", "m2", "cancel", bytes(range(256)))) == Delivered(
            2, True
        )
        now = trial.clock.now()
        first = Inbound(1, "m1", "signal", b"", now - 1_000_000)
        second = Inbound(2, "m2", "cancel", bytes(range(256)), now)
        assert await trial.store.inbox("r") == (first, second)
        assert await trial.store.inbox("r", after=1) == (second,)
        loaded = await trial.store.load("r")
        assert loaded.inbox == (first, second)
        assert (loaded.row.inbox, loaded.row.pending) == (2, 2)

    @promise
    async def test_each_write_of_a_run_tells_how_far_its_inbox_goes(self, trial: Trial) -> None:
        """Whoever drives it learns of a cancel by its own next write, wherever that was sent."""
        await trial.lease()
        other = await trial.another() if self.shared else trial.store
        assert (await trial.store.append(Batch("r", 1, 1, events(2, 2)))).inbox == 0
        for count in (1, 2):
            await other.deliver(message("r", f"m{count}"))
            found = await trial.store.append(Batch("r", 1, 1 + count, events(2 + count, 2 + count)))
            assert (found.seq, found.inbox) == (2 + count, count)
        last = await trial.store.append(Batch("r", 1, 4, events(5, 5), taken=(1, 2)))
        assert last.inbox == 2, "what was taken was there"

    @promise
    async def test_one_id_counts_once_even_after_it_was_taken(self, trial: Trial) -> None:
        await trial.lease()
        again = Delivered(1, False)
        await trial.store.deliver(message("r", "m1", b"first"))
        assert await trial.store.deliver(message("r", "m1", b"second")) == again
        await trial.store.append(Batch("r", 1, 1, events(2, 2), taken=(1,)))
        assert await trial.store.deliver(message("r", "m1", b"third")) == again
        row = await trial.store.row("r")
        assert (row.inbox, row.pending) == (1, 0)
        assert await trial.store.inbox("r") == ()
        await trial.store.append(Batch("r", 1, 2, row=RowChange(terminal=True)))
        assert await trial.store.deliver(message("r", "m1")) == again
        with refused(RunEnded):
            await trial.store.deliver(message("r", "m2"))

    @promise
    async def test_a_run_that_has_ended_keeps_what_may_come_after_its_end(self, trial: Trial) -> None:
        await trial.lease()
        await trial.store.append(Batch("r", 1, 1, row=RowChange(status="succeeded", terminal=True)))
        late = Message("r", "late", "late", b"a receipt", after_end=True)
        assert await trial.store.deliver(late) == Delivered(1, True)
        assert await trial.store.deliver(late) == Delivered(1, False)
        assert [item.data for item in (await trial.store.load("r")).inbox] == [b"a receipt"]
        row = await trial.store.row("r")
        assert (row.status, row.terminal, row.seq, row.pending) == ("succeeded", True, 1, 1)
        assert await trial.store.due() == NEVER
        assert await trial.store.claim(Claim("w", 30)) == ()
        assert await trial.store.claim(Claim("w", 30, run_id="r")) == ()
        with refused(RunEnded):
            await trial.store.append(Batch("r", 1, 1, events(2, 2), taken=(1,)))
        await trial.store.drop("r")
        with refused(RunGone):
            await trial.store.deliver(replace(late, id="later"))

    @promise
    async def test_one_id_sent_by_many_at_once_counts_once(self, trial: Trial) -> None:
        await trial.new_run()
        sent = await asyncio.gather(*(trial.store.deliver(message("r", "m")) for _ in range(16)))
        assert sorted(delivered.fresh for delivered in sent) == [False] * 15 + [True]
        assert {delivered.position for delivered in sent} == {1}

    @promise
    async def test_the_same_id_means_nothing_to_another_run(self, trial: Trial) -> None:
        for run_id in ("r", "s"):
            await trial.new_run(run_id)
            assert await trial.store.deliver(message(run_id, "m")) == Delivered(1, True)

    @promise
    async def test_messages_are_taken_in_any_order_with_the_events_that_apply_them(
        self, trial: Trial
    ) -> None:
        await trial.lease()
        for number in (1, 2, 3):
            await trial.store.deliver(message("r", f"m{number}"))
        await trial.store.append(Batch("r", 1, 1, events(2, 2), taken=(3, 1), inbox_seen=3))
        loaded = await trial.store.load("r")
        assert [item.id for item in loaded.inbox] == ["m2"]
        assert (loaded.row.pending, loaded.row.seq) == (1, 2)

    @promise
    async def test_an_append_sends_to_other_runs_or_not_at_all(self, trial: Trial) -> None:
        await trial.lease("r")
        await trial.new_run("s")
        sent = Batch("r", 1, 1, events(2, 2), outbox=(message("s", "m1"), message("r", "self")))
        with refused(StaleEpoch):
            await trial.store.append(replace(sent, epoch=0))
        assert await trial.store.inbox("s") == ()
        assert (await trial.store.append(sent)).undelivered == ()
        assert [item.id for item in await trial.store.inbox("s")] == ["m1"]
        assert [item.id for item in await trial.store.inbox("r")] == ["self"]
        again = Batch("r", 1, 2, events(3, 3), outbox=sent.outbox)
        await trial.store.append(again)
        assert [item.id for item in await trial.store.inbox("s")] == ["m1"]

    @promise
    async def test_what_cannot_be_delivered_is_named_and_stops_nothing(self, trial: Trial) -> None:
        await trial.lease("r")
        await trial.lease("ended")
        await trial.store.append(Batch("ended", 1, 1, row=RowChange(terminal=True)))
        await trial.lease("gone")
        await trial.store.append(Batch("gone", 1, 1, row=RowChange(terminal=True)))
        await trial.store.drop("gone")
        await trial.new_run("s")
        outbox = tuple(message(run_id, f"to-{run_id}") for run_id in ("ended", "gone", "unknown", "s"))
        appended = await trial.store.append(Batch("r", 1, 1, events(2, 2), outbox=outbox))
        assert appended.undelivered == ("to-ended", "to-gone", "to-unknown")
        assert [item.id for item in await trial.store.inbox("s")] == ["to-s"]
