"""A whole world in one thread: processes that die and freeze, a store, an outside, people; all from one seed.

A `Process` is a Runtime with a worker, behind a store that is slow, and that stops taking anything the
moment the process is dead. What it was still sending to the outside may yet arrive. A frozen process stands
still at its next await until it is thawed, and then believes what it believed before. Nothing here is told
to the engine.
"""

from __future__ import annotations

import asyncio
import random
import types
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Mapping
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from perdure import codec
from perdure.agent import Agent, current_call
from perdure.errors import NothingToResolve, RunEnded, StoreClosed
from perdure.host import Runtime
from perdure.journal import history, load, verify
from perdure.runtime.boundary import set_hook
from perdure.state import events as e
from perdure.state.fold import fold_all
from perdure.state.record import RunRecord
from perdure.store.memory import MemoryStore
from perdure.store.protocol import Message, Query, Store
from perdure.testing.oracle import Act, offences
from tests.laws.programs import Program, expected, interpreter
from tests.laws.virtual import LoopClock, VirtualLoop

LEASE_SECONDS = 6.0
STOP_SECONDS = 600.0
PATIENCE_SECONDS = 12.0
"""People look twice before they say that something did not happen: an act may be on its way for so long."""

process_scope: ContextVar[Process | None] = ContextVar("process", default=None)


@dataclass(frozen=True, slots=True)
class Chances:
    """How likely what is: `kill` and `freeze` at each boundary, `lose` each answer, `late` each refusal."""

    kill: float = 0.02
    freeze: float = 0.0
    lose: float = 0.1
    fail: float = 0.1
    stop: float = 0.0
    cancel: float = 0.1


class Dead(BaseException):
    """The process that asks for something is dead."""


