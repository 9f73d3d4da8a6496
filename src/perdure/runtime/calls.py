"""The life of a call: served, guarded, intended, acted, settled, or unknown (DESIGN: the life of a call).

Laws 1 to 4 and 17 are kept here: an act follows its durable intent, a settled call is never acted again, and
an unknown
one goes by its effect class.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from typing import Any

from msgspec.structs import replace

from perdure import codec
from perdure.agent import Call, Delegate, NotDone, Tool, call_scope
from perdure.agent.declared import in_thread
from perdure.errors import (
    ApprovalDenied,
    ApprovalExpired,
    BlockingTool,
    CallFailed,
    CallOutsideStep,
    EffectRefused,
    Expired,
    InboxMoved,
    LeaseLost,
    LeftUnknown,
    NoRun,
    NotStorable,
    PremiseChanged,
    PremiseUnread,
    PriceUnknown,
    ProviderFailed,
    SecretMissing,
    ShapeMismatch,
    StatementFailed,
    StatementRefused,
    StoreError,
    StricterInside,
    ToolNotListed,
    TransactionTooLong,
)
from perdure.journal import Fences
from perdure.runtime import (
    approvals,
    budgets,
    children,
    doubts,
    guards,
    premises,
    questions,
    reconcile,
    standins,
    strays,
)
from perdure.runtime.body import run_body
from perdure.runtime.boundary import reached
from perdure.runtime.difference import Sides, shown
from perdure.runtime.drive import Drive
from perdure.runtime.execution import NOTHING, Execution, Interrupted, here
from perdure.runtime.giving_up import give_up, told
from perdure.runtime.head import head_of
from perdure.runtime.holds import out_of_reach
from perdure.runtime.identity import identity
from perdure.runtime.mismatch import of_call
from perdure.runtime.receipts import UNFIT, checked_result, facts_of, failed, not_sent
from perdure.runtime.resolved import unknown_hold
from perdure.runtime.wanted import NO_GROUNDS, Wanted
from perdure.state import events as e
from perdure.state.record import SETTLED, CallRecord
from perdure.store.protocol import Tx

log = logging.getLogger("perdure.run")


async def perform(execution: Execution, tool: Tool[..., Any], args: dict[str, Any]) -> Any:
    """Make a call of the running step at the place where the running branch is, or serve what it came to
    before a crash.
    """
    if execution.over:
        raise CallOutsideStep(f"{tool.name} was called after its step had ended", where=tool.source)
    branch, drive = here(execution), execution.drive
    listed = drive.agent.lists(tool)
    if listed and isinstance(tool, Delegate):
        return await children.spawn(execution, children.Spawning(tool.agent, args["goal"], tool=tool.name))
    path = branch.next_path()
    if not listed:
        raise ToolNotListed(f"agent {drive.agent.name} does not list {tool.name}", where=tool.source)
    record = execution.journal.record
    call = record.calls.get(path)
    head = head_of(execution, tool, args, None if call is None else _name_then(execution, call, tool))
    wanted = Wanted(execution, branch, path, tool, args, head, drive)
    if call is not None or record.waits:
        _recognised(wanted, call)
    _recalled(wanted)
    execution.replay.enter()
    try:
        if call is not None and call.settled:
            if not _given(wanted, call):
                await execution.given(branch, call.seq)
            return _replayed(wanted, call)
        if not execution.is_live():
            await execution.go_live(branch, path, tool.name, wanted)
        if record.ledger is None:
            return await _until_settled(wanted)
        with drive.purse.active(path):
            return await _until_settled(wanted)
    except PremiseChanged:
        execution.told.add(path)
        raise
    except asyncio.CancelledError:
        if not drive.stopping:
            _given_up(wanted)
        raise
    except StoreError as error:  # no failure of the step: the drive ends with it
        execution.broken = execution.broken or error
        branch.unwind("the store failed")
    finally:
        if not wanted.given:
            execution.replay.leave()


def _recalled(wanted: Wanted) -> None:
    """Take up what is known of the people and the facts that the call rests on."""
    execution, record = wanted.execution, wanted.drive.journal.record
    if execution.awaiting:
        execution.awaiting.discard(wanted.path)
    if record.asked:
        approvals.recall(execution, wanted.path)
    if wanted.tool.options.premises:
        premises.recall(wanted)


def _recognised(wanted: Wanted, call: CallRecord | None) -> None:
    """Unwind the branch unless what is recorded at this path is this very call, or nothing is."""
    execution, branch, path, head = wanted.execution, wanted.branch, wanted.path, wanted.head
    record = execution.record
    if call is not None:
        execution.replay.asked(path)
        if call.name != head.name or approvals.asked_digest(record, call) != head.digest:
            kept = execution.kept.get(call.digest, {})
            differs = of_call(wanted.drive, call, head, wanted.args, kept)
            execution.diverge(branch, call.intent or call.seq, differs, _drift(call, head))
    elif (wait := record.waits.get(path)) is not None:
        execution.diverge(branch, wait.seq, Sides(path, questions.words(wait), wanted.tool.name))


def _name_then(execution: Execution, call: CallRecord, tool: Tool[..., Any]) -> str | None:
    """The old name of a tool that was renamed, where a call of it is recorded so."""
    if call.name == tool.name:
        return None
    return call.name if execution.drive.agent.on_change.renamed.get(call.name) == tool.name else None


def _drift(call: CallRecord, head: e.CallHead) -> str:
    """Why the code is held that asks for another call than this one: an act that may have happened with
    other arguments is not sent with today's, whatever its key.
    """
    open_act = call.standing in ("open", "unknown") and call.effect != "read"
    return "arguments-changed" if open_act and call.name == head.name else "diverged"


def _given(wanted: Wanted, call: CallRecord) -> bool:
    """Give the step this outcome. False: it is not its turn yet, and is to be waited for."""
    wanted.given = True
    if wanted.tool.kind == "fact":
        wanted.execution.told.add(wanted.path)
    return wanted.execution.replay.give_now(call.seq)


async def _until_settled(wanted: Wanted) -> Any:
    execution, branch, drive, tool = wanted.execution, wanted.branch, wanted.drive, wanted.tool
    journal, path = drive.journal, wanted.path
    while True:
        if branch.unwinding is not None:
            raise branch.unwinding
        call = journal.record.calls.get(path)
        if call is None:
            if journal.record.fork is not None and await standins.stand_in(wanted):
                continue
            if journal.record.doubt is None or not await doubts.raised(wanted):
                await attempt(wanted)
        elif call.standing in SETTLED:
            reached("receipt.served")
            if not _given(wanted, call):
                await execution.given(branch, call.seq)
            return serve(tool, call) if wanted.result is NOTHING else wanted.result
        elif call.standing == "not_done" and wanted.fruitless:
            await _once_more(wanted, call)
        elif call.standing == "not_done" or _sent_read(call):
            await attempt(wanted)
        elif call.standing == "retrying":
            if journal.record.doubt is not None and await doubts.raised(wanted):
                continue
            await drive.host.clock.sleep(_backoff(tool, call.attempt))
            await attempt(wanted)
        elif (held := await reconcile.settle(drive, call, tool)) is not None:
            execution.hold(branch, held)
        elif (now := journal.record.calls[path]).standing in ("open", "unknown"):
            await _resend(wanted, now)


def _sent_read(call: CallRecord) -> bool:
    """A read under a budget of which only the intent is known: it is simply made again."""
    return call.effect == "read" and call.standing in ("open", "unknown")


async def _once_more(wanted: Wanted, call: CallRecord) -> None:
    """An act that raised and, so its hook says, did not happen: with a pause; to a person in the end."""
    drive, run_id = wanted.drive, wanted.drive.run_id
    if wanted.fruitless >= reconcile.RESENDS:
        detail = f"{call.name} ({call.path}) did not happen and raises each time: {call.detail}"
        ways = (f"perdure release {run_id}    tries again", f"perdure cancel {run_id}")
        wanted.execution.hold(wanted.branch, e.RunHeld("tool-error", detail, ways, call.path))
    await drive.host.clock.sleep(reconcile.backoff_seconds(wanted.fruitless - 1))
    await attempt(wanted)


async def _resend(wanted: Wanted, call: CallRecord) -> None:
    """An idempotent call, again with the same key: backs off, and goes to a person after too many tries."""
    drive = wanted.drive
    if call.attempt >= reconcile.RESENDS or wanted.fruitless >= reconcile.RESENDS:
        detail = f"{call.name} was sent with one key and no reply came; attempts: {call.attempt}"
        wanted.execution.hold(wanted.branch, unknown_hold(drive.run_id, call, detail))
    await drive.host.clock.sleep(reconcile.backoff_seconds(call.attempt - 1))
    await attempt(wanted)


def _given_up(wanted: Wanted) -> None:
    """The step's own timeout ended the call: record that if nothing acted, else find out what happened."""
    branch, call = wanted.branch, wanted.call
    if branch.unwinding is not None:
        return
    if call is not None and (call.settled or call.standing == "unknown"):
        branch.unwinding = Interrupted(f"{call.name} was given up, and its outcome counts")
    elif not branch.given_up:
        give_up(wanted.execution, wanted.path, wanted.head)
    elif call is not None and call.standing == "open":
        usage: e.Usage | None = () if call.effect == "read" else None  # a read may have been on its way
        wanted.drive.journal.append_soon(not_sent(call.path, call.attempt, "it was given up", usage))


