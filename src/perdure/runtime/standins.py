"""What a fork does about calls that its origin has made already: asks a person, takes the result, or acts.

Before a call that acts is made for the first time, it is held against what the origin did after the point
(`state.fork.matching`). What is decided is recorded before anything is done about it, so that a restart does
the same. A result that stands in is a receipt without an intent: nothing was sent for it, nobody is asked for
a permission, and no budget is used. Reads are none of this.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from msgspec import Struct

from perdure import codec
from perdure.codec import Shape
from perdure.codec.naming import written
from perdure.codec.sealing import unwrapped
from perdure.errors import ShapeMismatch
from perdure.runtime.boundary import reached
from perdure.runtime.execution import Branch, Execution
from perdure.runtime.lineage import Told
from perdure.runtime.origin import REASON, known
from perdure.runtime.resolved import fit
from perdure.runtime.wanted import Wanted
from perdure.state import events as e
from perdure.state.amount import KINDS, Amount
from perdure.state.fork import matching
from perdure.state.record import AskedEffect, CallRecord, ForkRecord, RunRecord, WaitRecord

POLICY = "effects"
"""Who decided, where nobody had to be asked."""


class _Call(Struct, frozen=True):
    """What is to be done: a call, or a child that is to be spawned. `digest`: see `e.OriginAct`."""

    path: str
    name: str
    effect: str
    digest: bytes
    child: bool = False


async def stand_in(wanted: Wanted) -> bool:
    """Decide about a call that acts and was not made yet. True: it is settled, and nothing was sent.

    Unwinds where a person has to decide first.
    """
    fork = wanted.execution.record.fork
    if fork is None or fork.effects == "redo" or wanted.head.effect == "read" or wanted.undoing:
        return False
    call = _Call(wanted.path, wanted.head.name, wanted.head.effect, wanted.head.digest)
    one = await _decided(wanted.execution, wanted.branch, fork, call)
    if one is None or one.how == "act":
        return False
    outcome, value = _result(fork, one)
    if outcome == "done":
        try:
            value = codec.encode(fit(wanted.tool, codec.decode(value)))
        except ShapeMismatch as error:
            await _ask(wanted.execution, wanted.branch, fork, call, one.act, error.what)
    receipt = e.CallSettled(wanted.path, outcome, value, wanted.head)
    await wanted.drive.journal.append(receipt)
    reached("effect.settled")
    return True


async def _decided(execution: Execution, branch: Branch, fork: ForkRecord, call: _Call) -> AskedEffect | None:
    """What is decided about a call; None if there is nothing to decide. Unwinds while it is not decided."""
    if (one := _asked(fork, call)) is None or not one.how:
        await execution.drive.journal.decide(lambda record: _facts(record, call))
        assert execution.record.fork is not None
        fork = execution.record.fork
        one = _asked(fork, call)
    if one is None or one.how:
        reached("effect.decided")
        return one
    reached("effect.asked")
    act = fork.acts[one.act] if one.act >= 0 else None
    return execution.hold(branch, _held(execution, fork, call, act))


def _asked(fork: ForkRecord, call: _Call) -> AskedEffect | None:
    """What is asked about just this call; other code may ask for another one at its place."""
    one = fork.asked.get(call.path)
    return one if one is not None and one.digest == call.digest else None


def _facts(record: RunRecord, call: _Call) -> tuple[e.AnyBody, ...]:
    """What is to be recorded of a call that is about to be made; nothing if it may be made as it is."""
    fork = record.fork
    assert fork is not None
    if (one := _asked(fork, call)) is not None:
        index, asked = one.act, tuple[e.AnyBody, ...]()
    else:
        found = matching(fork, call.path, call.name, call.digest, child=call.child)
        if found is None and fork.effects == "ask":
            return ()
        index = -1 if found is None else found
        asked = (e.EffectAsked(call.path, index, call.digest),)
    if one is not None and one.how:
        return ()
    act = fork.acts[index] if index >= 0 else None
    if fork.effects == "simulate" and act is not None and act.digest == call.digest and known(act):
        return (*asked, e.EffectDecided(call.path, "reuse", POLICY))
    return asked


async def _ask(
    execution: Execution, branch: Branch, fork: ForkRecord, call: _Call, place: int, why: str
) -> None:
    """Ask anew, for what was decided cannot be given to the step."""
    await execution.drive.journal.append(e.EffectAsked(call.path, place, call.digest))
    act = fork.acts[place] if place >= 0 else None
    execution.hold(branch, _held(execution, fork, call, act, f"; the result does not fit: {why}"))


def _held(
    execution: Execution, fork: ForkRecord, call: _Call, act: e.OriginAct | None, why: str = ""
) -> e.RunHeld:
    """The hold: what the origin did, and what can be done now."""
    run = execution.drive.run_id
    what = f"{call.name} ({call.path}, {call.effect})"
    if act is None:
        detail = f"{what} would act, and no act of its origin {fork.run} is left that it repeats"
    else:
        alike = "the same" if act.digest == call.digest else "one of it with other arguments"
        came = {"done": f": {_brief(act)}", "failed": ": it failed"}.get(act.outcome, f": {act.outcome}")
        undone = ", and it was undone" if act.undone else ""
        detail = f"{what}: {act.run} has made {alike} (call {act.path}){came}{undone}"
    ways = [f"perdure effect {run} {call.path} --act    makes it, again"]
    if act is not None and known(act):
        ways.insert(0, f"perdure effect {run} {call.path} --reuse    takes that result, nothing is sent")
    ways += [
        f"perdure effect {run} {call.path} --simulate RESULT    takes this result, nothing is sent",
        f"perdure cancel {run}",
    ]
    return e.RunHeld(REASON, detail + why, tuple(ways), call.path)


def _brief(act: e.OriginAct) -> str:
    if act.child:
        return f"child {act.child}, which has acted"
    return written(codec.decode(act.value), 120) if act.value else "done"


def _result(fork: ForkRecord, one: AskedEffect) -> tuple[e.Outcome, bytes]:
    """What stands in for the call."""
    if one.how == "simulate":
        return "done", one.value
    act = fork.acts[one.act]
    return ("done" if act.outcome == "done" else "failed"), act.value


def unfit_gift(run_id: str, call: CallRecord, why: str) -> e.RunHeld:
    """The hold of a fork that was given a result which the tool could never have given."""
    detail = f"the result that {call.name} ({call.path}) was given in this fork does not fit: {why}"
    return e.RunHeld("fork-unfit", detail, (f"perdure cancel {run_id}    and fork again",), call.path)


# ------------------------------------------------------------------------------------------------ children


async def consult_child(
    execution: Execution, branch: Branch, path: str, name: str, digest: bytes, effect: str = "a child"
) -> bool:
    """Decide about a child that is to be spawned. True: its origin's result stands in for it."""
    fork = execution.record.fork
    if fork is None or fork.effects == "redo":
        return False
    one = await _decided(execution, branch, fork, _Call(path, name, effect, digest, child=True))
    return one is not None and one.how != "act"


def child_ended(record: RunRecord, wait: WaitRecord, shape: Shape[Any]) -> e.WaitClosed | None:
    """The end of a wait for a child that was decided not to be spawned; None if it is to be.

    `shape`: the type of the child's result.
    """
    fork = record.fork
    one = None if fork is None else fork.asked.get(wait.path)
    if fork is None or one is None or one.how not in ("reuse", "simulate"):
        return None
    value, by = one.value, ""
    if one.how == "reuse":
        value, by = fork.acts[one.act].value, fork.acts[one.act].child
    else:
        with suppress(ShapeMismatch):
            value = codec.encode(shape.taken(unwrapped(codec.decode(value))))
        end = Told("succeeded", value)
        value = codec.encode({"status": end.status, "value": end.value, "used": [0] * len(KINDS)})
    return e.WaitClosed(wait.path, "child", value, by=by, used=None if record.ledger is None else Amount())
