"""The engine, broken on purpose: each function breaks one promise in the process that calls it.

They are for tests/crash/test_controls.py: a harness that stays silent about one of them proves nothing.
Most run well as long as nobody kills them: only a crash at the right place brings the breakage out.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from typing import Any

from msgspec.structs import replace

from perdure import codec
from perdure.agent import Call
from perdure.journal import Fences, live
from perdure.recovery import verdicts
from perdure.runtime import (
    calls,
    drive,
    identity,
    premises,
    reconcile,
    rights,
    runner,
    senders,
    standins,
    undos,
)
from perdure.runtime.body import run_body
from perdure.runtime.boundary import reached
from perdure.runtime.execution import Execution
from perdure.state import events as e
from perdure.state import fold, ledger, undo
from perdure.state.amount import NOTHING
from perdure.store.protocol import Appended, Batch, Message
from perdure.store.sqlite import SQLiteStore


def _patch(owner: Any, name: str, value: Any) -> None:
    setattr(owner, name, value)


def intent_not_awaited() -> None:
    """The act does not wait for its intent, which goes to disk with whatever comes next."""

    async def intend(self: Any, body: Any, fences: Any, *, alone: bool = False) -> None:
        self._queue((body,), ())

    _patch(live.Journal, "intend", intend)


def receipt_before_call() -> None:
    """The receipt is written first, then the call is made: a guess that is right unless we die in between."""
    body, append = run_body, live.Journal.append

    async def early(ride: Any, call: Call, tool: Any) -> Any:
        if call.effect == "irreversible":
            guess = codec.encode("rf-{}-{}".format(*call.args.values()))
            await ride.journal.append(e.CallSettled(call.path, "done", guess, None, True, call.attempt))
            await ride.journal.barrier()
            reached("receipt.queued")
        return await body(ride, call, tool)

    async def once(self: Any, *bodies: Any, taken: Any = ()) -> int:
        kept = [one for one in bodies if not isinstance(one, e.CallLate)]
        return await append(self, *kept, taken=taken)

    _patch(calls, "run_body", early)
    _patch(live.Journal, "append", once)


def settled_calls_made_again() -> None:
    """A resumed run forgets what the open step had settled."""
    load = runner.Runner._load

    async def forgetful(self: Any) -> Any:
        ride = await load(self)
        record = ride.journal.record
        kept = {path: call for path, call in record.calls.items() if not call.settled}
        ride.journal.record = replace(record, calls=kept)
        return ride

    _patch(runner.Runner, "_load", forgetful)


def key_changed_on_resend() -> None:
    """Each attempt has a key of its own."""
    plain = identity.identity

    def fresh(wanted: Any, seconds: float) -> Call:
        call = plain(wanted, seconds)
        return replace(call, key=f"{call.key}-{call.attempt}")

    _patch(calls, "identity", fresh)


def irreversible_retried() -> None:
    """After a crash an irreversible call is simply made again."""
    decide = verdicts.after_unknown

    def naive(call: Any, policy: Any, now: int) -> Any:
        return verdicts.Again() if call.effect == "irreversible" else decide(call, policy, now)

    for room in (verdicts, reconcile, calls):
        if hasattr(room, "after_unknown"):
            _patch(room, "after_unknown", naive)


def acknowledged_before_commit() -> None:
    """The store says done before it is."""
    append = SQLiteStore.append

    def hasty(self: Any, batch: Batch) -> asyncio.Future[Appended]:
        loop = asyncio.get_running_loop()
        early: asyncio.Future[Appended] = loop.create_future()
        early.set_result(Appended(batch.after + len(batch.events), self.now()))
        loop.call_later(0.01, lambda: append(self, batch).add_done_callback(lambda done: done.exception()))
        return early

    _patch(SQLiteStore, "append", hasty)


def unknown_not_recorded() -> None:
    """A resumed run settles open calls without ever saying that they were unknown."""
    append = live.Journal.append

    async def quiet(self: Any, *bodies: Any, taken: Any = ()) -> int:
        kept = [one for one in bodies if not (isinstance(one, e.CallUnknown) and one.cause == "crash")]
        return await append(self, *kept, taken=taken)

    _patch(live.Journal, "append", quiet)


def hook_not_asked() -> None:
    """A resumed run takes for granted that nothing happened."""

    async def assume(ride: Any, call: Any, tool: Any, ask: Any) -> None:
        await ride.journal.append(e.CallReconciled(call.path, "not_done", "hook"))

    _patch(reconcile, "_ask", assume)


def messages_taken_apart() -> None:
    """A message is taken in a commit of its own, before what it means is written."""
    decide = live.Journal.decide

    async def apart(self: Any, make: Any, *, taken: Any = ()) -> int:
        if taken:
            await asyncio.wait(
                [self.store.append(Batch(self.run_id, self.epoch, self._sent, taken=tuple(taken)))]
            )
            reached("run.resumed")
        return await decide(self, make)

    _patch(live.Journal, "decide", apart)


def end_apart_from_last_step() -> None:
    """The last step and the end of the run are two commits."""
    close = live.Journal.close

    async def apart(self: Any, change: Any, *bodies: Any, outbox: Any = ()) -> None:
        if len(bodies) > 1:
            await self.append(*bodies[:-1])
            await self.barrier()
            reached("run.finished")
        await close(self, change, *bodies[-1:], outbox=outbox)

    _patch(live.Journal, "close", apart)


def timer_begun_anew() -> None:
    """A resumed run sleeps from the beginning."""
    load = runner.Runner._load

    async def forgetful(self: Any) -> Any:
        ride = await load(self)
        record = ride.journal.record
        ride.journal.record = replace(record, waits={})
        return ride

    _patch(runner.Runner, "_load", forgetful)


def transaction_in_two() -> None:
    """A transactional call commits first; its receipt follows in another write."""
    transact = live.Journal.transact

    async def apart(self: Any, act: Any, *, seconds: float, fences: Any) -> Any:
        facts: list[Any] = []

        def without(tx: Any) -> Any:
            facts.extend(act(tx))
            return ()

        await transact(self, without, seconds=seconds, fences=fences)
        reached("transact.committed")
        await self.append(*facts)
        return tuple(facts)

    _patch(live.Journal, "transact", apart)


def cancel_not_fenced() -> None:
    """An intent does not look whether a message has come."""
    intend = live.Journal.intend

    async def look_away(self: Any) -> None:
        return

    async def blind(self: Any, body: Any, fences: Any, *, alone: bool = False) -> None:
        await intend(self, body, Fences(), alone=alone)

    _patch(live.Journal, "intend", blind)
    _patch(drive.Drive, "glance", look_away)


def reservation_given_back() -> None:
    """What a crash cut off costs nothing: its reservation comes back when the call is made again."""
    settle = ledger.settle

    def generous(book: Any, spent: Any, name: str, used: Any) -> Any:
        return settle(book, spent, name, used or NOTHING)

    _patch(fold, "settle", generous)


def signals_taken_twice() -> None:
    """A wait takes a signal and leaves it there for the next one."""
    closed = fold._FOLDS[e.WaitClosed]

    def leave(record: Any, event: Any, body: Any, work: Any) -> Any:
        return {name: now for name, now in closed(record, event, body, work).items() if name != "signals"}

    fold._FOLDS[e.WaitClosed] = leave


def waits_slept_over() -> None:
    """A message that comes while another branch works does not end the suspension."""
    _patch(Execution, "news", property(lambda self: False))


def ids_forgotten() -> None:
    """What a sender sends again is another message."""
    numbers = itertools.count()

    def anew(run_id: str, message_id: str, kind: str, data: bytes) -> Any:
        return Message(run_id, f"{message_id}-{os.getpid()}-{next(numbers)}", kind, data)

    _patch(senders, "Message", anew)


def premises_not_asked() -> None:
    """An act is made without a look at what it rests on."""

    async def skip(wanted: Any) -> None:
        return

    _patch(premises, "rest", skip)


def facts_fresh_for_ever() -> None:
    """What was read before a pause is not read again after it."""
    _patch(premises, "_fresh", lambda wanted, fact, record: True)


def rights_not_asked_again() -> None:
    """Whoever resumes a run takes its principal's rights for granted."""
    ask = rights.refusal

    async def trusting(ride: Any, call: Any) -> str:
        return "" if ride.record.resumes else await ask(ride, call)

    _patch(rights, "refusal", trusting)