def serve(tool: Tool[..., Any], call: CallRecord) -> Any:
    """What a settled call gives the step: live, replayed and reconciled alike."""
    if call.standing == "done":
        return tool.result_shape.restore(codec.decode(call.value), where=f"$.{tool.name}")
    if call.standing == "left-unknown":
        raise LeftUnknown(f"nobody knows whether {tool.name} ({call.path}) happened", path=call.path)
    raise _failure(tool, call)


def _replayed(wanted: Wanted, call: CallRecord) -> Any:
    """The same for a call that was recorded earlier, perhaps by other code: its result may fit no more."""
    try:
        return serve(wanted.tool, call)
    except ShapeMismatch as error:
        if call.standing != "done":
            raise
        tool, fork = wanted.tool, wanted.execution.record.fork
        if fork is not None and call.path in fork.given:  # what a person has put there is not forgotten
            wanted.execution.hold(wanted.branch, standins.unfit_gift(wanted.drive.run_id, call, error.what))
        what = f"recorded a result that {tool.name} ({tool.source}) no longer gives: {error.what}"
        recorded = f"a result of {tool.name}: {shown(codec.decode(call.value))}"
        sides = Sides(call.path, recorded, f"it no longer fits: {error.what}", f"at {call.path} {what}")
        wanted.execution.diverge(wanted.branch, call.intent or call.seq, sides)


