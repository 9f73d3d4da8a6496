"""The life of a call: served, guarded, intended, acted, settled, or unknown (DESIGN: the life of a call).

Laws 1 to 4 and 17 are kept here: an act follows its durable intent, a settled call is never acted again, and
an unknown
one goes by its effect class.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import copy_context
from typing import Any

from msgspec.structs import replace

from perdure import codec
from perdure.agent import Call, NotDone, Tool, call_scope, publisher, read_usage
from perdure.clock import SECOND
from perdure.errors import (
    CallFailed,
    DiskFull,
    EffectRefused,
    InboxMoved,
    LeftUnknown,
    NotStorable,
    PerdureError,
    Signal,
    ToolNotListed,
)
from perdure.runtime import reconcile
from perdure.runtime.boundary import reached
from perdure.runtime.drive import Drive, resolve
from perdure.runtime.execution import Branch, Execution, Interrupted
from perdure.runtime.tree import argument_digest
from perdure.state import events as e
from perdure.state.record import CallRecord
from perdure.store.protocol import Tx

REF_BYTES = 24
"""An argument at least so long is looked for in what the step has recorded already."""

KEPT_BYTES = 128
"""A longer argument of a read is digested and not kept: repeating the read takes today's."""


async def perform(execution: Execution, branch: Branch, tool: Tool[..., Any], args: dict[str, Any]) -> Any:
    """Make a call of the running step, or serve what it came to before a crash."""
    drive, path = execution.drive, branch.next_path()
    if not drive.agent.lists(tool):
        raise ToolNotListed(f"agent {drive.agent.name} does not list {tool.name}", where=tool.source)
    head = head_of(execution, tool, args)
    call = execution.record.calls.get(path)
    if call is not None:
        execution.replay.asked(path)
        if call.name != head.name or call.digest != head.digest:
            execution.diverge(branch, call.intent or call.seq, _difference(execution, call, head, tool))
        if call.settled:
            await execution.turn(branch, path)
            return serve(tool, execution.record.calls[path])
    if not execution.is_live:
        await execution.go_live(branch, path, tool.name)
    return await _until_settled(execution, branch, path, tool, args, head)


async def _until_settled(
    execution: Execution,
    branch: Branch,
    path: str,
    tool: Tool[..., Any],
    args: dict[str, Any],
    head: e.CallHead,
) -> Any:
    drive = execution.drive
    while True:
        if branch.unwinding is not None:
            raise branch.unwinding
        call = execution.record.calls.get(path)
        if call is None or call.standing in ("retrying", "not_done"):
            await _guard(execution, branch, tool, args)
            await _attempt(execution, branch, path, tool, args, head)
        elif call.settled:
            reached("receipt.served")
            return serve(tool, call)
        elif (held := await reconcile.settle(drive, call, tool)) is not None:
            execution.hold(branch, held)
        elif (now := execution.record.calls[path]).standing in ("open", "unknown"):
            await _resend(execution, branch, now, tool, args, head)


async def _resend(
    execution: Execution,
    branch: Branch,
    call: CallRecord,
    tool: Tool[..., Any],
    args: dict[str, Any],
    head: e.CallHead,
) -> None:
    """An idempotent call, again with the same key: backs off, and goes to a person after too many tries."""
    tries = reconcile.RESENDS
    if call.attempt >= tries:
        detail = f"{tool.name} was sent {call.attempt} times with one key and no reply came"
        execution.hold(branch, reconcile.unknown_hold(execution.drive, call, detail))
    await _guard(execution, branch, tool, args)
    await execution.drive.host.clock.sleep(reconcile.backoff_seconds(call.attempt - 1))
    await _attempt(execution, branch, call.path, tool, args, head)