def undo_taken_for_done() -> None:
    """An undo that was begun counts as done."""

    def hasty(self: Any) -> Any:
        record = self._drive.record
        left = undo.progress(record).left
        return next((act for act in left if undo.undo_path(act.path) not in record.calls), None)

    _patch(undos.Undos, "next", property(hasty))


def open_step_not_undone() -> None:
    """Only what is read from committed steps is undone."""
    plan = undo.planned

    def short(events: Any, undoable: Any) -> Any:
        last = max((event.seq for event in events if event.kind == "step.committed"), default=0)
        return plan([event for event in events if event.seq <= last], undoable)

    _patch(undos, "planned", short)


def fork_in_two() -> None:
    """A fork's copy of the past is one write, and what makes it a run of its own the next."""
    create = SQLiteStore.create

    async def apart(self: Any, run: Any) -> Any:
        place = next((n for n, item in enumerate(run.events) if b"run.forked" in item.data), 0)
        if not place:
            return await create(self, run)
        row, fresh = await create(self, replace(run, events=run.events[:place]))
        reached("fork.created")
        if fresh:
            await self.append(Batch(run.run_id, row.epoch, place, run.events[place:]))
        return row, fresh

    _patch(SQLiteStore, "create", apart)


def origins_results_forgotten() -> None:
    """What is decided about a call of a fork is not written down: whoever comes next makes the call."""

    async def forgetful(wanted: Any) -> bool:
        fork = wanted.execution.record.fork
        if fork is None or wanted.path in fork.asked:
            return False
        return await stand_in(wanted)

    stand_in = standins.stand_in
    _patch(standins, "stand_in", forgetful)


def migration_apart() -> None:
    """The new code is accepted in one write, and the state brought over in the next."""
    append = live.Journal.append

    async def apart(self: Any, *bodies: Any, taken: Any = ()) -> int:
        later = [one for one in bodies if isinstance(one, e.RunMigrated)]
        if not later:
            return await append(self, *bodies, taken=taken)
        await append(self, *[one for one in bodies if one not in later], taken=taken)
        await self.barrier()
        reached("migrate.done")
        return await append(self, *later)

    _patch(live.Journal, "append", apart)


def migration_in_halves() -> None:
    """Half of a state's changes are written, then the other half."""
    append = live.Journal.append

    async def halved(self: Any, *bodies: Any, taken: Any = ()) -> int:
        whole = next((one for one in bodies if isinstance(one, e.RunMigrated)), None)
        if whole is None:
            return await append(self, *bodies, taken=taken)
        half = replace(whole, patch=whole.patch[:1])
        await append(self, *[half if one is whole else one for one in bodies], taken=taken)
        await self.barrier()
        reached("migrate.done")
        rest = replace(whole, from_version=whole.to_version, to_version=whole.to_version + 1)
        return await append(self, replace(rest, patch=whole.patch[1:]))

    _patch(live.Journal, "append", halved)
