"""A run that another run's step spawns: set going, awaited, called back.

A child is a run like any other: its own journal, worker and life. Its parent opens a wait, durably and fenced
like an intent, before the child is created; the child tells its end in the commit of that end. So a crash
between any two of these is mended by doing the next one again (laws 2, 10, 16 and 17). A parent ends after
its children.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, TypeVar, get_args

from msgspec import Struct
from msgspec.structs import replace

from perdure import codec
from perdure.agent import Agent, Budget, Call
from perdure.codec.naming import written
from perdure.errors import BadArguments, ChildFailed, NoSuchRun, RunEnded, RunGone
from perdure.runtime import questions, rights, standins, waits
from perdure.runtime.allotment import allot
from perdure.runtime.birth import Circumstances, goal_bytes, new_run, same_goal, started
from perdure.runtime.boundary import reached
from perdure.runtime.difference import Sides
from perdure.runtime.drive import Drive
from perdure.runtime.execution import Branch, Execution, here
from perdure.runtime.lineage import Begun, OnCancel, Told, child_digest, child_id, open_children
from perdure.runtime.vaults import child_started
from perdure.state import events as e
from perdure.state.amount import Amount
from perdure.state.record import RunRecord, WaitRecord
from perdure.store.protocol import Message, Store

R = TypeVar("R")

SPAWN = "run.spawn"
"""What `authorize` is asked about where no tool is called."""


class Spawning(Struct, frozen=True):
    """What a step spawns. `budget`: the child's own limits; `on_cancel`: see `OnCancel`.

    `tool`: the name of the tool as which a model calls the agent; empty for `run.spawn`.
    """

    agent: Agent[Any, Any, Any]
    goal: Any
    budget: Budget | None = None
    on_cancel: OnCancel = "cancel"
    tool: str = ""


async def spawn(execution: Execution, spawning: Spawning) -> Any:
    """A child's result, once it has ended; unwinds until then.

    Raises ChildFailed if it ended without one, ShapeMismatch or NotStorable for a goal that does not fit.
    """
    drive, branch, agent = execution.drive, here(execution), spawning.agent
    _check(spawning)
    goal, path = goal_bytes(agent, spawning.goal), branch.upcoming
    drive.host.known.setdefault(agent.name, agent)

    limits, permitted = (spawning.budget or Budget()).limits(agent.budget), False

    async def reserves() -> Amount | None:
        nonlocal limits, permitted
        await _permitted(execution, branch, path, spawning)
        permitted = True
        if await standins.consult_child(execution, branch, path, agent.name, child_digest(agent.name, goal)):
            return None
        limits, reserved = await allot(execution, path, limits)
        return reserved

    def detail() -> bytes:
        begun = Circumstances(drive.record.trace, drive.record.principal, drive.run_id, path, limits)
        return Begun(started(agent, spawning.goal, begun), spawning.on_cancel).detail

    async def begins(wait: WaitRecord) -> None:
        if (ended := standins.child_ended(execution.record, wait, agent.result_shape)) is not None:
            await drive.journal.append(ended)
            return
        if not permitted and drive.agent.authorize_fn is not None:  # its wait was opened before a pause
            await _permitted_still(execution, branch, wait, spawning)
        await _begin(execution, branch, wait)

    def differs(wait: WaitRecord) -> Sides | None:
        was = Begun.of(wait).started
        if was.agent == agent.name and same_goal(agent, was.goal, goal):
            return None
        recorded = f"a child of {was.agent} for {written(codec.decode(was.goal), 80)}"
        now = f"spawns {agent.name} for {written(codec.decode(goal), 80)}"
        return Sides(wait.path, recorded, now, f"at {wait.path} recorded {recorded}; the code {now}")

    name = child_id(drive.run_id, path)
    awaited = waits.Awaited(name, "child", None, detail, begins, reserves, differs)
    try:
        wait = await waits.wait_for(execution, awaited, waits.nothing, lambda at: e.WaitClosed(at, "expired"))
    finally:
        drive.purse.drop(path)  # it stands in the record, or is not needed
    return _result(agent, wait)


def _check(spawning: Spawning) -> None:
    if not isinstance(spawning.agent, Agent):
        raise BadArguments(
            f"run.spawn takes an agent, not {spawning.agent!r:.80}",
            remedy="await run.spawn(researcher, goal)",
        )
    if spawning.on_cancel not in get_args(OnCancel):
        raise BadArguments(
            f"on_cancel={spawning.on_cancel!r:.80}", remedy=f"one of {', '.join(get_args(OnCancel))}"
        )
    spawning.agent.validate()


async def _permitted(execution: Execution, branch: Branch, path: str, spawning: Spawning) -> None:
    """Hold the run unless its principal may have this child created."""
    drive, name = execution.drive, spawning.tool or SPAWN
    args = {"goal": spawning.goal}
    call = Call(
        key=child_id(drive.run_id, path),
        run_id=drive.run_id,
        path=path,
        args=args if spawning.tool else {"agent": spawning.agent.name} | args,
        principal=drive.principal,
        effect="idempotent",
        tool=name,
    )
    why = await rights.refusal(drive, call)
    execution.forbid(branch)  # a message may have come while it was asked
    if why:
        detail = f"{name} ({path}) did not set {spawning.agent.name} going: {why}"
        execution.hold(branch, e.RunHeld("not-permitted", detail, rights.ways_out(drive.run_id), path))


async def _permitted_still(
    execution: Execution, branch: Branch, wait: WaitRecord, spawning: Spawning
) -> None:
    """A child that is there goes by its own agent's rights; one that a crash kept away is asked for anew."""
    try:
        await execution.drive.host.store.row(wait.name)
    except NoSuchRun:
        await _permitted(execution, branch, wait.path, spawning)
    except RunGone:
        return


