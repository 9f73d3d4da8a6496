"""An open step executed with today's code against its record, with nothing written and nothing called.

`play` is one execution of a step, whatever for; a step that is checked and one that is rehearsed share it. A
rehearsal serves what is recorded, and ends where the step asks for what is not: there it would go on live.
Laws 14 and 19 rest on two walls: an execution with `lives` unwinds before any call or wait, and its journal
folds in memory what it is told and hands nothing on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace as evolve
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from perdure import codec
from perdure.agent import Agent, call_scope
from perdure.errors import MigrationGap, NewerFormat, NotRepeatable, PerdureError, Signal, StateNewer
from perdure.journal import Journal, Past, SnapshotPolicy
from perdure.recovery.verdicts import Ask, LeaveUnknown, Person, after_unknown
from perdure.runtime import adoption as adopting
from perdure.runtime.birth import principal_of
from perdure.runtime.budgets import step_over
from perdure.runtime.drive import Drive, Host
from perdure.runtime.execution import Execution, Live, as_error
from perdure.runtime.forecast import Forecast, Prospect, Voided
from perdure.runtime.holds import how_it_died, no_progress, poisoned, signal_swallowed, step_error
from perdure.runtime.markers import old_ways
from perdure.runtime.messages import foreseen
from perdure.runtime.mismatch import decide
from perdure.runtime.plain_loop import plain_loop
from perdure.runtime.prospects import at_call, forgotten
from perdure.runtime.reconcile import policy_of
from perdure.runtime.resolved import unknown_hold, unlisted
from perdure.runtime.step import SwallowedSignal, execute
from perdure.runtime.tree import LiveState
from perdure.runtime.waits import Awaited
from perdure.state import events as e
from perdure.state.fold import fold
from perdure.state.record import RunRecord
from perdure.state.undo import undone_path
from perdure.store.protocol import Appended, Inbound

MOST_AGAIN = 50
"""So often a rehearsed step is executed again, after reads were dropped or a call was refused."""


MENDED_BY_CODE = frozenset(
    {"arguments-changed", "changed", "diverged", "no-progress", "not-permitted", "not-repeatable", "poison"}
    | {"signal-swallowed", "step-error"}
)
"""Reasons of holds that other code may take away: what it would do once the run is let go is told, too."""


class Played(Struct, frozen=True):
    """How one execution of a step ended: unwound by a signal, left by an error, or whole, with its patch."""

    stopped: Signal | None = None
    error: Exception | None = None
    patch: tuple[e.Op, ...] = ()


ENDINGS = (SystemExit, KeyboardInterrupt, GeneratorExit)
"""What would end the process, if it were not a step's that is only executed again: one more finding."""


async def play(execution: Execution, step: Any) -> Played:
    """Execute a step that has nothing to do live, to its end."""
    outer = call_scope.set(None)  # also where a tool's body asks for it, it is no part of that call
    try:
        await execute(execution, step)
        execution.asked_for_all()
        return Played(patch=execution.live.patch(execution.values))
    except Signal as signal:
        return Played(stopped=signal)
    except Exception as error:  # noqa: BLE001  (whatever left the step is the finding)
        return Played(error=error)
    except ENDINGS as ending:
        return Played(error=as_error(ending))
    finally:
        call_scope.reset(outer)


class Unwritten(Journal):
    """A journal whose facts are folded in memory and never leave it."""

    async def append(self, *bodies: e.AnyBody, taken: Sequence[int] = ()) -> int:
        """Fold these facts."""
        return self._think(bodies)

    async def decide(
        self, make: Callable[[RunRecord], Sequence[e.AnyBody]], *, taken: Sequence[int] = ()
    ) -> int:
        """Fold what `make` says."""
        return self._think(make(self.record))

    def append_soon(self, *bodies: e.AnyBody) -> None:
        """Fold these facts."""
        self._think(bodies)

    def _think(self, bodies: Sequence[e.AnyBody]) -> int:
        for body in bodies:
            event = e.Event(self.record.seq + 1, self.clock.now(), self.epoch, body)
            self.record = fold(self.record, event, codec.decode)
        return self.record.seq

    def _send(self, batch: object) -> Any:
        raise AssertionError("a rehearsal writes nothing")

    async def intend(self, *_: object, **__: object) -> None:
        """Nothing is intended in a rehearsal."""
        self._send(None)

    async def transact(self, *_: object, **__: object) -> tuple[e.AnyBody, ...]:
        """Nothing is acted in a rehearsal."""
        self._send(None)
        return ()

    async def barrier(self) -> None:
        """Nothing is durable that was not before."""

    def flush(self, *, urgent: bool = False) -> Any:
        """There is nothing to hand on."""
        found: Appended | None = None
        return found


