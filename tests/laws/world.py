"""A whole world in one thread: processes that die and freeze, a store, an outside, people; all from one seed.

A `Process` is a Runtime with a worker, behind a store that is slow, and that stops taking anything the
moment the process is dead. What it was still sending to the outside may yet arrive. A frozen process stands
still at its next await until it is thawed, and then believes what it believed before. Nothing here is told
to the engine.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, ClassVar

from perdure import codec
from perdure.agent import Agent, current_call
from perdure.clock import SECOND
from perdure.errors import NothingToResolve, RunEnded
from perdure.host import Runtime
from perdure.journal import history, load, verify
from perdure.runtime.birth import trace_of
from perdure.runtime.boundary import set_hook
from perdure.runtime.standstill import Standstill
from perdure.state import events as e
from perdure.state.fold import fold_all
from perdure.state.record import RunRecord
from perdure.store.memory import MemoryStore
from perdure.store.protocol import Claimed, Message, Query
from perdure.testing.account import misread
from perdure.testing.clock import START
from perdure.testing.oracle import Act, offences
from perdure.timeline.spending import NAMES
from tests.laws.process import Dead, Process, process_scope, task_factory
from tests.laws.programs import STYLES, Program, draw_budget, expected, interpreter
from tests.laws.virtual import LoopClock, VirtualLoop

LEASE_SECONDS = 6.0
FIRST = asyncio.FIRST_COMPLETED
TAKEOVER_SECONDS = 1.0
"""So long after a lost lease has ended somebody who is able to must have taken its run over."""
STOP_SECONDS = 600.0
CALM_SECONDS = 600.0
"""From then on nothing bad happens any more, and whatever has not ended must end."""
PATIENCE_SECONDS = 12.0
"""People look twice before they say that something did not happen: an act may be on its way for so long."""


@dataclass(frozen=True, slots=True)
class Chances:
    """How likely what is: a `kill` or a `freeze` at each boundary, that the store `notice`s a death at once,
    to `lose` an answer, to `fail` to send a request, an orderly `stop` in each second of a process, a
    `cancel` of a run. `frozen`: for how long.
    """

    kill: float = 0.02
    freeze: float = 0.0
    notice: float = 0.5
    lose: float = 0.1
    fail: float = 0.1
    stop: float = 0.0
    cancel: float = 0.1
    frozen: tuple[float, ...] = (1.0, 5.0, 20.0, 60.0)


class _Unwatched(Standstill):
    """No watch over the event loop: its thread and its timer would measure real time, which stands still."""

    def begin(self) -> None:
        """There is nothing to watch."""


_now: list[World] = []  # the world that lives, if any


@cache
def _agent(style: int) -> Agent[Any, Any, Any]:
    async def request(reply: object) -> Any:
        return await _now[-1].request(reply)

    def find(key: str) -> Any:
        return _now[-1].find(key)

    return interpreter(request, find, style)


@dataclass
class World:
    """Everything, and the one source of chance."""

    seed: int
    chances: Chances = field(default_factory=Chances)
    workers: int = 1

    budgets: ClassVar[bool] = True
    """Whether runs have limits."""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.loop = VirtualLoop()
        self.clock = LoopClock(self.loop, self.seed)
        self.store = MemoryStore(clock=self.clock)
        self.acts: list[Act] = []
        self.processes: list[Process] = []
        self.programs: dict[str, Program] = {}
        self.cancelled: set[str] = set()
        self.kills = self.freezes = self.stops = self.raises = 0
        self.trace: list[str] = []
        self.moved: set[tuple[str, str]] = set()
        self.cancel_accepted: set[str] = set()
        self.intended_after_cancel: list[tuple[str, str]] = []
        self.late: list[str] = []
        self.stale: list[str] = []
        self.takeovers: list[float] = []
        self._epochs: dict[str, int] = {}
        self._noted: dict[str, int] = {}
        self.found: list[str] = []
        self._own: set[asyncio.Task[Any]] = set()
        self._over = False
        self._end = asyncio.Event()

    # -- the outside

    async def request(self, reply: object) -> Any:
        """What a tool's body does: send, and wait for the answer. The act itself is the outside's."""
        process = process_scope.get()
        assert process is not None
        call = current_call()
        act = Act.of(0, call, reply)
        if self._unlucky(self.chances.fail):
            raise ConnectionError("could not be sent")
        if process.dead:
            raise Dead
        answer: asyncio.Future[Any] = self.loop.create_future()
        self.start(self._receive(act, call.deadline, reply, answer))
        return await answer

    async def _receive(
        self, act: Act, deadline: int | None, reply: object, answer: asyncio.Future[Any]
    ) -> None:
        chance = self.chance
        lost = self._unlucky(self.chances.lose)
        if lost and chance.random() < 0.5:  # the connection breaks, and the request arrives all the same
            await asyncio.sleep(chance.choice((0.0, 0.001)))
            if not answer.done():
                answer.set_exception(ConnectionError("the connection was lost"))
        await asyncio.sleep(chance.choice((0.0, 0.001, 0.3, 2.0)))
        if deadline is not None and self.clock.now() >= deadline:
            return  # the request carries its deadline, and the outside keeps to it
        self.acts.append(Act(len(self.acts) + 1, *[getattr(act, n) for n in Act.__slots__[1:]]))
        await asyncio.sleep(chance.choice((0.0, 0.001, 0.2, 6.0 if lost else 1.0)))
        if answer.done():
            return
        if lost:
            answer.set_exception(ConnectionError("the answer was lost"))
        else:
            answer.set_result(reply)

    def _unlucky(self, chance: float) -> bool:
        return self.loop.elapsed < CALM_SECONDS and self.chance.random() < chance

    def find(self, key: str) -> Any:
        """What was answered to the act with this key."""
        found = next((act for act in self.acts if act.key == key), None)
        return None if found is None else codec.decode(bytes.fromhex(found.reply))

    # -- processes

    def start(self, coro: Coroutine[Any, Any, Any]) -> None:
        """Something that is no process's own."""
        task = self.loop.create_task(coro, context=Context())
        self._own.add(task)
        task.add_done_callback(self._own.discard)

    @cached_property
    def agent(self) -> Agent[Any, Any, Any]:
        """The agent; a declaration, and so the same object in every process and world."""
        return _agent(self.chance.randrange(STYLES))

    def boundary(self, name: str) -> None:
        """What the engine tells at each boundary: the moment for a kill or a freeze."""
        process = process_scope.get()
        if process is None or process.dead or self.loop.elapsed > CALM_SECONDS:
            return
        self.trace.append(f"{process.name} {name} {self.loop.elapsed:.3f}")
        drawn = self.chance.random()
        if drawn < self.chances.kill:
            self.kills += 1
            process.kill()
            if self.chance.random() < self.chances.notice:
                self._notice(process.worker)
        elif drawn < self.chances.kill + self.chances.freeze:
            self.freezes += 1
            process.freeze(self.chance.choice(self.chances.frozen))

    def _notice(self, worker: str) -> None:
        """The store learns of a death at once, as a released OS lock tells it: before the lease ends."""
        for run in self.store._runs.values():
            if run.standing.held and run.standing.holder == worker:
                run.standing.died = True
                self.store._wrote()

    async def work(self, slot: int) -> None:
        """A place where worker processes live one after another, until the world is over."""
        number = 0
        while not self._over:
            process = Process(self, f"p{slot}.{number}")
            self.processes.append(process)
            context = Context()
            context.run(process_scope.set, process)
            stop = asyncio.Event()
            life = self.loop.create_task(self._live(process, stop), context=context)
            await self._until_ended(process, life, stop)
            number += 1
            await asyncio.sleep(self.chance.choice((0.0, 0.5, 8.0)))

    async def _live(self, process: Process, stop: asyncio.Event) -> None:
        runtime = Runtime(
            process.store, [self.agent], workers=8, clock=self.clock, lease_seconds=LEASE_SECONDS
        )
        process.worker = runtime.host.worker
        runtime.host.leases._standstill = _Unwatched()
        async with runtime:
            await stop.wait()

    async def _until_ended(self, process: Process, life: asyncio.Task[None], stop: asyncio.Event) -> None:
        asked = 0.0
        often = self.chances.stop > 0
        while not life.done():
            dead = asyncio.ensure_future(process.over.wait())
            over = asyncio.ensure_future(self._end.wait())
            wanted = [life, dead, *([] if stop.is_set() else [over])]
            await asyncio.wait(wanted, timeout=1.0 if often or stop.is_set() else None, return_when=FIRST)
            dead.cancel()
            over.cancel()
            if process.dead:
                for _ in range(50):
                    alive = [task for task in process.tasks if not task.done()]
                    if not alive:
                        break
                    for task in alive:
                        task.cancel()
                    await asyncio.wait(alive, timeout=0.01)
                return
            if not stop.is_set() and (self._over or self._unlucky(self.chances.stop)):
                self.stops += not self._over
                stop.set()
                asked = self.loop.elapsed
            if stop.is_set() and self.loop.elapsed > asked + STOP_SECONDS:
                raise AssertionError(f"seed {self.seed}: process {process.name} does not stop")
        if not life.cancelled() and life.exception() is not None and not process.dead:
            raise AssertionError(f"seed {self.seed}: process {process.name} failed") from life.exception()

    # -- people

    async def attend(self) -> None:
        """Look after held runs; say what is true, after having waited long enough to know."""
        since: dict[tuple[str, int], float] = {}
        async with Runtime(self.store, [self.agent], clock=self.clock) as desk:
            while not self._over:
                await asyncio.sleep(3.0)
                for row in await self.store.list(Query(open_only=True, statuses=("held",))):
                    if row.pending or row.worker is not None:
                        continue
                    first = since.setdefault((row.run_id, row.seq), self.loop.elapsed)
                    if self.loop.elapsed - first >= PATIENCE_SECONDS:
                        await self._help(desk, row.run_id)

    async def _help(self, desk: Runtime, run_id: str) -> None:
        held = (await load(self.store, run_id)).record
        if held.held is None:
            return
        try:
            await self._say(desk, run_id, held)
        except (NothingToResolve, RunEnded):
            return  # it has gone on in the meantime

    async def _say(self, desk: Runtime, run_id: str, held: RunRecord) -> None:
        assert held.held is not None
        reason = held.held.reason
        if reason in ("poison", "tool-error"):
            await desk.release(run_id, by="ada")
        elif reason == "unknown-outcome":
            call = held.calls[held.held.path]
            found = self.find(call.key)
            if found is None:
                await desk.resolve(run_id, call.path, by="ada", not_done=True)
            else:
                await desk.resolve(run_id, call.path, by="ada", done=found)
        elif reason == "over-budget":
            assert held.ledger is not None
            self.raises += 1
            most = {"usd": 0.0001, "tokens": 70, "calls": 2, "steps": 1, "seconds": 60.0}
            more: dict[str, Any] = {NAMES[kind]: most[NAMES[kind]] for kind in held.ledger.limits.limited}
            await desk.raise_budget(run_id, by="ada", **more)
        elif reason == "step-error" and "ConnectionError" in held.held.detail:
            await desk.retry(run_id, by="ada")
        else:
            raise AssertionError(f"seed {self.seed}: run {run_id} is held: {held.held}")

    async def annoy(self) -> None:
        """Cancel some runs at some time, twice with one message id."""
        for run_id in self.programs:
            if self.chance.random() < self.chances.cancel:
                await asyncio.sleep(self.chance.choice((0.1, 1.0, 4.0)))
                message = Message(run_id, f"cancel-{run_id}", "cancel", codec.encode({"by": "bob"}))
                for _ in range(2):  # a sender that does not know whether the first one arrived
                    try:
                        await self.store.deliver(message)
                    except RunEnded:
                        break
                    self.cancelled.add(run_id)
                    self.cancel_accepted.add(run_id)

    # -- the judgement

    async def judge(self) -> list[str]:
        """Everything that should not be, of every run: journal, snapshots, outside, tables, ending."""
        found: list[str] = []
        for run_id, program in self.programs.items():
            events = await history(self.store, run_id)
            record = (await load(self.store, run_id)).record
            acts = [act for act in self.acts if act.run_id == run_id]
            said = offences(events, acts) + misread(events, record)
            checked = await verify(self.store, run_id)
            if not checked.ok:
                said.append(checked.what)
            if fold_all(RunRecord(), events, codec.decode) != record:
                said.append("the snapshot and the events after it give another run than all events")
            if record.trace != trace_of(run_id):  # law 16: the root of a family tells its trace
                said.append("it is not in the one trace that its id tells")
            said += self._ending(run_id, program, record)
            found += [f"seed {self.seed}, {run_id}: {what}" for what in said]
        more = (*self._rows_moved(), *self._acted_late(), *self.stale, *self.late)
        found += [f"seed {self.seed}: {what}" for what in more]
        return found

    def _ending(self, run_id: str, program: Program, record: RunRecord) -> Iterator[str]:
        log, due = record.state["log"], expected(program)
        if record.ended == "succeeded":
            if log != due:
                yield f"the log is {log}, not {due}"
        elif record.ended != "cancelled" or run_id not in self.cancelled:
            yield f"it ended as {record.ended}"
        elif log != due[: len(log)]:
            yield f"the log is {log}, not the beginning of {due}"

    def _rows_moved(self) -> Iterator[str]:
        """Transactional calls: each row once, and none without its receipt."""
        tables = self.store._tables
        if tables is None or not list(tables.execute("SELECT 1 FROM sqlite_schema WHERE name = 'moved'")):
            return
        rows = Counter(tables.execute("SELECT run, path FROM moved"))
        for (run_id, path), count in rows.items():
            if count != 1:
                yield f"{count} rows of transactional call {path} of {run_id}"
            if (run_id, path) not in self.moved:
                yield f"a row of transactional call {path} of {run_id}, which has no receipt"
        for place in self.moved - rows.keys():
            yield f"transactional call {place} has a receipt and no row"

    def _acted_late(self) -> Iterator[str]:
        """Law 17: no act whose intent was accepted after a cancel of its run had been."""
        for run_id, path in self.intended_after_cancel:
            yield f"call {path} of {run_id} was intended after a cancel had been accepted"

    def note(self, batch: Any) -> None:
        """A batch was accepted by the store: remember what the judgement needs, in the order in which it
        was.
        """
        if batch.epoch < self._epochs.get(batch.run_id, 0):
            newest = self._epochs[batch.run_id]
            self.stale.append(f"{batch.run_id} was written to under epoch {batch.epoch}, after {newest}")
        for stored in self._read(batch):
            body = stored.body
            match body:
                case e.CallIntended(head=e.CallHead(effect="read")):
                    pass  # not fenced
                case e.CallIntended(path=path) if batch.run_id in self.cancel_accepted:
                    self.intended_after_cancel.append((batch.run_id, path))
                case e.CallSettled(path=path, outcome="done", head=e.CallHead(effect="transactional")):
                    self.moved.add((batch.run_id, path))

    def _read(self, batch: Any) -> Iterator[e.Event]:
        seen = self._noted.get(batch.run_id, 1)
        for stored in self.store._runs[batch.run_id].events[seen:]:
            yield codec.unpack(stored.data, e.Event)
        self._noted[batch.run_id] = len(self.store._runs[batch.run_id].events)

    # -- leases

    def took(self, process: Process, claimed: Sequence[Claimed]) -> None:
        """A process was given these leases: each above all that were given before, and none of them late.

        A lease that was lost is free when it ends by the clock, or when its holder's death is noticed.
        Whoever takes it over could do so from that moment on, or since it is able to (its store may need a
        second more to notice a thaw).
        """
        now = self.loop.elapsed
        for one in claimed:
            run_id, epoch = one.row.run_id, one.row.epoch
            if epoch <= self._epochs.get(run_id, 0):
                self.stale.append(f"epoch {epoch} of {run_id} was given twice")
            self._epochs[run_id] = epoch
            if not one.previous_until:
                continue  # it had been given back
            ended = (one.previous_until - START) / SECOND
            if one.died:  # which was noticed at once
                ended = next(other.died_at for other in self.processes if other.worker == one.previous)
            waited = now - max(ended, process.able_since + 1.0)
            self.takeovers.append(waited)
            if waited > TAKEOVER_SECONDS:
                self.late.append(f"{run_id} was taken over {waited:.2f} s after its lease had ended")

    # -- the whole

    async def _main(self, limit: float) -> None:
        await self.store.open()
        async with Runtime(self.store, [], clock=self.clock) as desk:
            agent = self.agent
            for run_id, program in self.programs.items():
                budget = draw_budget(self.chance) if self.budgets else None
                await desk.start(agent, run_id, program, budget=budget)
        helpers = [
            *(self.loop.create_task(self.work(slot)) for slot in range(self.workers)),
            self.loop.create_task(self.attend()),
            self.loop.create_task(self.annoy()),
        ]
        seen = 0
        while await self.store.list(Query(open_only=True)):
            for helper in helpers:
                if helper.done() and helper.exception() is not None:
                    raise helper.exception() or AssertionError
            if self.loop.elapsed > limit:
                rows = await self.store.list(Query(open_only=True))
                raise AssertionError(f"seed {self.seed}: after {limit} s these runs have not ended: {rows}")
            seen = await self.store.changed(seen, 5.0)
        self._over = True
        self._end.set()
        await asyncio.wait(helpers)
        for helper in helpers:
            helper.result()
        while self._own:
            await asyncio.wait(self._own)
        self.found = await self.judge()

    def run(self, programs: Mapping[str, Program], limit: float = 3000.0) -> None:
        """Live through it all; afterwards `found` says what should not be.

        Raises AssertionError if the runs do not end in `limit` virtual seconds.
        """
        self.programs = dict(programs)
        self.loop.set_task_factory(task_factory)
        self.loop.set_exception_handler(lambda loop, context: None)  # what the dead leave behind
        set_hook(self.boundary)
        engine_log = logging.getLogger("perdure")
        level = engine_log.level
        engine_log.setLevel(logging.CRITICAL)  # the dead complain much
        _now.append(self)
        try:
            asyncio.set_event_loop(self.loop)
            self.loop.run_until_complete(self._main(limit))
        except Exception as error:
            error.add_note(f"World({self.seed}, {self.chances}, {self.workers}) of {self.programs}")
            raise
        finally:
            set_hook(None)
            self._close()
            engine_log.setLevel(level)
            _now.remove(self)
            asyncio.set_event_loop(None)

    def _close(self) -> None:
        """End whatever is left, after a failure too, so that nothing is destroyed while it waits."""
        for process in self.processes:
            process.kill()
        for _ in range(20):
            left = [task for task in asyncio.all_tasks(self.loop) if not task.done()]
            if not left:
                break
            for task in left:
                task.cancel()
            self.loop.run_until_complete(asyncio.sleep(0.01))
        self.loop.close()
