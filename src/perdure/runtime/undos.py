"""Undoing what a cancelled run has done: newest first, each undo an ordinary durable call of its own.

It begins when the children are over and every open call has a verdict. What is owed is read from the whole
retold once, and planned in one event; from then on the record alone says how far it has come, and the
history is read again only for the arguments of an undo that is still to be made. An undo passes no guard:
neither an approval, a premise, the agent's `authorize` nor an exhausted budget can keep back what takes
something back. Laws 1 to 4 hold for it as for any call.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from perdure import codec
from perdure.agent import RESULT, Agent, Tool
from perdure.errors import BadArguments, EffectRefused, NotStorable, PerdureError, ShapeMismatch, Suspend
from perdure.journal import Retold, resolve, retold
from perdure.runtime import calls, doubts, reconcile
from perdure.runtime.boundary import reached
from perdure.runtime.drive import Drive
from perdure.runtime.execution import Branch, Execution
from perdure.runtime.head import check_size
from perdure.runtime.resolved import undo_of, unknown_hold
from perdure.runtime.wanted import Wanted, may_retry
from perdure.state import events as e
from perdure.state.fold import fold_all, recorded_values
from perdure.state.record import CallRecord, RunRecord
from perdure.state.undo import PREFIX, planned, progress, undo_path

_MISFIT: tuple[type[PerdureError], ...] = (BadArguments, EffectRefused, NotStorable, ShapeMismatch)
"""Why an undo cannot even be asked for: today's code does not take what was recorded."""


class Past(Struct, frozen=True):
    """An act as its history tells it: arguments and result, plain."""

    args: dict[str, Any]
    result: Any


async def plan(drive: Drive) -> None:
    """Look up what is owed, once; writes nothing if that is nothing."""
    if drive.record.undo is not None:
        return
    await drive.journal.barrier()
    past = await retold(drive.host.store, drive.run_id)
    owed = planned(past.events, lambda name: _may_be_undone(drive.agent, name))
    if not owed.acts and not owed.unsure:
        return
    reached("undo.plan")
    by = drive.record.cancel or ""
    released = () if drive.record.held is None else (e.RunReleased(by, "cancel"),)
    await drive.journal.append(*released, owed)
    reached("undo.planned")


def _may_be_undone(agent: Agent[Any, Any, Any], name: str) -> bool:
    """Whether acts of this tool are to be undone; one that is gone from the code may have had a hook."""
    tool = agent.tool_named(name)
    return tool is None or tool.undo_hook is not None


def told(record: RunRecord) -> dict[str, list[str]]:
    """What the end of a run says of its undos, by path."""
    now = progress(record)
    left = (*now.kept, *record.unsure)
    return {"undone": [act.path for act in now.undone], "left": [act.path for act in left]}


