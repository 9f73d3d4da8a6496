"""A run that nobody drives: what can be done to it without its agent.

A cancelled run whose calls are all settled needs no code of the user's to end, so whoever cancels it may end
it, its children first. Anything more (a call to look up, a step to go on with, an act to undo) is left to a
worker that serves the agent.
"""

from __future__ import annotations

from perdure import codec
from perdure.clock import Clock
from perdure.journal import Journal, SnapshotPolicy, restore
from perdure.runtime.children import call_back, is_called_back, waiting_words
from perdure.runtime.lineage import report
from perdure.runtime.messages import message_events
from perdure.runtime.rowinfo import end_info, row_info
from perdure.state import events as e
from perdure.state.record import RunRecord
from perdure.store.protocol import NEVER, Claim, RowChange, Store

LEASE_SECONDS = 30.0
"""More than ending a run takes."""


async def opened(store: Store, run_id: str, clock: Clock) -> Journal:
    """The journal of a run whose lease is ours, its messages taken, with no agent at hand."""
    loaded = await store.load(run_id)
    past = await restore(store, loaded)
    journal = Journal(store, past, policy=SnapshotPolicy(None, None), durability="effects", clock=clock)
    for message in loaded.inbox:
        bodies = message_events(journal.record, message, run_id)
        await journal.append(*bodies, taken=(message.position,))
    return journal


async def end_cancelled(store: Store, worker: str, clock: Clock, run_id: str) -> bool:
    """End a cancelled run if nobody drives it and nothing in it is open. Tells whether it has ended."""
    for _ in await store.claim(Claim(worker, LEASE_SECONDS, run_id=run_id, drives=False)):
        journal = await opened(store, run_id, clock)
        record = journal.record
        if record.cancel is None or _open(record):
            change = RowChange(due_at=0)
            if record.compensate:  # its hold, if there is one, is no longer what it needs
                info = codec.encode({"reason": "cancelled; what it has done is to be undone"})
                change = RowChange(status="ready", due_at=0, info=info, asks=False)
            await journal.close(change)  # whoever serves the agent finds out what is open
            return False
        await journal.barrier()
        left = await call_back(store, run_id, record, clock.now())
        if not left:
            end = e.RunFinished("cancelled", codec.encode({"by": record.cancel, "note": record.cancel_note}))
            info = end_info(record, end)
            change = RowChange(status="cancelled", due_at=NEVER, terminal=True, info=info)
            await journal.close(change, end, outbox=report(run_id, record, end))
            return True
        info = codec.encode({"reason": waiting_words(left), "children": len(left)})
        await journal.close(RowChange(status="waiting", due_at=NEVER, info=info))
        ended = [
            await end_cancelled(store, worker, clock, wait.name) for wait in left if is_called_back(wait)
        ]
        return len(ended) == len(left) and all(ended) and await end_cancelled(store, worker, clock, run_id)
    return False


def _open(record: RunRecord) -> bool:
    """Whether a call has no known outcome, or some act may have to be undone."""
    if record.compensate and record.spent.calls:
        return True
    return any(
        not call.settled and call.standing != "not_done" and call.effect != "read"
        for call in record.calls.values()
    )


async def hold(store: Store, run_id: str, clock: Clock, held: e.RunHeld) -> None:
    """Hold a run whose lease is ours, from what is stored of it alone. Messages are taken: it rests then."""
    journal = await opened(store, run_id, clock)
    if journal.record.held is None:
        await journal.append(held)
    info = row_info(journal.record, held.reason)
    await journal.close(RowChange(status="held", due_at=NEVER, info=info, progress=True, asks=True))