async def rehearse(
    host: Host, agent: Agent[Any, Any, Any], past: Past, note: Callable[[Execution], None] = lambda _: None
) -> Forecast:
    """What would become of an open run if it were claimed now by this code.

    `note` is told of each execution of the step. The store of `host` is only asked for the time.
    """
    found = await _rehearse(host, agent, past, note)
    if found.prospect not in ("diverges", "held") or found.reason not in ("diverged", "step-error"):
        return found
    again = await _rehearse(host, agent, past, note)
    if (again.prospect, again.detail) == (found.prospect, found.detail):
        return found
    detail = f"[{NotRepeatable.code}] two rehearsals of one record differ: {found.detail}; {again.detail}"
    return evolve(found, prospect="held", reason="not-repeatable", detail=detail)


async def _rehearse(
    host: Host, agent: Agent[Any, Any, Any], past: Past, note: Callable[[Execution], None]
) -> Forecast:
    run_id = past.row.run_id
    about = Forecast(run_id, past.row.agent, past.row.status, past.record.step, "resumes")
    try:
        adoption = adopting.adopt(agent, past.record, agent.on_change)
        live = adopting.live_of(agent, past.record, adoption)
    except PerdureError as error:
        return _not_taken_over(about, error)
    record = foreseen(past.record, past.inbox, run_id)
    if record.cancel is not None and (record.held is None or not undone_path(record.held.path)):
        undoing = "; what it has done is undone first" if record.compensate else ""
        return evolve(about, prospect="ends", detail=f"cancelled by {record.cancel}{undoing}")
    if record.held is None:
        return await _gone_on(host, agent, past, (record, live, adoption), about, note)
    hold = record.held
    kept = _held(about, e.RunHeld(hold.reason, hold.detail, hold.remedies, hold.path), "stays held")
    if hold.reason not in MENDED_BY_CODE or record.cancel is not None:
        return kept
    retry = Inbound(past.row.inbox + 1, "", "retry", codec.encode({}), host.store.now())
    record = foreseen(record, (retry,), run_id)
    after = await _gone_on(host, agent, past, (record, live, adoption), about, note)
    again = f"would be held again, {after.reason}: {after.detail}" if after.stops else after.prospect
    return evolve(kept, notes=(f"let go now, it {again}",))


async def _gone_on(
    host: Host,
    agent: Agent[Any, Any, Any],
    past: Past,
    taken: tuple[RunRecord, LiveState[Any], adopting.Adoption],
    about: Forecast,
    note: Callable[[Execution], None],
) -> Forecast:
    """What becomes of a run that is neither held nor cancelled, once this code has taken it over."""
    record, live, adoption = taken
    drive = unwritten(host, agent, past, record, live)
    judged = adopting.judge(agent, drive.run_id, record, adoption, agent.on_change)
    resumed = e.RunResumed(host.worker)
    await drive.journal.append(*adopting.taken_over(agent, record, adoption, judged, resumed, drive.died_at))
    notes = list(adopting.told(judged))
    about = evolve(about, voided=tuple(Voided(one.id, one.why) for one in judged.voids))
    if adoption.migrated is not None:
        made = adoption.migrated
        notes.append(f"its state is migrated from version {made.from_version} to {made.to_version}")
        about = evolve(about, prospect="migrates")
    held = judged.hold or _poison(past) or await _unknown(drive, notes) or step_over(drive)
    about = evolve(about, notes=tuple(notes))
    return await _step(drive, about, note) if held is None else _held(about, held)


def _poison(past: Past) -> e.RunHeld | None:
    """The hold of a run that one more claim makes too many."""
    row = past.row
    claims = row.claims + (row.worker is None)
    return poisoned(row.run_id, claims, how_it_died(row.lost, died=row.died), past.record)


def _not_taken_over(about: Forecast, error: PerdureError) -> Forecast:
    """This code cannot carry the run on: it fails at its state, or is not for it."""
    prospect: Prospect = "held" if adopting.is_misfit(error) else "stranded"
    reason = "migration-failed" if prospect == "held" else _STRANDED.get(type(error), "not-served")
    place = f" ({error.where})" if error.where else ""
    detail = f"[{error.code}] {error.what}{place}"
    return evolve(about, prospect=prospect, reason=reason, detail=detail, remedies=(error.remedy,))


_STRANDED: dict[type[PerdureError], str] = {
    StateNewer: "state-newer",
    MigrationGap: "state-gap",
    NewerFormat: "format-newer",
}


def unwritten(
    host: Host, agent: Agent[Any, Any, Any], past: Past, record: RunRecord, live: LiveState[Any]
) -> Drive:
    """The run, being `record`, as a worker would drive it, with a journal that writes nothing."""
    claimed = replace(past.row, epoch=past.row.epoch + 1)  # a wait is no time that the last owner executed
    journal = Unwritten(
        host.store,
        replace(past, row=claimed, record=record),
        policy=SnapshotPolicy(None, None),
        durability="effects",
        clock=host.clock,
    )
    return Drive(
        host=host,
        agent=agent,
        run_id=past.row.run_id,
        journal=journal,
        live=live,
        principal=principal_of(record),
        inbox_seen=past.row.inbox,
        died_at=host.store.now(),
    )