_OWN: tuple[type[Exception], ...] = (
    ApprovalDenied,
    ApprovalExpired,
    BlockingTool,
    CallFailed,
    EffectRefused,
    NoRun,
    NotStorable,
    PremiseChanged,
    PremiseUnread,
    PriceUnknown,
    ProviderFailed,
    ShapeMismatch,
    StatementFailed,
    StatementRefused,
    StricterInside,
    TransactionTooLong,
)
"""Failures that arrive as themselves without being declared: perdure's own."""


def _failure(tool: Tool[..., Any], call: CallRecord) -> BaseException:
    stored = codec.decode(call.value)
    if (given_up := told(stored)) is not None:
        return given_up
    themselves = (*tool.options.raises, *_OWN)
    error = codec.restore_error(stored, themselves)
    if isinstance(error, PremiseChanged):
        premises.as_declared(tool, error)
    if isinstance(error, themselves):
        return error
    failed = CallFailed(
        f"{tool.name} failed: {stored['type']}: {stored['message']}",
        path=call.path,
        type_name=stored["type"],
        message=stored["message"],
        trace=stored.get("trace", ""),
    )
    failed.__cause__ = error
    return failed


def attempt(wanted: Wanted) -> Coroutine[Any, Any, None]:
    """Intend, act, settle: once. Afterwards the record says what came of it."""
    if guards.to_ask(wanted) or wanted.execution.room is not None or wanted.tool.limited:
        return _guarded(wanted)
    wanted.grounds = NO_GROUNDS
    wanted.execution.forbid(wanted.branch)
    return _admitted(wanted)