async def _begin(execution: Execution, branch: Branch, wait: WaitRecord) -> None:
    """Create the child, or find it: it was, if this process is not the first to come here."""
    drive = execution.drive
    if (held := await _create(drive, wait)) is not None:
        execution.hold(branch, held)


async def _create(drive: Drive, wait: WaitRecord) -> e.RunHeld | None:
    reached("child.create")
    try:
        ours = await _found(drive.host.store, drive.run_id, drive.record, wait, drive.host.clock.now())
    except RunGone:  # it was pruned after its end: what it told lies in the inbox
        await drive.read_inbox()
        ours = bool(drive.record.waits[wait.path].closed)
    reached("child.created")
    if ours:
        return None
    detail = f"the child of {wait.path} is to be run {wait.name}, and that is another run, or was one"
    return e.RunHeld("child-taken", detail, (f"perdure cancel {drive.run_id}",), wait.path)


async def _found(store: Store, parent: str, record: RunRecord, wait: WaitRecord, now: int) -> bool:
    """The child is durable. False: another run has its id."""
    body = await child_started(store, wait.name, replace(Begun.of(wait).started, doubt=record.doubt))
    placement = (await store.row(parent)).placement  # a child stands where its parent stands
    row, _ = await store.create(new_run(wait.name, body, now, placement))
    return row.parent == parent


def _result(agent: Agent[Any, Any, R], wait: WaitRecord) -> R:
    """What the step gets: live and replayed alike."""
    told = Told.of(wait.value)
    value = codec.decode(told.value)
    if told.status == "succeeded":
        return agent.result_shape.restore(value, where=f"$.{wait.name}")
    if told.status == "failed":
        why = f"failed: {value['type']}: {value['message']}"
    else:
        note = f": {value['note']}" if value.get("note") else ""
        why = f"was {told.status} by {value['by']}{note}"
    raise ChildFailed(
        f"child run {wait.name} {why}",
        run_id=wait.name,
        status=told.status,
    )


async def call_back(store: Store, run_id: str, record: RunRecord, now: int) -> list[WaitRecord]:
    """Ask the children of a cancelled run to end, each once; gives the waits of those that have not told it.

    Where what the run has done is to be undone, they are to undo what they have done.

    One that a crash kept from being created is created, to be cancelled: so an owner that is late cannot
    create one that nobody knows of.
    """
    left = []
    for wait in open_children(record):
        with suppress(RunGone):
            if not await _found(store, run_id, record, wait, now):
                continue
            left.append(wait)
            if is_called_back(wait):
                reached("child.cancel")
                data: dict[str, Any] = {"by": record.cancel, "note": f"its parent {run_id} was cancelled"}
                made = f"cancel of {run_id}"
                if record.compensate:  # it may have been told before that this was not asked for
                    data, made = {**data, "compensate": True}, f"{made}, undoing"
                message = Message(wait.name, made, "cancel", codec.encode(data))
                with suppress(RunEnded):
                    await store.deliver(message)
    return left


def is_called_back(wait: WaitRecord) -> bool:
    """Whether its parent's cancellation is the child's too."""
    return Begun.of(wait).on_cancel == "cancel"


def waiting_words(left: list[WaitRecord]) -> str:
    """Why a cancelled run has not ended yet."""
    return "cancelled, and ends after " + ", ".join(
        [questions.words(wait) for wait in left[: questions.NAMED]]
    )