def head_of(execution: Execution, tool: Tool[..., Any], args: dict[str, Any]) -> e.CallHead:
    """Which call it is: arguments as stored, and a digest over name and arguments."""
    recorded, digests = [], [tool.name.encode("utf-8", "surrogatepass")]
    values, effect = execution.values, tool.effect_of(args)
    for name, value in args.items():
        argument, digest = _argument(execution, name, value, values)
        if effect == "read" and isinstance(argument, bytes) and len(argument) > KEPT_BYTES:
            argument = e.Omitted(len(argument))
        recorded.append((name, argument))
        digests.append(name.encode())
        digests.append(digest)
    return e.CallHead(tool.name, effect, tuple(recorded), codec.digest(*digests))


def _argument(execution: Execution, name: str, value: Any, values: Any) -> tuple[e.Argument, bytes]:
    if isinstance(value, list):
        known = execution.live.argument(value, values)
        if known is not None:
            return known
    data = codec.encode(value, where=f"$.{name}")
    digest = argument_digest(value) if isinstance(value, list) else codec.digest(data)
    if len(data) >= REF_BYTES:
        for seq, stored in values.items():
            start = stored.find(data)
            if start >= 0:
                return e.Ref(seq, start, len(data)), digest
    return data, digest


def serve(tool: Tool[..., Any], call: CallRecord) -> Any:
    """What a settled call gives the step: live, replayed and reconciled alike."""
    if call.standing == "done":
        return tool.result_shape.restore(codec.decode(call.value), where=f"$.{tool.name}")
    if call.standing == "left-unknown":
        raise LeftUnknown(f"nobody knows whether {tool.name} ({call.path}) happened", path=call.path)
    raise _failure(tool, call)


def _failure(tool: Tool[..., Any], call: CallRecord) -> BaseException:
    stored = codec.decode(call.value)
    error = codec.restore_error(stored, (*tool.options.raises, NotStorable, CallFailed))
    if isinstance(error, (*tool.options.raises, NotStorable, CallFailed)):
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


async def _guard(execution: Execution, branch: Branch, tool: Tool[..., Any], args: dict[str, Any]) -> None:
    """What must hold before anything is intended."""
    if tool.needs_approval(args):
        detail = f"{tool.name} needs an approval, and this release cannot ask for one; it was not called"
        execution.hold(
            branch, e.RunHeld("approval-needed", detail, (f"perdure cancel {execution.drive.run_id}",))
        )
    if execution.record.cancel is not None:
        branch.unwind("cancelled")
    if execution.record.held is not None:
        branch.unwind("held")


def call_key(drive: Drive, path: str, head: e.CallHead, round_: int) -> str:
    """The key that the other side may use to recognise this act; unchanged on a re-send."""
    return codec.digest(drive.run_id.encode(), path.encode(), head.digest, str(round_).encode()).hex()


async def _attempt(
    execution: Execution,
    branch: Branch,
    path: str,
    tool: Tool[..., Any],
    args: dict[str, Any],
    head: e.CallHead,
) -> None:
    """Intend, act, settle: once. Afterwards the record says what came of it."""
    drive = execution.drive
    before = execution.record.calls.get(path)
    attempt, round_ = (1, 0) if before is None else (before.attempt + 1, before.round)
    timeout = tool.options.timeout
    seconds = timeout.total_seconds() if timeout is not None else 0.0
    deadline = drive.host.clock.now() + int(seconds * SECOND) if seconds else 0
    if before is not None and before.standing != "retrying":
        key = before.key
    else:
        key = call_key(drive, path, head, round_)
    call = Call(
        key=key,
        run_id=drive.run_id,
        path=path,
        attempt=attempt,
        args=args,
        model=tool.model_name,
        principal=drive.principal,
        deadline=deadline or None,
        tx=None,
        effect=head.effect,
        tool=tool.name,
    )
    if head.effect == "transactional":
        await _transact(execution, branch, call, tool, head)
        return
    if head.effect != "read":
        await _intend(execution, branch, call, tool, head, deadline)
        reached("intent.durable")
        await drive.lease_outlasts(seconds)
    if tool.options.limit is None and tool.options.rate is None:
        reached("call.act")
        await _act(execution, branch, call, tool, head)
        return
    async with drive.host.limits.admit(tool):
        reached("call.act")
        await _act(execution, branch, call, tool, head)