class Process:
    """One incarnation of a worker process."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.dead = False
        self.tasks: set[asyncio.Task[Any]] = set()
        self._slow = SlowStore(world, self)
        self.store = cast(Store, self._slow)
        self._thawed = asyncio.Event()
        self._thawed.set()

    def kill(self) -> None:
        """From this moment it does nothing more."""
        self.dead = True
        self._thawed.set()
        self._slow.fail()
        for task in self.tasks:
            task.cancel()

    def freeze(self, seconds: float) -> None:
        """It stands still for so long."""
        self._thawed.clear()
        asyncio.get_running_loop().call_later(seconds, self._thawed.set)

    @property
    def frozen(self) -> bool:
        """Whether it stands still now."""
        return not self._thawed.is_set()

    @types.coroutine
    def standing(self, coro: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """The coroutine, resumed only while the process is not frozen."""
        value: Any = None
        error: BaseException | None = None
        while True:
            while self.frozen and not self.dead:
                try:
                    yield from self._thawed.wait().__await__()
                except BaseException as raised:  # noqa: BLE001  (a cancellation waits until the thaw, too)
                    error = raised
            try:
                awaited = coro.send(value) if error is None else coro.throw(error)
            except StopIteration as stop:
                return stop.value
            value, error = None, None
            try:
                value = yield awaited
            except GeneratorExit:
                coro.close()
                raise
            except BaseException as raised:  # noqa: BLE001  (handed on to the coroutine)
                error = raised


def task_factory(
    loop: asyncio.AbstractEventLoop, coro: Any, *, context: Context | None = None
) -> asyncio.Task[Any]:
    """Tasks belong to the process in whose context they are made."""
    process = process_scope.get() if context is None else context.get(process_scope)
    if process is None:
        return asyncio.Task(coro, loop=loop, context=context)
    task = asyncio.Task(process.standing(coro), loop=loop, context=context)
    process.tasks.add(task)
    task.add_done_callback(process.tasks.discard)
    task.add_done_callback(lambda _: coro.close())  # it may have been cancelled before it began
    return task


class SlowStore:
    """The way from one process to the store: writes in order, each after a while, none from the dead."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._queue: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._busy = False
        self._waiting: set[asyncio.Future[Any]] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world.store, name)

    async def open(self) -> None:
        """It is open."""

    async def close(self) -> None:
        """Others use it."""

    def append(self, batch: Any) -> asyncio.Future[Any]:
        """Queued, like every write."""
        return self._put(lambda: self._append(batch))

    def _append(self, batch: Any) -> asyncio.Future[Any]:
        future = self._world.store.append(batch)
        if future.exception() is None:
            self._world.note(batch)
        return future

    async def create(self, run: Any) -> Any:
        return await self._put(lambda: self._world.store.create(run))

    async def deliver(self, message: Any) -> Any:
        return await self._put(lambda: self._world.store.deliver(message))

    async def claim(self, claim: Any) -> Any:
        return await self._put(lambda: self._world.store.claim(claim))

    async def renew(self, worker: str, run_ids: Any, lease_seconds: float) -> Any:
        return await self._put(lambda: self._world.store.renew(worker, run_ids, lease_seconds))

    async def release(self, run_id: str, epoch: int) -> Any:
        return await self._put(lambda: self._world.store.release(run_id, epoch))

    def _put(self, verb: Callable[[], Awaitable[Any]]) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        if self._process.dead:
            self.fail()
        else:
            self._queue.append((verb, future))
            self._next()
        return future

    def fail(self) -> None:
        """The process is dead: whatever of it still waits may unwind, and can do nothing."""
        for future in list(self._waiting):
            if not future.done():
                future.set_exception(StoreClosed("this process is dead"))
                future.exception()

    def _next(self) -> None:
        if self._queue and not self._busy:
            self._busy = True
            wait = self._world.chance.choice((0.0, 0.0, 0.001, 0.02))
            asyncio.get_running_loop().call_later(wait, self._begin)

    def _begin(self) -> None:
        if self._process.dead:
            return
        if self._process.frozen:
            asyncio.get_running_loop().call_later(1.0, self._begin)
            return
        self._world.start(self._write())

    async def _write(self) -> None:
        verb, future = self._queue.popleft()
        try:
            value, error = await verb(), None
        except Exception as raised:  # noqa: BLE001  (it belongs to whoever asked)
            value, error = None, raised
        await asyncio.sleep(self._world.chance.choice((0.0, 0.0, 0.005)))
        if self._process.dead:
            return
        self._busy = False
        if future.done():  # whoever asked was cancelled
            pass
        elif error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
        self._next()