async def _guarded(wanted: Wanted) -> None:
    """The attempt, once every guard has let it pass and there is a place for it."""
    execution, drive, tool = wanted.execution, wanted.drive, wanted.tool
    await guards.guard(wanted)
    if wanted.settled:
        await approvals.drop(wanted)
        return
    if execution.room is None and not tool.limited:
        await _admitted(wanted)
        return
    async with execution.room or nullcontext(), drive.host.limits.admit(tool):
        await guards.guard(wanted)  # time has passed
        if not wanted.settled:
            await _admitted(wanted)


def _admitted(wanted: Wanted) -> Coroutine[Any, Any, None]:
    """The attempt, within the budget if there is one."""
    return _made(wanted) if wanted.drive.journal.record.ledger is None else _afforded(wanted)


async def _afforded(wanted: Wanted) -> None:
    """The attempt, once the budget has room for it."""
    try:
        while not await budgets.afford(wanted):  # last of all: its pledge stands until the attempt is over
            await guards.guard(wanted)
            if wanted.settled:
                return
        await _made(wanted)
    except PriceUnknown as error:
        call = identity(wanted, 0.0)
        await wanted.drive.journal.append(failed(call, wanted.head, error, final=True))
    finally:
        wanted.drive.purse.drop(wanted.path)


async def _made(wanted: Wanted) -> None:
    """The attempt itself, which nothing keeps back any more."""
    drive, effect, facts = wanted.drive, wanted.head.effect, wanted.grounds.facts
    if drive.draining is not None and drive.draining.is_set():
        await drive.rests()
    drive.acts += 1
    try:
        timeout = wanted.tool.options.timeout
        seconds = timeout.total_seconds() if timeout is not None else 0.0
        call = identity(wanted, seconds)
        if effect == "transactional":
            await _transact(wanted, call)
            return
        queued = 0
        if effect != "read" or (facts and any(isinstance(fact, e.ApprovalUsed) for fact in facts)):
            if not await _permitted(wanted, call, seconds):  # what is permitted once is written first
                return
        elif wanted.reserved is not None:
            queued = await _queue_intent(wanted, call)
        reached("call.act")
        await _act(wanted, call, queued)
    finally:
        drive.end_act()


async def _permitted(wanted: Wanted, call: Call, seconds: float) -> bool:
    """Whether the act may be made now: its intent is durable, and the lease outlasts it."""
    drive = wanted.drive
    await drive.lease_outlasts(seconds)
    if not await _intend(wanted, call):
        return False
    reached("intent.durable")
    try:
        await drive.lease_outlasts(seconds)  # directly before the act: the commit may have taken its time
    except LeaseLost:
        drive.journal.append_soon(not_sent(call.path, call.attempt, "the lease was gone"))
        raise
    return True


async def _queue_intent(wanted: Wanted, call: Call) -> int:
    """The intent of a read under a budget, not waited for.

    Returns the event up to which the journal must be durable before the step is given the result.
    """
    wanted.execution.forbid(wanted.branch)
    reached("intent.queue")
    seq = await wanted.drive.journal.append(_intent(wanted, call))
    reached("intent.queued")
    return seq


def _intent(wanted: Wanted, call: Call) -> e.CallIntended:
    deadline, seen = call.deadline or 0, wanted.drive.inbox_seen
    return e.CallIntended(
        call.path,
        wanted.head,
        call.key,
        call.attempt,
        deadline,
        seen,
        wanted.reserved,
        wanted.rests_on,
    )


async def _intend(wanted: Wanted, call: Call) -> bool:
    """Make the intent durable. False: a message that came first has settled the call."""
    drive = wanted.drive
    while True:
        wanted.execution.forbid(wanted.branch)
        if wanted.settled:
            return False
        if not guards.holds(wanted):
            await guards.guard(wanted)
            continue
        reached("intent.write")
        try:
            alone = wanted.branch.prefix == wanted.execution.prefix  # no gather is under way
            facts = (*wanted.grounds.facts, _intent(wanted, call))
            await drive.journal.intend(facts, _fences(wanted), alone=alone)
            return True
        except (InboxMoved, Expired):
            await drive.read_inbox()
            await guards.guard(wanted)


