"""What today's code would do in the place of a run, with its tools never acting.

The step itself is executed, in a rehearsal's walls, until it asks for something that it has not been given;
then it is given what the run recorded for the same call, else what the user's stand-in says, and is executed
again. Where there is neither, it stops. Nothing is written (law 14); a model is really asked only if the user
names it, and no tool ever is.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from perdure import codec
from perdure.agent import Agent, call_scope
from perdure.errors import BadPoint, BadSetting
from perdure.journal import Past, resolve
from perdure.runtime import adoption as adopting
from perdure.runtime.birth import Circumstances, started
from perdure.runtime.body import run_body
from perdure.runtime.budgets import used
from perdure.runtime.caller import line_of_error
from perdure.runtime.difference import error_words, told_end
from perdure.runtime.drive import Drive, Host
from perdure.runtime.execution import Execution, Live
from perdure.runtime.identity import identity
from perdure.runtime.lineage import Begun
from perdure.runtime.migrating import migrated
from perdure.runtime.mismatch import call_words
from perdure.runtime.plain_loop import plain_loop
from perdure.runtime.questions import named
from perdure.runtime.rehearsal import Played, play, unwritten
from perdure.runtime.tree import LiveState
from perdure.runtime.waits import Awaited
from perdure.runtime.wanted import Wanted
from perdure.state import events as e
from perdure.state.amount import KINDS
from perdure.state.fold import fold, fold_all, recorded_values
from perdure.state.record import RunRecord, SignalRecord, WaitRecord
from perdure.timeline import NO_GOAL
from perdure.timeline.comparison import changes
from perdure.timeline.matching import Matcher, Recorded, paired, recorded_calls
from perdure.timeline.plain import clean
from perdure.timeline.simulated import Simulated, SimulatedCall, Source, Stop
from perdure.timeline.steps import past_steps

StandIn = Callable[..., Any]
"""Says what a call comes to: called with its arguments by name, `async` or not. It may raise its error."""

MOST_STEPS = 1000
"""A simulation that has executed so many steps and has not ended is stopped."""

MOST_ROUNDS = 2000
"""So often one step is executed again, each time given more."""


class Given(Struct, frozen=True):
    """What a simulation is given beside the run.

    `at`: the event after which it begins, 0 for the start. `goal`: another one than the run's, if it is not
    NO_GOAL. `stand_ins`: by the name of a tool or model, of a signal or a question (called without arguments)
    or of a child's agent (called with its goal). `anew`: names whose recorded outcomes are not used. `live`:
    models that are really asked where nothing else says what they reply.
    """

    at: int = 0
    goal: Any = NO_GOAL
    stand_ins: Mapping[str, StandIn] = {}
    anew: frozenset[str] = frozenset()
    live: frozenset[str] = frozenset()


class _Made(Struct):
    """A call that the simulation has made."""

    path: str
    step: int
    head: e.CallHead
    args: dict[str, Any]
    source: Source
    asks: bool
    place: str
    standing: str = ""
    value: bytes = b""


class _Outcome(Struct):
    """What a call comes to: the same fields as in its receipt."""

    source: Source
    standing: str
    value: bytes
    usage: e.Usage | None = None


class Simulation:
    """One run's story, told again by today's code. `execution`: the one that is going on."""

    def __init__(
        self, host: Host, agent: Agent[Any, Any, Any], past: Past, events: Sequence[e.Event], given: Given
    ) -> None:
        self.execution: Execution | None = None
        self.steps = 0
        self.over = False
        self._agent = agent
        forked = [event.seq for event in events if isinstance(event.body, e.RunForked)]
        if forked and not given.at:  # what lies before is its origin's
            given = replace(given, at=forked[-1])
        self._given = given
        self._events = events
        self._then = fold_all(RunRecord(), events, codec.decode)
        recorded = recorded_calls(events, given.at)
        self._recorded = [call for call in recorded if call.name not in e.DRAWN]
        self._matcher = Matcher(call for call in self._recorded if call.name not in given.anew)
        self._draws = [call for call in recorded if call.name in e.DRAWN]
        self._waits = [
            wait
            for step in past_steps(events)
            for wait in sorted(step.record.waits.values(), key=lambda wait: wait.seq)
            if wait.closed > given.at
        ]
        self._made: list[_Made] = []
        self._stops: list[Stop] = []
        self._error = ""
        self._notes: list[str] = []
        self._rounds = 0
        self._waiting: list[Live] = []
        self._check_names(given)
        record = self._first() if not given.at else self._at(given.at)
        live = LiveState(agent.state_shape, record.state)
        self._drive: Drive = unwritten(host, agent, past, record, live)
        self._step = agent.step_fn or plain_loop(agent)

    def _check_names(self, given: Given) -> None:
        """A name that nothing has would be passed over. Raises BadSetting."""
        models = {*self._agent.models}
        calls = {*models, *self._agent.tools, *self._agent.facts, *(call.name for call in self._recorded)}
        for option, names, there in (("live", given.live, models), ("anew", given.anew, calls)):
            if unknown := sorted(names - there):
                what = f"{option}={clean(unknown[0])!r}: agent {self._agent.name} has none of this name"
                raise BadSetting(what, remedy=f"one of {', '.join(map(clean, sorted(there))) or 'none'}")
        roles = {*map(_role, self._waits), *(agent.name for agent in self._agent.spawns)}
        for name in sorted({*given.stand_ins} - calls - roles):
            self._notes.append(f"nothing that is known before is called {name}: is its stand-in meant?")

    # -- where it begins

    def _first(self) -> RunRecord:
        """The run as today's code begins it: its goal and circumstances, without limits."""
        began = self._events[0]
        assert isinstance(began.body, e.RunStarted)
        was, agent = began.body, self._agent
        goal = self._given.goal
        if goal is NO_GOAL:
            goal = agent.goal_shape.restore(codec.decode(was.goal), where="$.goal")
        about = Circumstances(was.trace, was.principal, was.parent, was.path)
        return fold(RunRecord(), e.Event(1, began.at, 0, started(agent, goal, about)), codec.decode)

    def _at(self, seq: int) -> RunRecord:
        """The run as it was after event `seq`, its state at today's version, with nothing in the way."""
        before = [event for event in self._events if event.seq <= seq]
        record = fold_all(RunRecord(), before, codec.decode)
        following = self._events[seq].body if seq < len(self._events) else None
        if record.ended is not None or isinstance(following, e.RunFinished):
            raise BadPoint(f"the run ended at event {len(self._events)}: after {seq} nothing is left of it")
        if record.state_version != self._agent.state_version:
            made = migrated(record.state, record.state_version, self._agent)
            for body in adopting.migration_events(record, adopting.Adoption(b"", made)):
                record = fold(record, e.Event(record.seq + 1, record.updated_at, 0, body), codec.decode)
        # What was open then is asked for again.
        kept = {path: call for path, call in record.calls.items() if call.settled}
        waits = {path: wait for path, wait in record.waits.items() if wait.closed}
        return replace(
            record, calls=kept, waits=waits, approvals={}, held=None, cancel=None, ledger=None, ended=None
        )

    # -- one round

    async def round(self) -> list[Live]:
        """Execute the open step as far as it comes: what it asks for next; nothing if it was committed."""
        drive = self._drive
        execution = self.execution = Execution(drive, drive.live, lives=[])
        played = await play(execution, self._step)
        self._rounds += 1
        lives = execution.lives or []
        if execution.mismatch is not None:
            self._end_with(f"its recorded calls do not match: {execution.mismatch_detail}")
        elif played.error is not None:
            where = line_of_error(played.error)
            self._end_with(error_words(played.error) + (f" ({where})" if where else ""))
        elif played.stopped is None:
            self._commit(execution, played)
            return []
        elif execution.holds:
            self._end_with(f"would be held, {execution.holds[0].reason}: {execution.holds[0].detail}")
        elif not lives:
            self._end_with(f"the step stopped: {played.stopped}")
        elif self._rounds > MOST_ROUNDS:
            self._end_with(f"step {drive.record.step + 1} asked for more than {MOST_ROUNDS} things")
        drive.live.reset()
        return [] if self.over else lives

    def _end_with(self, error: str) -> None:
        self._error, self.over = error, True

    def _commit(self, execution: Execution, played: Played) -> None:
        drive = self._drive
        number = drive.record.step + 1
        self.steps += 1
        self._rounds = 0
        idle = not played.patch and execution.ending is None
        if idle and not drive.record.calls and not drive.record.waits:
            self._end_with(f"step {number} does nothing, and would be held")
            return
        drive.journal.append_soon(e.StepCommitted(number, played.patch))
        drive.live.commit(drive.record.state, played.patch)
        if execution.ending is not None:
            status: Any = execution.ending.status
            drive.journal.append_soon(e.RunFinished(status, execution.ending.value))
            self.over = True
        elif self.steps == MOST_STEPS:
            self._end_with(f"it has executed {MOST_STEPS} steps and has not ended")

    # -- what it is given

    async def give(self, lives: Sequence[Live]) -> None:
        """Say what each of these comes to; stop if nobody can say it of any."""
        settled = 0
        stops: list[Stop] = []
        for live in lives:
            stop = await self._one(live)
            settled += stop is None
            stops += [] if stop is None else [stop]
        if not settled:
            self._stops, self.over = stops, True

    async def _one(self, live: Live) -> Stop | None:
        if isinstance(live.wanted, Wanted):
            return await self._call(live, live.wanted)
        if isinstance(live.wanted, Awaited):
            return await self._wait(live, live.wanted)
        self._draw(live)
        return None

    async def _call(self, live: Live, wanted: Wanted) -> Stop | None:
        tool, head = wanted.tool, wanted.head
        again = head.effect == "read"
        taken = None
        if tool.name not in self._given.anew:
            taken = self._matcher.take(head.digest, live.path, again=again)
        outcome = None
        if taken is not None and taken.settled:
            outcome = _Outcome("recorded", taken.standing, taken.value, taken.usage)
        elif tool.name in self._given.stand_ins:
            outcome = await self._stood_in(wanted, self._given.stand_ins[tool.name])
        elif tool.name in self._given.live and tool.kind == "model":
            outcome = await self._asked(wanted)
        if outcome is None:
            return self._no_outcome(live, wanted, taken)
        asks = outcome.source != "recorded" and tool.needs_approval(wanted.args)
        record = self._drive.record
        values = recorded_values(record)
        args = {name: resolve(record.state, value, values) for name, value in head.args}
        number = record.step + 1
        made = _Made(live.path, number, head, args, outcome.source, asks, live.place)
        made.standing, made.value = outcome.standing, outcome.value
        self._made.append(made)
        await self._drive.journal.append(*self._receipt(wanted, outcome))
        return None

    def _no_outcome(self, live: Live, wanted: Wanted, taken: Recorded | None) -> Stop:
        name = wanted.tool.name
        why = "the run never made this call"
        if taken is not None:
            why = "the run made this call, and never learned what it came to"
        elif name in self._given.anew:
            why = "its recorded outcomes are not to be used"
        elif any(call.name == name for call in self._recorded):
            why = f"the run made no such call of {name}: its arguments differ, or it made it less often"
        what = call_words(name, wanted.args)
        kind = "model" if wanted.tool.kind == "model" else "tool"
        return Stop(
            self._drive.record.step + 1, live.path, what, why, live.place, f"a stand-in for {kind} {name}"
        )

    def _receipt(self, wanted: Wanted, outcome: _Outcome) -> tuple[e.AnyBody, ...]:
        """What the journal is told, as if the call had been made."""
        path, head = wanted.path, wanted.head
        if outcome.standing == "left-unknown":
            intent = e.CallIntended(path, head, "", 1, 0)
            return (intent, e.CallReconciled(path, "left-unknown", "simulation"))
        if wanted.tool.kind == "fact" and outcome.standing == "done":
            return (e.FactRead(path, head, outcome.value, self._drive.host.clock.now()),)
        result: Any = outcome.standing
        return (e.CallSettled(path, result, outcome.value, head, usage=outcome.usage),)

    async def _stood_in(self, wanted: Wanted, stand_in: StandIn) -> _Outcome:
        """What the user's function says. It runs as the body of a read: what acts is refused inside it."""
        try:
            result = await self._inside(wanted, lambda: stand_in(**wanted.args))
            return self._replied(wanted, "stand-in", result)
        except Exception as error:  # noqa: BLE001  (whatever a stand-in raises is what the call comes to)
            return _Outcome("stand-in", "failed", codec.encode(codec.encode_error(error)))

    async def _asked(self, wanted: Wanted) -> _Outcome:
        """What a model really replies."""
        end = await run_body(self._drive, identity(wanted, 0.0), wanted.tool)
        if end.error is not None:
            return _Outcome("model", "failed", codec.encode(codec.encode_error(end.error)))
        return self._replied(wanted, "model", end.result)

    def _replied(self, wanted: Wanted, source: Source, result: Any) -> _Outcome:
        """A result as the journal would keep it. Raises NotStorable, ShapeMismatch."""
        value = codec.encode(result, where="$.result")
        wanted.tool.result_shape.restore(codec.decode(value), where=f"$.{wanted.tool.name}")
        return _Outcome(source, "done", value, used(wanted, result))

    async def _inside(self, wanted: Wanted | None, work: Callable[[], Any]) -> Any:
        """Run a stand-in where `current_call()` is its call, and where nothing that acts can be called."""
        call = None if wanted is None else replace(identity(wanted, 0.0), effect="read")
        context = copy_context()
        if call is not None:
            context.run(call_scope.set, call)
        result = context.run(work)
        if inspect.isawaitable(result):

            async def awaited() -> Any:
                return await result

            return await asyncio.get_running_loop().create_task(awaited(), context=context)
        return result

    # -- draws and waits

    def _draw(self, live: Live) -> None:
        """What the run drew here, or as its next of this name; else a draw of its own."""
        drawn = [call for call in self._draws if call.name == live.what]
        taken = next((call for call in drawn if call.path == live.path), next(iter(drawn), None))
        if taken is not None:
            self._draws.remove(taken)
            value = taken.value
        else:
            clock = self._drive.host.clock
            draws = {"run.now": clock.now, "run.random": clock.random, "run.new_id": clock.new_id}
            value = codec.encode(draws[live.what]())
        head = e.CallHead(live.what, "read", (), codec.digest(live.what.encode()))
        self._drive.journal.append_soon(e.CallSettled(live.path, "done", value, head))

    async def _wait(self, live: Live, awaited: Awaited) -> Stop | None:
        journal, path = self._drive.journal, live.path
        detail = awaited.detail()
        opened = e.WaitOpened(path, awaited.name, self._drive.host.store.now(), awaited.kind, detail)
        found = WaitRecord(path, awaited.name, 0, 0, kind=awaited.kind, detail=detail)
        closing: tuple[e.AnyBody, ...] | None = None
        if awaited.kind == "sleep":
            closing = (e.WaitClosed(path, "due"),)
        elif (taken := self._taken(found)) is not None:
            closing = self._as_recorded(path, taken)
        elif (stand_in := self._given.stand_ins.get(_role(found))) is not None:
            closing = await self._answered(found, stand_in)
        if closing is None:
            what, name = f"waits for {named(awaited.kind, awaited.name)}", _role(found)
            why, way = "the run was never given that", f"a stand-in for {name}"
            return Stop(self._drive.record.step + 1, path, what, why, live.place, way)
        if path not in journal.record.waits:
            await journal.append(opened)
        for body in closing:
            if isinstance(body, e.WaitClosed) and body.how == "signal" and not body.signal:
                body = replace(body, signal=journal.record.seq)
            await journal.append(body)
        return None

    def _taken(self, wait: WaitRecord) -> WaitRecord | None:
        """The recorded wait that is the same and was not taken yet: at the same path, else the first."""
        same = [one for one in self._waits if _asks_same(one, wait)]
        taken = next((one for one in same if one.path == wait.path), next(iter(same), None))
        if taken is not None:
            self._waits.remove(taken)
        return taken

    def _as_recorded(self, path: str, taken: WaitRecord) -> tuple[e.AnyBody, ...]:
        closed = e.WaitClosed(path, taken.how, taken.value, by=taken.by)  # type: ignore[arg-type]
        if taken.signal is None:
            return (closed,)
        came = taken.signal
        if (there := self._kept_signal(came)) is not None:
            return (replace(closed, value=b"", signal=there.seq),)
        received = e.SignalReceived(came.name, came.id, came.value, came.by, came.accepted)
        return (received, replace(closed, value=b""))

    def _kept_signal(self, came: SignalRecord) -> SignalRecord | None:
        """The same signal, if it had come before the point from which on this is told."""
        kept = self._drive.record.signals
        return next((one for one in kept if (one.name, one.id) == (came.name, came.id)), None)

    async def _answered(self, wait: WaitRecord, stand_in: StandIn) -> tuple[e.AnyBody, ...]:
        if wait.kind == "child":
            goal = codec.decode(Begun.of(wait).started.goal)
            result = codec.encode(await self._inside(None, lambda: stand_in(goal)))
            value = codec.encode({"status": "succeeded", "value": result, "used": [0] * len(KINDS)})
            return (e.WaitClosed(wait.path, "child", value, by=wait.name),)
        value = codec.encode(await self._inside(None, stand_in))
        if wait.kind == "answer":
            return (e.WaitClosed(wait.path, "answer", value, by="stand-in"),)
        now = self._drive.host.store.now()
        received = e.SignalReceived(wait.name, f"stand-in {wait.path}", value, "stand-in", now)
        return (received, e.WaitClosed(wait.path, "signal"))

    # -- what was found

    def found(self, run_id: str) -> Simulated:
        """Everything, beside what the run did."""
        record, then = self._drive.record, self._then
        result = told_end(record.ended, record.value)[1] if record.ended else None
        then_result = told_end(then.ended, then.value)[1] if then.ended else None
        state = then.state
        return Simulated(
            run_id,
            self._agent.name,
            self._given.at,
            self.steps,
            tuple(self._calls()),
            tuple(changes(state, record.state)),
            record.state,
            record.spent,
            then.spent,
            record.ended or "",
            result,
            then.ended or "",
            then_result,
            tuple(self._stops),
            self._error,
            tuple(self._notes),
        )

    def _calls(self) -> list[SimulatedCall]:
        made = [(one.head.name, one.head.digest, one.path) for one in self._made]
        return [
            _beside(pair.sameness, pair.recorded, None if pair.made is None else self._made[pair.made])
            for pair in paired(self._recorded, made)
        ]


def _beside(sameness: Any, then: Recorded | None, made: _Made | None) -> SimulatedCall:
    past: dict[str, Any] = {}
    if then is not None:
        value = codec.decode(then.value) if then.value else None
        past = {"then_args": then.args, "then_value": value, "then_standing": then.standing}
    if made is None:
        assert then is not None
        return SimulatedCall(sameness, then.path, then.step, then.name, then.effect, **past)
    return SimulatedCall(
        sameness,
        made.path,
        made.step,
        made.head.name,
        made.head.effect,
        made.args,
        codec.decode(made.value) if made.value else None,
        made.standing,
        made.source,
        made.asks,
        place=made.place,
        **past,
    )


def _role(wait: WaitRecord) -> str:
    """The name under which a stand-in for a wait is given."""
    return Begun.of(wait).started.agent if wait.kind == "child" else wait.name


def _asks_same(one: WaitRecord, other: WaitRecord) -> bool:
    if one.kind != other.kind:
        return False
    if one.kind != "child":
        return one.name == other.name
    was, now = Begun.of(one).started, Begun.of(other).started
    return (was.agent, was.goal) == (now.agent, now.goal)