async def _intend(
    execution: Execution, branch: Branch, call: Call, tool: Tool[..., Any], head: e.CallHead, deadline: int
) -> None:
    drive = execution.drive
    while True:
        body = e.CallIntended(call.path, head, call.key, call.attempt, deadline, drive.inbox_seen)
        reached("intent.write")
        try:
            await drive.journal.intend(body, drive.fences)
            return
        except InboxMoved:
            await drive.read_inbox()
            await _guard(execution, branch, tool, dict(call.args))
        except DiskFull as full:
            execution.broken = full
            branch.unwind("the disk is full")


async def _act(
    execution: Execution, branch: Branch, call: Call, tool: Tool[..., Any], head: e.CallHead
) -> None:
    journal = execution.drive.journal
    acting = head.effect != "read"
    definite: tuple[type[BaseException], ...] = (NotStorable, *tool.options.raises)
    own = head if not acting else None
    try:
        result = await _body(execution.drive, call, tool)
        reached("call.acted")
        value = codec.encode(result, where="$.result")
        settled = e.CallSettled(call.path, "done", value, own, True, call.attempt, usage=_usage(tool, result))
    except definite as error:
        settled = _failed(call, own, error, final=True)
    except NotDone as error:
        settled = _failed(call, own, error, final=not _may_retry(tool, call), outcome="not_done")
    except Signal:
        raise
    except asyncio.CancelledError:
        if acting:
            journal.append_soon(e.CallUnknown(call.path, "cancelled", execution.drive.host.clock.now()))
            branch.unwinding = branch.unwinding or Interrupted(
                f"{call.tool} was cancelled; its outcome is not known"
            )
        raise
    except Exception as error:  # noqa: BLE001  (whatever a tool raises becomes a fact of the run)
        if acting:
            await _went_unknown(execution, call, error)
            return
        settled = _failed(call, own, error, final=not _may_retry(tool, call))
    await journal.append(settled)
    reached("receipt.queued")
    if not settled.final:
        await execution.drive.host.clock.sleep(_backoff(tool, call.attempt))


async def _went_unknown(execution: Execution, call: Call, error: Exception) -> None:
    cause: Any = "error"
    if isinstance(error, TimeoutError):
        cause = "timeout"
    elif isinstance(error, (ConnectionError, OSError)):
        cause = "connection"
    late = getattr(error, "late", None)
    now = execution.drive.host.clock.now()
    detail = f"{type(error).__name__}: {error}"[:500]
    bodies: list[e.AnyBody] = [e.CallUnknown(call.path, cause, now, detail)]
    if late is not None:
        bodies.append(e.CallLate(call.path, call.attempt, "done", late, used=True))
    await execution.drive.journal.append(*bodies)
    reached("call.unknown")


def _failed(
    call: Call, head: e.CallHead | None, error: BaseException, *, final: bool, outcome: e.Outcome = "failed"
) -> e.CallSettled:
    value = codec.encode(codec.encode_error(error))
    return e.CallSettled(call.path, outcome, value, head, final, call.attempt)


def _may_retry(tool: Tool[..., Any], call: Call) -> bool:
    retry = tool.options.retry
    return retry is not None and call.attempt < retry.attempts


def _backoff(tool: Tool[..., Any], attempt: int) -> float:
    retry = tool.options.retry
    return 0.0 if retry is None else retry.delay(attempt)


def _usage(tool: Tool[..., Any], result: Any) -> tuple[int, int] | None:
    if tool.kind != "model":
        return None
    usage = (tool.options.usage or read_usage)(result)
    return None if usage is None else (usage.input_tokens, usage.output_tokens)


class LateResult(TimeoutError):
    """A call passed its timeout and then ended all the same; `late` holds its result's value bytes."""

    def __init__(self, message: str, late: bytes | None) -> None:
        super().__init__(message)
        self.late = late