@dataclass
class World:
    """Everything, and the one source of chance."""

    seed: int
    chances: Chances = field(default_factory=Chances)
    workers: int = 1

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.loop = VirtualLoop()
        self.clock = LoopClock(self.loop, self.seed)
        self.store = MemoryStore(clock=self.clock)
        self.acts: list[Act] = []
        self.processes: list[Process] = []
        self.programs: dict[str, Program] = {}
        self.cancelled: set[str] = set()
        self.kills = self.freezes = self.stops = 0
        self.trace: list[str] = []
        self.moved: set[tuple[str, str]] = set()
        self.cancel_accepted: set[str] = set()
        self.intended_after_cancel: list[tuple[str, str]] = []
        self._noted: dict[str, int] = {}
        self.found: list[str] = []
        self._own: set[asyncio.Task[Any]] = set()
        self._over = False

    # -- the outside

    async def request(self, reply: object) -> Any:
        """What a tool's body does: send, and wait for the answer. The act itself is the outside's."""
        process = process_scope.get()
        assert process is not None
        call = current_call()
        act = Act(
            0,
            call.run_id,
            call.path,
            call.key,
            call.attempt,
            call.effect,
            call.tool,
            codec.digest(codec.encode(dict(call.args))).hex(),
            codec.encode(reply).hex(),
        )
        if self.chance.random() < self.chances.fail:
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
        await asyncio.sleep(chance.choice((0.0, 0.001, 0.3, 2.0)))
        if deadline is not None and self.clock.now() >= deadline:
            return  # the request carries its deadline, and the outside keeps to it
        self.acts.append(Act(len(self.acts) + 1, *[getattr(act, n) for n in Act.__slots__[1:]]))
        lost = chance.random() < self.chances.lose
        await asyncio.sleep(chance.choice((0.0, 0.001, 0.2, 6.0 if lost else 1.0)))
        if answer.done():
            return
        if lost:
            answer.set_exception(ConnectionError("the answer was lost"))
        else:
            answer.set_result(reply)

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
        """The agent; a declaration, and so the same object in every process."""
        return interpreter(self.request, self.find, self.chance)

    def boundary(self, name: str) -> None:
        """What the engine tells at each boundary: the moment for a kill or a freeze."""
        process = process_scope.get()
        if process is None or process.dead:
            return
        self.trace.append(f"{process.name} {name} {self.loop.elapsed:.3f}")
        drawn = self.chance.random()
        if drawn < self.chances.kill:
            self.kills += 1
            process.kill()
        elif drawn < self.chances.kill + self.chances.freeze:
            self.freezes += 1
            process.freeze(self.chance.choice((1.0, 5.0, 20.0, 60.0)))

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
        async with runtime:
            await stop.wait()

    async def _until_ended(self, process: Process, life: asyncio.Task[None], stop: asyncio.Event) -> None:
        asked = 0.0
        while not life.done():
            await asyncio.wait([life], timeout=1.0)
            if process.dead:
                for _ in range(50):
                    alive = [task for task in process.tasks if not task.done()]
                    if not alive:
                        break
                    for task in alive:
                        task.cancel()
                    await asyncio.wait(alive, timeout=0.01)
                return
            if not stop.is_set() and (self._over or self.chance.random() < self.chances.stop):
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
                await asyncio.sleep(1.0)
                for row in await self.store.list(Query(open_only=True)):
                    if row.status != "held" or row.pending or row.worker is not None:
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
        if reason == "poison":
            await desk.release(run_id, by="ada")
        elif reason == "unknown-outcome":
            call = held.calls[held.held.path]
            found = self.find(call.key)
            if found is None:
                await desk.resolve(run_id, call.path, by="ada", not_done=True)
            else:
                await desk.resolve(run_id, call.path, by="ada", done=found)
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
            said = offences(events, acts)
            checked = await verify(self.store, run_id)
            if not checked.ok:
                said.append(checked.what)
            if fold_all(RunRecord(), events, codec.decode) != record:
                said.append("the snapshot and the events after it give another run than all events")
            said += self._ending(run_id, program, record)
            found += [f"seed {self.seed}, {run_id}: {what}" for what in said]
        found += [f"seed {self.seed}: {what}" for what in (*self._rows_moved(), *self._acted_late())]
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
        for stored in self._read(batch):
            body = stored.body
            if isinstance(body, e.CallIntended) and batch.run_id in self.cancel_accepted:
                self.intended_after_cancel.append((batch.run_id, body.path))
            match body:
                case e.CallSettled(path=path, outcome="done", head=e.CallHead(effect="transactional")):
                    self.moved.add((batch.run_id, path))

    def _read(self, batch: Any) -> Iterator[e.Event]:
        seen = self._noted.get(batch.run_id, 1)
        for stored in self.store._runs[batch.run_id].events[seen:]:
            yield codec.unpack(stored.data, e.Event)
        self._noted[batch.run_id] = len(self.store._runs[batch.run_id].events)

    # -- the whole

    async def _main(self, limit: float) -> None:
        await self.store.open()
        async with Runtime(self.store, [], clock=self.clock) as desk:
            agent = self.agent
            for run_id, program in self.programs.items():
                await desk.start(agent, run_id, program)
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
        set_hook(self.boundary)
        try:
            asyncio.set_event_loop(self.loop)
            self.loop.run_until_complete(self._main(limit))
        finally:
            set_hook(None)
            self._close()
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
