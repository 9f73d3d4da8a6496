"""The one loop: load, resume, step, commit, suspend. It owns every branching on what happened.

One path serves a first start, a wake-up, a crash and a deploy (DESIGN: resume). Whatever ends a drive ends
in one
durable commit that says why, and gives the lease back (law 20).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from perdure import codec
from perdure.agent import Agent, Hybrid, call_scope, providers_scope
from perdure.codec.redaction import redacted
from perdure.codec.secret import KNOWN, resolver_scope
from perdure.errors import (
    Damaged,
    KeyMissing,
    LeaseLost,
    NotRepeatable,
    NotStorable,
    PerdureError,
    ResumeError,
    RunGone,
    SchemaError,
    SecrecyError,
    SecretLeaked,
    ShapeMismatch,
    Signal,
    StaleEpoch,
    StoreError,
    said_by,
)
from perdure.journal import Heard, Journal, Past, SnapshotPolicy, outlast, restore, until_done
from perdure.runtime import adoption as adopting
from perdure.runtime import budgets, children, lineage, listening, questions, reconcile, undos
from perdure.runtime.birth import principal_of
from perdure.runtime.boundary import reached
from perdure.runtime.caller import line_of_error
from perdure.runtime.drive import Drive, Host
from perdure.runtime.execution import Execution
from perdure.runtime.holds import (
    POISON_CLAIMS,
    RESTORED_ENDING,
    how_it_died,
    no_progress,
    poison_of,
    poisoned,
    signal_swallowed,
    step_error,
    ways,
)
from perdure.runtime.idle import hold
from perdure.runtime.late import hand_over
from perdure.runtime.mismatch import HINT, decide, of_ending, of_state
from perdure.runtime.plain_loop import plain_loop
from perdure.runtime.resolved import unlisted
from perdure.runtime.rowinfo import asks_people, end_info, row_info
from perdure.runtime.step import SwallowedSignal, execute
from perdure.runtime.storable import check_leaks, check_sizes
from perdure.runtime.tree import LiveState
from perdure.runtime.vaults import enter, vault_of
from perdure.state import events as e
from perdure.state.fold import recorded_values
from perdure.state.record import RunRecord
from perdure.state.undo import undone_path
from perdure.store.protocol import NEVER, Batch, Claimed, Inbound, Message, RowChange

log = logging.getLogger("perdure.run")

YIELD_SECONDS = 0.005
"""A run whose calls never suspend lets the event loop breathe this often."""


async def drive(
    host: Host,
    agent: Agent[Any, Any, Any],
    claimed: Claimed,
    since: float,
    *,
    check: bool,
    draining: asyncio.Event | None = None,
) -> RunRecord | None:
    """Carry on one claimed run until it waits, is held or has ended. `since`: monotonic, before the claim.

    `draining`: once it is set, the run is left where it would begin a call, or at the end of its step, as
    soon as no call of it goes on; a cancellation leaves it at once. Both
    keep what is recorded and give the lease back. Returns the run as its last, durable write left it; None
    if it was not for this drive to end, as when the lease is lost, since the new owner goes on. Raises
    StoreError if the store fails.
    """
    run_id = claimed.row.run_id
    runner = Runner(host, agent, claimed, check=check, draining=draining)
    placed = listening.place_scope.set(runner.place)
    # A task of its own: the caller's cancellation and a lost lease are told apart.
    work = asyncio.create_task(runner.run(), name=f"run {run_id}")
    runner.work = work
    host.leases.hold(run_id, since, runner.lose)
    cancelled: asyncio.CancelledError | None = None
    try:
        while not work.done():
            try:
                await until_done(work)
            except asyncio.CancelledError as error:
                cancelled = error
                runner.stop()
        failure = _failure_of(work)
        if failure is not None or runner.lost or runner.stopped:
            ending = asyncio.create_task(runner.end(failure), name=f"end of run {run_id}")
            cancelled = await outlast(ending) or cancelled
            ending.result()
    finally:
        host.leases.drop(run_id, runner.lose)
        runner.abandon()
        listening.place_scope.reset(placed)
    if cancelled is not None:
        raise cancelled
    return runner.ride.record if runner.over and runner.ride is not None else None


def _failure_of(work: asyncio.Task[None]) -> BaseException | None:
    return asyncio.CancelledError() if work.cancelled() else work.exception()


class Runner:
    """Drives one claimed run."""

    def __init__(
        self,
        host: Host,
        agent: Agent[Any, Any, Any],
        claimed: Claimed,
        *,
        check: bool,
        draining: asyncio.Event | None,
    ) -> None:
        self.host = host
        self.agent = agent
        self.claimed = claimed
        self.check = check
        self.draining = draining
        self.work: asyncio.Task[None] | None = None
        self.lost = False
        self.stopped = False
        self.ride: Drive | None = None
        self._waits, self._breath = 0, host.clock.monotonic()  # when the event loop was seen to turn
        self.over = False
        self.adoption = adopting.Adoption(b"", None)
        self._inbox: tuple[Inbound, ...] = ()
        self._inbox_end = 0
        self.place = listening.Place(claimed.row.run_id, agent.name, host.worker, claimed.row.epoch)

    async def run(self) -> None:
        """Load, resume, and execute steps until the run cannot go on now."""
        reached("run.claimed")
        providers_scope.set(self.host.providers)
        call_scope.set(None)  # a run that a tool's body starts is a run of its own
        if self.host.secrets is not None:
            resolver_scope.set(self.host.secrets)  # for this task, and for every one that it makes
        enter(await vault_of(self.host.store, self.claimed.row.run_id, make=True))
        step = self.agent.step_fn or plain_loop(self.agent)
        ride = self.ride = await self._load()
        reached("run.loaded")
        await self._resume(ride)
        while not self.over:
            await self._settle(ride)
            if not self.over:
                await self._step(ride, step)
            if self.draining is not None and self.draining.is_set():
                await self.leave()

    def lose(self) -> None:
        """The lease is gone: nothing more may be done for the run."""
        self.lost = True
        self.stop()

    def stop(self) -> None:
        """This process is to do nothing more for the run."""
        self.stopped = True
        if self.ride is not None:
            self.ride.stopping = True
        if self.work is not None:
            self.work.cancel()

    async def end(self, failure: BaseException | None) -> None:
        """Whatever ended the work: nothing recorded is lost, and a lease that is still ours is given back."""
        run_id = self.claimed.row.run_id
        if self.lost or isinstance(failure, LeaseLost | StaleEpoch | RunGone):
            log.warning("run %s: the lease is lost; the new owner carries it on", run_id)
            await self.hand_over()
        elif self.stopped and isinstance(failure, asyncio.CancelledError):
            await self.leave()
        elif failure is not None:
            if isinstance(failure, Exception):  # else the process goes down, or is meant to look as if it did
                await self.hand_over()
                if await self.let_go(failure):
                    return
            raise failure

    async def leave(self) -> None:
        """This process stops: keep what is recorded and give the lease back."""
        self.over = True
        if self.ride is None:
            await self.host.store.release(self.claimed.row.run_id, self.claimed.row.epoch)
        elif not self.ride.journal.closed:
            await self._give_back(self.ride, RowChange(due_at=0))

    async def hand_over(self) -> None:
        """What acts came to and could not be written reaches whoever drives the run next, as late results."""
        if self.ride is None:
            return
        with suppress(StoreError):  # what is not handed to the store yet is refused now
            await self.ride.journal.barrier()
        await hand_over(self.host.store, self.ride.run_id, self.ride.journal.refused)

    async def let_go(self, failure: Exception) -> bool:
        """The drive failed: others may claim the run. Tells whether it was held instead.

        What the agent's own code raised outside its step counts like a lost worker: the lease is not given
        back but ends at once, and after so many of them the run is held.
        """
        row, store = self.claimed.row, self.host.store
        try:
            if isinstance(failure, StoreError | ResumeError | SchemaError | KeyMissing):
                await store.release(row.run_id, row.epoch)
            elif row.claims <= POISON_CLAIMS:
                await store.renew(self.host.worker, [row.run_id], 0.0)
            else:
                log.error("run %s is held: %s", row.run_id, type(failure).__name__)
                await hold(store, row.run_id, self.host.clock, poison_of(row.run_id, row.claims, failure))
                return True
        except StoreError as error:
            log.error("run %s: its lease lapses by itself: %s", row.run_id, error)
        return False

    def abandon(self) -> None:
        """Send nothing more."""
        if self.ride is not None:
            self.ride.journal.abandon()
            if self.ride.ears is not None:
                self.ride.ears.left(lost=self.lost)

    # -- resume

    async def _load(self) -> Drive:
        try:
            loaded = await self.host.store.load(self.claimed.row.run_id)
            self._inbox, self._inbox_end = loaded.inbox, loaded.row.inbox
            past = await restore(self.host.store, loaded)
        except Damaged as damage:
            await self._quarantine(damage)
            raise
        adoption = self.adoption = await self._adopted(past)
        ears = await listening.ears(self.host, self.agent, self.claimed, past.record)
        journal = self._journal(past, ears)
        record = past.record
        self.place.trace, self.place.step = record.trace, record.step + 1
        try:
            live = adopting.live_of(self.agent, record, adoption)
        except ShapeMismatch as error:
            await adopting.refuse(self.host.store, self.claimed.row, self.agent, record, error)
            raise
        return Drive(
            host=self.host,
            agent=self.agent,
            run_id=past.row.run_id,
            journal=journal,
            live=live,
            principal=principal_of(record),
            inbox_seen=0,
            died_at=died_at(self.claimed, self.host.store.now()),
            check=self.check,
            draining=self.draining,
            rest=self.stop,
            publish=self.host.chunks.voice(past.row.run_id, past.row.epoch),
            ears=ears,
        )

    def _journal(self, past: Past, ears: listening.Ears | None) -> Journal:
        how: dict[str, Any] = {
            "policy": _policy(self.agent.storage),
            "durability": self.agent.durability,
            "clock": self.host.clock,
        }
        store = self.host.store
        journal = Journal(store, past, **how) if ears is None else Heard(store, past, **how, hearer=ears)
        journal.lingering = self.host.lingering
        return journal

    async def _adopted(self, past: Past) -> adopting.Adoption:
        """What it takes for this code to carry the run on; one that it cannot is given back untouched."""
        try:
            return adopting.adopt(self.agent, past.record, self.agent.on_change)
        except PerdureError as error:
            await adopting.refuse(self.host.store, self.claimed.row, self.agent, past.record, error)
            raise

    async def _quarantine(self, damage: Damaged) -> None:
        row = self.claimed.row
        change = RowChange(
            status="held", due_at=NEVER, info=codec.encode({"reason": "damaged", "detail": damage.what})
        )
        # A message that waits makes a run claimable: taken, it is the cause of one look, not of endless ones.
        waiting = await self.host.store.inbox(row.run_id)
        for message in waiting:
            log.warning("run %s is damaged: a message (%s) has nobody to reach", row.run_id, message.kind)
        taken = tuple(message.position for message in waiting)
        await self.host.store.append(
            Batch(row.run_id, row.epoch, row.seq, row=change, taken=taken, release=True)
        )

    async def _resume(self, ride: Drive) -> None:
        """Take messages and mark the calls that the last owner left without a receipt."""
        first, found = ride.record.seq == 1, ride.record
        ran = budgets.ran_on(ride.record, self.claimed, self.host)
        await ride.apply_inbox(self._inbox)
        ride.inbox_seen = max(ride.inbox_seen, self._inbox_end)
        if self.claimed.row.asks and not asks_people(ride.record):  # what was asked for is decided, or moot
            ride.journal.tell(RowChange(info=row_info(ride.record, ""), asks=False))
        judged = adopting.judge(self.agent, ride.run_id, ride.record, self.adoption, self.agent.on_change)
        ledger = ride.record.ledger
        timed = ledger is not None and ledger.limits.micros is not None  # its time begins to count
        if not first or timed or self.adoption.manifest:
            await self._take_over(ride, judged, ran)
        if judged.hold is not None and ride.record.held is None and ride.record.cancel is None:
            await self._hold(ride, judged.hold)
            return
        how = how_it_died(self.claimed.previous, died=self.claimed.died)
        if (poison := poisoned(ride.run_id, self.claimed.row.claims, how, found)) is not None:
            await self._hold(ride, poison)

    async def _take_over(self, ride: Drive, judged: adopting.Judged, ran: int) -> None:
        """Record the resume, what differs in the code, and the state at today's version, as one group."""
        adoption, resumed = self.adoption, e.RunResumed(self.host.worker, ran=ran)
        facts = adopting.taken_over(self.agent, ride.record, adoption, judged, resumed, ride.died_at)
        change = adopting.key_change(self.agent, self.claimed.row)
        if judged.hold is None and adoption.manifest and change is not None:
            ride.journal.tell(change)
        if adoption.migrated is not None:
            reached("migrate.write")
        await ride.journal.append(*facts)
        reached("run.resumed")
        if adoption.migrated is not None:
            reached("migrate.queued")

    async def _settle_unknown(self, ride: Drive) -> e.RunHeld | None:
        for call in list(ride.record.calls.values()):
            if call.standing not in ("open", "unknown") or call.effect == "read" or undone_path(call.path):
                continue
            tool = self.agent.tool_named(call.name)
            if tool is None:
                return unlisted(ride.run_id, self.agent.name, call)
            if (held := await reconcile.settle(ride, call, tool)) is not None:
                return held
        return None

    # -- the loop

    async def _settle(self, ride: Drive) -> None:
        """Bring unknown calls to a verdict; end the drive if the run is held or cancelled."""
        if ride.has_not_looked():
            await ride.glance()
        record = ride.journal.record
        if not record.calls and record.held is None and record.cancel is None:
            return
        if record.held is not None and record.held.reason == RESTORED_ENDING:
            await self._close(ride, "held", NEVER, record.held.reason)
            return
        held = None
        if record.held is None or record.cancel is not None:
            held = await self._settle_unknown(ride)
        if ride.record.held is None and held is not None:
            await self._hold(ride, held)
        elif ride.record.cancel is not None and held is None:
            await self._cancel(ride)
        elif ride.record.held is not None:
            await self._close(ride, "held", NEVER, ride.record.held.reason)

    async def _cancel(self, ride: Drive) -> None:
        """End the run; after its children, if it has any, and after its undos, if they are asked for."""
        if lineage.open_children(ride.record):
            await ride.journal.barrier()  # what the children are told rests on it
            left = await children.call_back(self.host.store, ride.run_id, ride.record, self.host.clock.now())
            if left:
                await self._close(ride, "waiting", NEVER, children.waiting_words(left))
                return
        told: dict[str, Any] = {"by": ride.record.cancel, "note": ride.record.cancel_note}
        if ride.record.compensate:
            await self._undo(ride)
            told |= undos.told(ride.record)
        if not self.over:
            await self._finish(ride, "cancelled", codec.encode(told))

    async def _undo(self, ride: Drive) -> None:
        """Undo what the run has done, one act after the other; ends the drive where that cannot go on now."""
        await undos.plan(ride)
        work = undos.Undos(ride)
        while (act := work.next) is not None and not self.over:
            if self.draining is not None and self.draining.is_set():
                await self.leave()
            elif ride.record.held is not None:
                await self._close(ride, "held", NEVER, ride.record.held.reason)
            elif (held := await work.undo(act)) is not None:
                await self._hold(ride, held)

    async def _step(self, ride: Drive, step: Any) -> None:
        if ride.journal.record.ledger is not None and (over := budgets.step_over(ride)) is not None:
            await self._hold(ride, over)
            return
        execution = Execution(ride, ride.live)
        self.place.step = ride.journal.record.step + 1
        if ride.ears is not None:
            ride.ears.stepping(self.place.step)
        try:
            await execute(execution, step)
            execution.asked_for_all()
        except SwallowedSignal:
            await self._unwound(ride, execution, swallowed=True)
        except Signal as signal:
            if isinstance(signal, LeaseLost):
                raise
            await self._unwound(ride, execution)
        except (Exception, asyncio.CancelledError) as error:
            if ride.stopping:
                raise
            if ride.journal.failure is not None:
                raise ride.journal.failure from error
            await self._failed(ride, error)
        else:
            await self._commit(ride, execution, step)

    async def _commit(self, ride: Drive, execution: Execution, step: Any) -> None:
        reached("step.commit")
        record = ride.journal.record
        try:
            patch = ride.live.patch(recorded_values(record))
            check_sizes(patch, self.host.store.value_bytes)
            if KNOWN.forms:
                check_leaks(patch)
        except (NotStorable, ShapeMismatch, SecretLeaked) as error:
            await self._failed(ride, error)
            return
        if not patch and execution.ending is None and not record.calls and not record.waits:
            await self._hold(ride, no_progress(ride.run_id))
            return
        if self.check and (problem := await self._checked(ride, execution, step, patch)) is not None:
            ride.live.reset()
            again, cancel = ways(ride.run_id)
            change = f"{HINT}: use them in the step, or read the outside in a tool"
            detail = f"[{NotRepeatable.code}] {problem}"
            await self._hold(ride, e.RunHeld("not-repeatable", detail, (change, again, cancel)))
            return
        committed = e.StepCommitted(record.step + 1, patch)
        if execution.ending is not None:
            await self._finish(ride, execution.ending.status, execution.ending.value, committed)
            return
        await ride.journal.append(committed)
        reached("step.queued")
        ride.live.commit(ride.journal.record.state, patch)
        if await ride.journal.commit_step():
            reached("snapshot.queued")
        reached("step.committed")
        if self._is_breathless(ride.journal):
            await asyncio.sleep(0)

    def _is_breathless(self, journal: Journal) -> bool:
        """Whether the event loop has not turned for long; it has while the run waited for the store."""
        now, waited = self.host.clock.monotonic(), journal.waits != self._waits
        due = not waited and now - self._breath >= YIELD_SECONDS
        if due or waited:
            self._waits, self._breath = journal.waits, now
        return due

    async def _checked(self, ride: Drive, first: Execution, step: Any, patch: tuple[e.Op, ...]) -> str | None:
        """Execute the step again from its own record: calls, patch and ending must be the same."""
        from perdure.runtime.rehearsal import play  # only who checks loads what a look is made of

        again = Execution(ride, LiveState(self.agent.state_shape, ride.record.state), checking=True)
        again.kept.update(first.kept)
        played = await play(again, step)
        if played.stopped is not None:
            return again.mismatch_detail or "the replayed step stopped where the first execution went on"
        if (error := played.error) is not None:
            return f"the replayed step raised {type(error).__name__}: {error!s:.300} ({line_of_error(error)})"
        if played.patch != patch:
            return of_state(first.live.live, again.live.live)
        return of_ending(first.ended, again.ended) or None

    # -- what stops a drive

    async def _unwound(self, ride: Drive, execution: Execution, *, swallowed: bool = False) -> None:
        ride.live.reset()
        if execution.broken is not None:
            await ride.journal.barrier()  # receipts of other branches have the room that is kept for them
            raise execution.broken
        if execution.mismatch is not None:
            await self._mismatch(ride, execution)
        elif swallowed:
            await self._hold(ride, signal_swallowed(ride.run_id))
        elif execution.holds:
            await self._hold(ride, execution.holds[0])
        elif ride.record.cancel is not None or ride.record.held is not None:
            return
        elif execution.wake_at and not execution.news:
            reached("run.suspend")
            await self._close(ride, "waiting", min(execution.wake_at), questions.summary(ride.record))
            reached("run.suspended")

    async def _mismatch(self, ride: Drive, execution: Execution) -> None:
        decided = decide(ride, execution.mismatch or 0, execution.mismatch_detail, execution.mismatch_reason)
        if isinstance(decided, e.RunHeld):
            await self._hold(ride, decided)
        else:
            await ride.journal.append(decided)

    async def _failed(self, ride: Drive, error: BaseException) -> None:
        """An exception left the step: its patch is discarded. After the agent's retries the run is held."""
        ride.live.reset()
        retry = None if isinstance(error, SecrecyError) else self.agent.retry
        failures = ride.record.failures + 1
        if retry is not None and failures < retry.attempts:
            told = (ride.record.step + 1, type(error).__name__, line_of_error(error))
            log.warning("run %s: step %d failed, is tried again: %s (%s)", ride.run_id, *told)
            why = redacted(f"{type(error).__name__}: {said_by(error)}")[:500]
            log.debug("run %s: its step raised %s", ride.run_id, why)
            await ride.journal.append(e.StepRestarted(why, ride.record.seq))
            await ride.journal.barrier()  # a restart must not forget that this try was made
            await self.host.clock.sleep(retry.delay(failures))
            return
        await self._hold(ride, step_error(ride.run_id, error, ride.record))

    async def _hold(self, ride: Drive, held: e.RunHeld) -> None:
        reached("run.hold")
        await ride.journal.append(held)
        await self._close(ride, "held", NEVER, held.reason)

    async def _close(self, ride: Drive, status: str, due_at: int, why: str) -> None:
        # A person decides about a held run: what they let go on has all its tries again.
        held = status == "held"
        info, asks = row_info(ride.record, why), asks_people(ride.record)
        change = RowChange(status=status, due_at=due_at, info=info, progress=held, asks=asks)
        await self._give_back(ride, change)
        self.over = True

    async def _give_back(
        self, ride: Drive, change: RowChange, *last: e.AnyBody, outbox: Sequence[Message] = ()
    ) -> None:
        """The last write, which gives the lease back; a renewal that came after it would take it for lost."""
        self.host.leases.drop(ride.run_id, self.lose)
        await ride.journal.close(change, *last, outbox=outbox)

    async def _finish(self, ride: Drive, status: Any, value: bytes, *last: e.StepCommitted) -> None:
        """End the run: its last step, its result and its row in one commit, or none of them."""
        reached("run.finish")
        end = e.RunFinished(status, value)
        info = end_info(ride.record, end, steps=len(last))
        change = RowChange(status=status, due_at=NEVER, terminal=True, info=info)
        outbox = lineage.report(ride.run_id, ride.record, end, steps=len(last))
        await self._give_back(ride, change, *last, end, outbox=outbox)
        self.over = True
        reached("run.finished")


def _policy(storage: Any) -> SnapshotPolicy:
    if storage == "log":
        return SnapshotPolicy(None, None)
    if storage == "snapshot":
        return SnapshotPolicy(1, None)
    assert isinstance(storage, Hybrid)
    return SnapshotPolicy(
        storage.every, storage.resume_within.total_seconds() if storage.resume_within else None
    )


def died_at(claimed: Claimed, now: int) -> int:
    """From when on the last owner could do nothing more: now if it is known to be dead.

    Else the end of its lease.
    """
    return now if claimed.died else max(now, claimed.previous_until)