def _held(about: Forecast, held: e.RunHeld, prospect: Prospect = "held") -> Forecast:
    return evolve(
        about, prospect=prospect, reason=held.reason, detail=held.detail, remedies=tuple(held.remedies)
    )


async def _unknown(drive: Drive, notes: list[str]) -> e.RunHeld | None:
    """What would be done about each call without an outcome, as far as no hook needs to be asked."""
    for call in list(drive.record.calls.values()):
        if call.standing not in ("open", "unknown") or call.effect == "read":
            continue
        tool = drive.agent.tool_named(call.name)
        if tool is None:
            return unlisted(drive.run_id, drive.agent.name, call)
        match after_unknown(call, policy_of(tool), drive.host.clock.now()):
            case Person(why):
                return unknown_hold(drive.run_id, call, f"{call.name}: {why}")
            case LeaveUnknown():
                await drive.journal.append(e.CallReconciled(call.path, "left-unknown", "policy"))
            case Ask():
                try:
                    tool.restore(drive.arguments(call))
                except PerdureError as error:
                    why = f"{call.name}: its hook cannot be asked: {error.what}"
                    return unknown_hold(drive.run_id, call, why)
                notes.append(
                    f"{call.name} ({call.path}) has no known outcome: its reconcile hook is asked first"
                )
            case _:
                notes.append(
                    f"{call.name} ({call.path}) has no known outcome: it is sent again, with its key"
                )
    return None


async def _step(drive: Drive, about: Forecast, note: Callable[[Execution], None]) -> Forecast:
    """Execute the open step until it goes on live, is whole, or would be held."""
    step = drive.agent.step_fn or plain_loop(drive.agent)
    for _ in range(MOST_AGAIN):
        execution = Execution(drive, drive.live, lives=[])
        note(execution)
        played = await play(execution, step)
        drive.live.reset()
        if execution.mismatch is None:
            about, facts = await _judged(execution, played, about)
        else:
            about, facts = _mismatch(execution, about)
        if not facts:
            break
        await drive.journal.append(*facts)
        if drive.record.held is not None:
            hold = drive.record.held
            return _held(about, e.RunHeld(hold.reason, hold.detail, hold.remedies, hold.path))
    return about


_Next = tuple[Forecast, Sequence[e.AnyBody]]
"""What is known so far, and what is recorded before the step is executed again; nothing: that is all."""


def _mismatch(execution: Execution, about: Forecast) -> _Next:
    decided = decide(
        execution.drive, execution.mismatch or 0, execution.mismatch_detail, execution.mismatch_reason
    )
    if isinstance(decided, e.RunHeld):
        return _held(about, decided, "diverges" if decided.reason == "diverged" else "held"), ()
    note = f"reads are dropped and asked for again: {decided.why}"
    return evolve(about, prospect="restarts", notes=(*about.notes, note)), (decided,)


async def _judged(execution: Execution, played: Played, about: Forecast) -> _Next:
    """What becomes of a step that agrees with its record."""
    drive = execution.drive
    lives = execution.lives or []
    if isinstance(played.stopped, SwallowedSignal):
        if any(isinstance(live.wanted, Awaited) for live in lives):  # it would wait there
            return _held(about, signal_swallowed(drive.run_id)), ()
        note = "it catches the signal by which a step unwinds: it would be held if it had to wait there"
        about = evolve(about, notes=(*about.notes, note))
    if execution.holds:
        return _held(about, execution.holds[0]), ()
    if isinstance(played.error, Exception):
        return _held(about, step_error(drive.run_id, played.error, drive.record)), ()
    kept = [f"keeps to the old way of marker {name!r}" for name in old_ways(execution.record)]
    if played.stopped is None:
        return evolve(_ended(execution, played, about), notes=(*about.notes, *kept)), ()
    found = [await at_call(live) for live in lives]
    about = evolve(
        about,
        voided=(*about.voided, *(one for each in found for one in each.voided)),
        stale=tuple(dict.fromkeys((*about.stale, *(one for each in found for one in each.stale)))),
    )
    if facts := [fact for each in found for fact in each.facts]:
        return about, facts
    about = evolve(
        about,
        goes_on=tuple(map(_words, lives)),
        voided=(*about.voided, *forgotten(execution)),
        notes=(*about.notes, *kept, *(one for each in found for one in each.notes)),
    )
    held = next((each.held for each in found if each.held is not None), None)
    return (about if held is None else _held(about, held)), ()


def _ended(execution: Execution, played: Played, about: Forecast) -> Forecast:
    """All that the step asks for is recorded: it would be committed."""
    drive, record = execution.drive, execution.record
    if not played.patch and execution.ending is None and not record.calls and not record.waits:
        return _held(about, no_progress(drive.run_id))
    if execution.ending is not None:
        return evolve(about, goes_on=(f"it ends as {execution.ending.status}",))
    return evolve(about, goes_on=(f"step {record.step + 1} is committed",))


def _words(live: Live) -> str:
    place = f" at {live.place}" if live.place else ""
    return f"{live.what} ({live.path}){place}"