def _fences(wanted: Wanted) -> Fences:
    return Fences(inbox_seen=wanted.drive.inbox_seen, not_after=wanted.grounds.not_after)


async def _act(wanted: Wanted, call: Call, queued: int) -> None:
    """Run the body and record what it came to. `queued`: the event of an intent that was not waited for."""
    drive, branch = wanted.drive, wanted.branch
    acting = wanted.head.effect != "read"
    if wanted.tool.kind == "fact":
        wanted.as_of = drive.host.store.now()
    try:
        end = await run_body(drive, call, wanted.tool)
    except asyncio.CancelledError:
        if acting:
            drive.journal.append_soon(e.CallUnknown(call.path, "cancelled", drive.host.store.now()))
            branch.unwinding = branch.unwinding or Interrupted(
                f"{call.tool} was cancelled; its outcome is not known"
            )
        raise
    reached("call.acted")
    if end.cancelled is not None:
        if acting:  # a thread that could not be cancelled: what it came to counts
            drive.journal.append_soon(*facts_of(wanted, call, end))
            branch.unwinding = branch.unwinding or Interrupted(f"{call.tool} has ended after all")
        raise end.cancelled
    facts = facts_of(wanted, call, end)
    await drive.journal.append(*facts)
    if queued and not drive.journal.is_durable(queued):
        await drive.journal.barrier()
    reached("call.unknown" if facts and isinstance(facts[0], e.CallUnknown) else "receipt.queued")


def _backoff(tool: Tool[..., Any], attempt: int) -> float:
    retry = tool.options.retry
    return 0.0 if retry is None else retry.delay(attempt)


@contextmanager
def _hearing(drive: Drive, call: Call, tool: Tool[..., Any]) -> Iterator[None]:
    """Tell those who listen that a transactional body runs, in the thread in which it does."""
    over = None if drive.ears is None else drive.ears.acting(call, tool, "call")
    error: BaseException | None = None
    try:
        yield
    except BaseException as raised:
        error = raised
        raise
    finally:
        if over is not None:
            over(error)


async def _transact(wanted: Wanted, call: Call) -> None:
    """Run the body inside the store's transaction, with its receipt: it happened, or it did not."""
    tool, drive, head = wanted.tool, wanted.drive, wanted.head
    if tool.is_async:
        raise EffectRefused(
            f"{tool.name} is transactional and async; on SQLite it runs on the writer thread",
            remedy="declare it as a plain def that uses current_call().tx",
            where=tool.source,
        )

    def act(tx: Tx) -> Sequence[e.AnyBody]:
        with _hearing(drive, call, tool):
            context = copy_context()
            context.run(call_scope.set, replace(call, tx=tx))
            result = context.run(in_thread, strays.home(tool.thunk(call.args, injected)))
        reached("transact.inside")
        value, wanted.result = checked_result(drive, tool, result)
        receipt = e.CallSettled(
            call.path, "done", value, head, True, call.attempt, call.key, premises=wanted.rests_on
        )
        return (*wanted.grounds.facts, receipt)

    timeout = tool.options.timeout
    reached("transact.enter")
    try:
        injected = await tool.inject(call, drive.host.providers)
        await drive.lease_outlasts(0.0)
        seconds = timeout.total_seconds() if timeout else 1.0
        wanted.execution.forbid(wanted.branch)
        if not guards.holds(wanted):
            return
        await drive.journal.transact(act, seconds=seconds, fences=_fences(wanted))
        reached("transact.committed")
    except (InboxMoved, Expired):
        await drive.read_inbox()
    except StoreError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001  (whatever a tool raises becomes a fact)
        wanted.result = NOTHING
        if isinstance(error, SecretMissing):  # rolled back: it did not happen
            wanted.execution.hold(wanted.branch, out_of_reach(drive.run_id, error, call.path))
        definite = isinstance(error, (*UNFIT, *tool.options.raises)) and not wanted.undoing
        final = definite or wanted.ends(call.attempt)
        outcome: e.Outcome = "not_done" if isinstance(error, NotDone | ProviderFailed) else "failed"
        await drive.journal.append(failed(call, head, error, final=final, outcome=outcome))
    finally:
        if tool.opens_per_call:
            await drive.host.providers.call_ended(call)