class Undos:
    """The undos of one run that is driven here."""

    def __init__(self, drive: Drive) -> None:
        self._drive = drive
        self._execution = Execution(drive, drive.live, undoing=True)
        self._pasts: dict[str, Past] = {}

    @property
    def next(self) -> e.Owed | None:
        """What is to be undone now; None if nothing is left."""
        left = progress(self._drive.record).left
        return left[0] if left else None

    async def undo(self, act: e.Owed) -> e.RunHeld | None:
        """Undo one act, or say why a person is needed. It may also have come to nothing yet: look again."""
        path = undo_path(act.path)
        tool = undo_of(self._drive.agent, act.name)
        if tool is None:
            why = f"{self._drive.agent.name} no longer lists a tool {act.name} with an undo hook"
            return await self._unfit(act, why)
        branch = Branch(PREFIX, None)
        try:
            args = await self._arguments(act, tool)
            head = self._head(tool, args)
            wanted = Wanted(self._execution, branch, path, tool, args, head, self._drive)
        except _MISFIT as error:
            return await self._unfit(act, f"[{error.code}] {error.what}")
        call = wanted.call
        if call is not None and call.standing != "retrying" and call.digest != wanted.head.digest:
            return await self._unfit(act, f"{tool.name} would be called otherwise than it was before")
        try:
            return await self._made(act, wanted)
        except Suspend:  # a message has come between
            return None

    # -- what is called

    async def _arguments(self, act: e.Owed, tool: Tool[..., Any]) -> dict[str, Any]:
        """Typed arguments of the undo. Raises BadArguments if it does not take them."""
        past = await self._past(act)
        wants = RESULT in tool.parameters.names
        return tool.restore({RESULT: past.result, **past.args} if wants else past.args)

    def _head(self, tool: Tool[..., Any], args: dict[str, Any]) -> e.CallHead:
        recorded, digests = [], [tool.name.encode("utf-8", "surrogatepass")]
        for name, value in args.items():
            data = codec.encode(value, where=f"$.{name}")
            check_size(self._drive, data, value, f"$.{name}")
            recorded.append((name, data))
            digests += [name.encode(), codec.digest(data)]
        return e.CallHead(tool.name, tool.effect_of(args), tuple(recorded), codec.digest(*digests))

    async def _past(self, act: e.Owed) -> Past:
        if not self._pasts:
            left = progress(self._drive.record).left
            self._pasts = pasts(await retold(self._drive.host.store, self._drive.run_id), left)
        return self._pasts[act.path]

    # -- how it lives

    async def _made(self, act: e.Owed, wanted: Wanted) -> e.RunHeld | None:
        """Until it is settled; a failure that the code would not try again goes to a person."""
        drive, tool, sent = self._drive, wanted.tool, 0
        while True:
            call = wanted.call
            if call is not None and call.settled:
                reached("undo.done")
                return None
            if call is not None and call.standing in ("open", "unknown"):
                held = await reconcile.settle(drive, call, tool)
                if held is not None:
                    return held
                if (now := drive.record.calls[call.path]).standing not in ("open", "unknown"):
                    continue
                if sent and now.attempt >= reconcile.RESENDS:
                    return self._sent_in_vain(now)
                await drive.host.clock.sleep(reconcile.backoff_seconds(now.attempt - 1))
            elif call is not None and sent:
                if sent >= reconcile.RESENDS or not _goes_on(tool, call):
                    return self._failed(act, call, _words(call))
                await drive.host.clock.sleep(reconcile.backoff_seconds(sent - 1))
            elif call is None and drive.record.doubt is not None and await doubts.raised(wanted):
                continue
            await calls.attempt(wanted)
            sent += 1

    async def _unfit(self, act: e.Owed, why: str) -> e.RunHeld:
        """It cannot be asked for: recorded as a failed try if it was not begun, so that it can be settled."""
        path = undo_path(act.path)
        call = self._drive.record.calls.get(path)
        if call is not None and call.standing in ("open", "unknown"):
            return unknown_hold(self._drive.run_id, call, f"{call.name} ({path}): {why}")
        if call is None:
            head = e.CallHead(act.name, "idempotent", (), codec.digest(act.name.encode(), path.encode()))
            error = codec.encode(codec.encode_error(RuntimeError(why)))
            await self._drive.journal.append(e.CallSettled(path, "failed", error, head, final=False))
            call = self._drive.record.calls[path]
        return self._failed(act, call, why)

    def _failed(self, act: e.Owed, call: CallRecord, why: str) -> e.RunHeld:
        """The hold of an undo that did not work; those that come after it wait for it."""
        run, left = self._drive.run_id, len(progress(self._drive.record).left)
        rest = f"; {left - 1} more to undo after it" if left > 1 else ""
        remedies = (f"perdure retry {run}", *_settling(run, call.path))
        what = f"{act.name} ({act.path}) is not undone: {why}{rest}"
        return e.RunHeld("undo-failed", what, remedies, call.path)

    def _sent_in_vain(self, call: CallRecord) -> e.RunHeld:
        run = self._drive.run_id
        what = f"{call.name} ({call.path}) was sent {call.attempt} times with one key and no reply came"
        held = unknown_hold(run, call, what)
        return e.RunHeld(held.reason, held.detail, (f"perdure retry {run}", *held.remedies), call.path)


def _goes_on(tool: Tool[..., Any], call: CallRecord) -> bool:
    """Whether a try that came to nothing is followed by another one of itself."""
    return call.standing == "not_done" or may_retry(tool, call.attempt)


def _words(call: CallRecord) -> str:
    if not call.value:
        return "it did not happen, however often it was tried"
    error = codec.decode(call.value)
    return f"{error['type']}: {error['message']}"[:500]


def _settling(run: str, path: str) -> tuple[str, str]:
    return (
        f"perdure resolve {run} {path} --done null    it is undone by hand",
        f"perdure resolve {run} {path} --failed WHY    it stays as it is",
    )


def pasts(past: Retold, acts: tuple[e.Owed, ...]) -> dict[str, Past]:
    """Arguments and results of these acts, as they were when each was settled."""
    found: dict[str, Past] = {}
    record, later = past.base, past.later
    for act in sorted(acts, key=lambda act: act.seq):
        if act.seq <= past.base.seq:
            found[act.path] = _kept(past, act)
            continue
        record = fold_all(record, later[record.seq - past.base.seq : act.seq - past.base.seq], codec.decode)
        call, values = record.calls[act.path], recorded_values(record)
        args = {name: resolve(record.state, value, values) for name, value in call.args}
        found[act.path] = Past(args, codec.decode(call.value))
    return found


def _kept(past: Retold, act: e.Owed) -> Past:
    """The same of an act whose events were compacted: what is kept of it has no references in it."""
    head, value = e.CallHead("", "irreversible", (), b""), b""
    for event in past.events:
        body = event.body
        if event.seq > act.seq:
            break
        if isinstance(body, e.CallIntended | e.CallSettled) and body.path == act.path:
            head = body.head or head
        if isinstance(body, e.CallSettled | e.CallReconciled | e.CallLate) and body.path == act.path:
            value = body.value or value
    return Past({name: resolve(None, argument, {}) for name, argument in head.args}, codec.decode(value))