async def _body(drive: Drive, call: Call, tool: Tool[..., Any]) -> Any:
    """Run the user's function as the call `call`, within its timeout."""
    injected = await tool.inject(call, drive.host.providers) if tool.parameters.injected else {}
    thunk = tool.thunk(call.args, injected)
    timeout = tool.options.timeout
    token = call_scope.set(call)
    chunks = publisher.set(drive.publish)
    try:
        if (
            tool.is_async and timeout is None
        ):  # awaited in this very task: most calls, and a task costs tens of us
            return await thunk()
        if tool.is_async:
            work: asyncio.Future[Any] = asyncio.ensure_future(thunk())
        else:
            work = asyncio.get_running_loop().run_in_executor(drive.host.threads, copy_context().run, thunk)
        return await _within(work, timeout.total_seconds() if timeout is not None else None, tool)
    finally:
        call_scope.reset(token)
        publisher.reset(chunks)
        if tool.opens_per_call:
            await drive.host.providers.call_ended(call)


async def _within(work: asyncio.Future[Any], seconds: float | None, tool: Tool[..., Any]) -> Any:
    """Await work for so long.

    Work that is over time is ended first (a thread: waited for), then counts as timed out.
    """
    try:
        done, _ = await asyncio.wait([work], timeout=seconds)
    except asyncio.CancelledError:
        if tool.is_async:
            work.cancel()
            await asyncio.wait([work])
        raise
    if done:
        return work.result()
    if tool.is_async:
        work.cancel()
    await asyncio.wait([work])
    message = f"{tool.name} took longer than its timeout of {seconds:g} s"
    if work.cancelled() or work.exception() is not None:
        raise LateResult(message, None)
    raise LateResult(message, codec.encode(work.result(), where="$.result"))


async def _transact(
    execution: Execution, branch: Branch, call: Call, tool: Tool[..., Any], head: e.CallHead
) -> None:
    """Run the body inside the store's transaction, with its receipt: it happened, or it did not."""
    if tool.is_async:
        raise EffectRefused(
            f"{tool.name} is transactional and async; on SQLite it runs on the writer thread",
            remedy="declare it as a plain def that uses current_call().tx",
            where=tool.source,
        )
    drive = execution.drive
    injected = await tool.inject(call, drive.host.providers)

    def act(tx: Tx) -> Sequence[e.AnyBody]:
        inside = replace(call, tx=tx)
        context = copy_context()
        context.run(call_scope.set, inside)
        result = context.run(tool.thunk(call.args, injected))
        reached("transact.inside")
        value = codec.encode(result, where="$.result")
        return (e.CallSettled(call.path, "done", value, head, True, call.attempt, call.key),)

    timeout = tool.options.timeout
    reached("transact.enter")
    try:
        await drive.lease_outlasts(0.0)
        await drive.journal.transact(
            act, seconds=timeout.total_seconds() if timeout else 1.0, fences=drive.fences
        )
        reached("transact.committed")
    except InboxMoved:
        await drive.read_inbox()
    except PerdureError as error:
        if not isinstance(error, NotStorable):
            raise
        await drive.journal.append(_failed(call, head, error, final=True))
    except Exception as error:  # noqa: BLE001  (whatever a tool raises becomes a fact of the run)
        final = isinstance(error, tuple(tool.options.raises)) or not _may_retry(tool, call)
        await drive.journal.append(_failed(call, head, error, final=final))


def _difference(execution: Execution, call: CallRecord, head: e.CallHead, tool: Tool[..., Any]) -> str:
    """Both sides of a mismatch, for a person."""

    def show(name: str, args: dict[str, Any]) -> str:
        inside = ", ".join(f"{key}={value!r:.60}" for key, value in args.items())
        return f"{name}({inside})"

    recorded = show(call.name, execution.drive.arguments(call))
    now = {name: resolve(execution.record.state, value, dict(execution.values)) for name, value in head.args}
    return f"at {call.path} recorded {recorded}; the code asks for {show(head.name, now)} ({tool.source})"
