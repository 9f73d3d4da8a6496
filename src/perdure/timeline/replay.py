"""A run's whole history against today's code: each step executed again from its own record.

It is the step itself, executed by the code that executes it live, as in a rehearsal; a step begins with the
state that was committed before it, so that the first difference is not the cause of others. Nothing is
written and nothing is sent (law 14): the host has no store, the journal writes nothing, and an execution
unwinds before anything that is not recorded.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from perdure import codec
from perdure.agent import Agent
from perdure.errors import KeyMissing, MigrationGap, PerdureError, PersonalErased, ShapeMismatch, StateNewer
from perdure.journal import Past
from perdure.recovery.migrations import Migrated
from perdure.runtime import adoption as adopting
from perdure.runtime.caller import line_of_error
from perdure.runtime.difference import differences, error_words, same_end, shown, told, told_end
from perdure.runtime.drive import Drive, Host
from perdure.runtime.execution import Execution, as_error
from perdure.runtime.migrating import migrated
from perdure.runtime.plain_loop import plain_loop
from perdure.runtime.rehearsal import ENDINGS, Played, play, unwritten
from perdure.runtime.tree import LiveState
from perdure.state import events as e
from perdure.state.fold import fold, recorded_values
from perdure.state.patch import apply, same
from perdure.state.record import RunRecord
from perdure.state.undo import undone_path
from perdure.timeline.replayed import Difference
from perdure.timeline.steps import PastStep, past_steps


class Rerun:
    """One run, executed again step by step: `events`, which follow the run `base`.

    `steps` and `calls` count what was; `notes` as in `Replayed`. `execution`: the one that is going on, so
    that it can be told to stop.
    """

    def __init__(
        self,
        host: Host,
        agent: Agent[Any, Any, Any],
        past: Past,
        events: Sequence[e.Event],
        base: RunRecord,
    ) -> None:
        self.steps = self.calls = 0
        self.number = self.seq = 0  # the step that is executed, and the last event of it
        self.notes: list[str] = []
        self.execution: Execution | None = None
        self._host = host
        self._agent = agent
        self._past = past
        self._events = events
        self._base = base
        if base.seq:
            self.notes.append(
                f"its events up to {base.seq} were taken away: replayed from step {base.step + 1} on"
            )
        self._todo: Iterator[PastStep] = iter(())
        self._drive: Drive | None = None
        self._plain: Any = None
        self._step = agent.step_fn or plain_loop(agent)
        # Of a fork: up to which event it was which run.
        self._origins = [
            (event.seq, event.body.run) for event in events if isinstance(event.body, e.RunForked)
        ]

    async def begin(self) -> Difference | None:
        """Make the first state once more, of the recorded goal. Raises StateNewer for one from newer code."""
        self._todo = past_steps(self._events, self._base)
        first = self._events[0].body if self._events else None
        if not isinstance(first, e.RunStarted):
            return None
        try:
            then = self._today(codec.decode(first.state), first.state_version)
            goal = self._agent.goal_shape.restore(codec.decode(first.goal), where="$.goal")
            now, again = (codec.plain(self._agent.first_state(goal), where="$.state") for _ in range(2))
        except (StateNewer, KeyMissing, PersonalErased):
            raise
        except MigrationGap:
            return None  # told when its steps come
        except Exception as error:  # noqa: BLE001  (whatever the agent's functions raise is the finding)
            return _raised("start", 0, 1, error)
        except ENDINGS as ending:
            return _raised("start", 0, 1, as_error(ending))
        if same(then, now) or same(self._normal(then), now):
            return None
        if not same(now, again):
            self.notes.append("the agent makes another state of one goal each time: that is not compared")
            return None
        return _of_state("start", 0, 1, then, now, "")

    async def next(self) -> tuple[bool, Difference | None]:
        """Execute one more step: whether there was one, and the difference that was found."""
        then = next(self._todo, None)
        if then is None:
            return False, None
        self.number, self.seq = then.number, then.seq
        if (record := self._brought_over(then.record)) is None:
            return True, None
        self.steps += 1
        try:
            drive = self._at(record)
            drive.run_id = self._run_id(then.seq)
        except ShapeMismatch as error:
            now = f"{error.what}"
            detail = f"the state before step {then.number} no longer fits its type: {error.what}"
            return True, Difference("state", then.number, record.begun, "", "a state", now, detail)
        if then.commit is None:
            return True, await self._open(drive, then)
        return True, await self._committed(drive, then)

    # -- the run as it was

    def _at(self, record: RunRecord) -> Drive:
        """The run driven at this record, its live state made of the record's."""
        drive = self._drive
        if drive is None:
            live = LiveState(self._agent.state_shape, record.state)
            drive = self._drive = unwritten(self._host, self._agent, self._past, record, live)
        elif self._plain is not record.state:
            drive.live = LiveState(self._agent.state_shape, record.state)
        self._plain = record.state
        drive.journal.record = record
        return drive

    def _run_id(self, seq: int) -> str:
        """Which run it was that wrote this event."""
        return next((run for until, run in self._origins if seq < until), self._past.row.run_id)

    def _brought_over(self, record: RunRecord) -> RunRecord | None:
        """The record with its state at today's version; None if no migrations lead there."""
        if record.state_version == self._agent.state_version:
            return record
        try:
            made = migrated(record.state, record.state_version, self._agent)
        except MigrationGap:
            words = f"steps with state version {record.state_version} have no way to today's: not replayed"
            if words not in self.notes:
                self.notes.append(words)
            return None
        for body in adopting.migration_events(record, adopting.Adoption(b"", made)):
            event = e.Event(record.seq + 1, record.updated_at, 0, body)
            record = fold(record, event, codec.decode)
        return record

    def _today(self, plain: Any, version: int) -> Any:
        """A recorded state at today's version."""
        if version == self._agent.state_version:
            return plain
        made: Migrated = migrated(plain, version, self._agent)
        return made.state

    def _normal(self, plain: Any) -> Any:
        """A recorded state as today's type writes it: a field that came later has its default."""
        try:
            return codec.plain(self._agent.state_shape.restore(plain, where="$.state"), where="$.state")
        except PerdureError:
            return plain

    # -- one step

    async def _committed(self, drive: Drive, then: PastStep) -> Difference | None:
        """Execute a step that was committed: calls, state and ending must be what they were."""
        execution = self.execution = Execution(drive, drive.live, checking=True, committed=True)
        record = drive.record
        self.calls += len(record.calls) + len(record.waits)
        played = await play(execution, self._step)
        if (found := self._stopped(execution, played, then)) is not None:
            return found
        assert then.commit is not None
        assert then.after is not None
        if then.after.state_version != self._agent.state_version or played.patch != then.commit.patch:
            return self._other_state(drive, played, then) or self._other_ending(execution, then)
        drive.live.commit(then.after.state, played.patch)
        self._plain = then.after.state
        return self._other_ending(execution, then)

    def _stopped(self, execution: Execution, played: Played, then: PastStep) -> Difference | None:
        number = then.number
        if execution.mismatch is not None:
            sides = execution.sides
            assert sides is not None
            return Difference(
                "call",
                number,
                execution.mismatch or then.seq,
                sides.path,
                sides.recorded,
                sides.now,
                execution.mismatch_detail,
                execution.place or self._source,
                sides.digests,
            )
        if isinstance(played.error, KeyMissing | PersonalErased):
            raise played.error
        if played.error is not None:
            return _raised("error", number, then.seq, played.error)
        if played.stopped is not None:
            now = f"stopped: {played.stopped}"
            detail = f"step {number} was committed, and now does not come to its end: {played.stopped}"
            return Difference("error", number, then.seq, "", "committed", now, detail, self._source)
        return None

    def _other_state(self, drive: Drive, played: Played, then: PastStep) -> Difference | None:
        """Compare states where the patches are not the same; the next step begins with the recorded one."""
        assert then.after is not None
        record = drive.record
        recorded = self._today(then.after.state, then.after.state_version)
        now = apply(record.state, played.patch, recorded_values(record), codec.decode)
        self._plain = None
        if same(recorded, now) or same(self._normal(recorded), now):
            return None
        return _of_state("state", then.number, then.seq, recorded, now, self._source)

    def _other_ending(self, execution: Execution, then: PastStep) -> Difference | None:
        one, other = then.ending, execution.ended
        if same_end(one, other):
            return None
        recorded, now = ("goes on with the run" if end is None else _ended(end) for end in (one, other))
        detail = f"step {then.number} {now}, where it {recorded}"
        if one is not None and other is not None and one[0] == other[0]:
            found = differences(told_end(*one)[1], told_end(*other)[1], "$.result")
            detail = f"step {then.number} ends the run otherwise: {told(found, 'recorded', 'now')}"
        return Difference("ending", then.number, then.seq, "", recorded, now, detail, self._source)

    async def _open(self, drive: Drive, then: PastStep) -> Difference | None:
        """Execute a step that was not committed up to where its record ends.

        What comes after that has not happened yet, or was cut off: it is no difference.
        """
        record = drive.journal.record
        asked = {path: call for path, call in record.calls.items() if not undone_path(path)}
        drive.journal.record = replace(record, calls=asked, cancel=None, held=None)
        self.calls += len(asked) + len(record.waits)
        execution = self.execution = Execution(drive, drive.live, lives=[])
        played = await play(execution, self._step)
        self._plain = None
        if execution.mismatch is not None:
            return self._stopped(execution, played, then)
        held = record.held
        if self._past.row.terminal:
            return None if played.error is None else self._unasked(execution, played, then)
        if played.error is not None and not (held is not None and held.reason == "step-error"):
            if (found := self._unasked(execution, played, then)) is not None:
                return found
            where = line_of_error(played.error)
            said = error_words(played.error) + (f" ({where})" if where else "")
            self.notes.append(f"its open step would go on to raise {said}")
        elif played.error is None and held is not None and held.reason == "step-error":
            self.notes.append("its open step no longer raises")
        return None

    def _unasked(self, execution: Execution, played: Played, then: PastStep) -> Difference | None:
        """The step raised before it had asked for all that is recorded."""
        return None if execution.replay.never_asked() is None else self._stopped(execution, played, then)

    @property
    def _source(self) -> str:
        """Where the agent's step is written; empty for the tool loop without one."""
        fn = inspect.unwrap(self._agent.step_fn) if self._agent.step_fn is not None else None
        code = getattr(fn, "__code__", None)
        return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""


def _raised(aspect: Any, number: int, seq: int, error: Exception) -> Difference:
    now = f"raises {error_words(error)}"
    what = "the start" if aspect == "start" else f"step {number}"
    return Difference(aspect, number, seq, "", "no error", now, f"{what} {now}", line_of_error(error))


def _of_state(aspect: Any, number: int, seq: int, was: Any, now: Any, source: str) -> Difference:
    found = differences(was, now, "$.state")
    what = "the start makes" if aspect == "start" else f"step {number} leaves"
    where = told(found, "recorded", "now") if found else "its parts are in another order"
    first, second = (found[0][1], found[0][2]) if found else (was, now)
    place = found[0][0] if found else "$.state"
    one, other = (f"{place} = {shown(side)}" for side in (first, second))
    return Difference(aspect, number, seq, "", one, other, f"{what} another state: {where}", source)


def _ended(ending: tuple[str, bytes]) -> str:
    status, value = told_end(*ending)
    return f"ends it as {status} with {shown(value)}"
