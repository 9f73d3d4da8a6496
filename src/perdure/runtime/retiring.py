"""Ending a run for good because no code can carry it on: without its agent, and without an act.

Nothing is undone and nothing is asked of the outside, so a run in which something is open that only its code
or a person can settle is refused: a call whose outcome nobody knows, a child that goes on. Law 15 holds as
for every end.
"""

from __future__ import annotations

from perdure import codec
from perdure.clock import Clock
from perdure.errors import NotRetirable
from perdure.journal import load
from perdure.runtime.idle import LEASE_SECONDS, opened
from perdure.runtime.lineage import open_children, report
from perdure.runtime.messages import foreseen
from perdure.runtime.rowinfo import end_info
from perdure.state import events as e
from perdure.state.record import RunRecord
from perdure.store.protocol import NEVER, Claim, Message, RowChange, Store


async def retire(store: Store, worker: str, clock: Clock, run_id: str, *, by: str, note: str) -> None:
    """End the run as retired. Raises NotRetirable, and what loading and sending raise."""
    past = await load(store, run_id)
    _check(run_id, foreseen(past.record, past.inbox, run_id))
    # What waits for nobody can only be claimed with a message; a worker that is quicker passes it over.
    data = codec.encode({"by": by, "note": note})
    await store.deliver(Message(run_id, clock.new_id(), "retire", data))
    for _ in await store.claim(Claim(worker, LEASE_SECONDS, run_id=run_id, drives=False)):
        journal = await opened(store, run_id, clock)
        try:
            _check(run_id, journal.record)
        except NotRetirable:
            await journal.close(RowChange(due_at=0))
            raise
        end = e.RunFinished("retired", data)
        info = end_info(journal.record, end)
        change = RowChange(status="retired", due_at=NEVER, terminal=True, info=info)
        await journal.close(change, end, outbox=report(run_id, journal.record, end))
        return
    raise NotRetirable(
        f"run {run_id} is driven by a worker now, so that some code carries it on",
        remedy=f"stop the worker, or end the run with perdure cancel {run_id}",
        run_id=run_id,
    )


def _check(run_id: str, record: RunRecord) -> None:
    """Raises NotRetirable if something is open in the run."""
    for call in record.calls.values():
        if call.standing in ("open", "unknown") and call.effect != "read":
            raise NotRetirable(
                f"nobody knows whether {call.name} ({call.path}) of run {run_id} happened",
                remedy=f"find out, and say it first: perdure resolve {run_id} {call.path}"
                " --done RESULT, --not-done or --failed MESSAGE",
                run_id=run_id,
                path=call.path,
            )
    if children := open_children(record):
        raise NotRetirable(
            f"child run {children[0].name} of run {run_id} has not ended",
            remedy=f"end it first: perdure cancel {children[0].name}, or perdure retire {children[0].name}",
            run_id=run_id,
        )
