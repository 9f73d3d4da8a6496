"""One process's place where agents run: the store, the leases, and the doors to its runs.

`Runtime` is what a server holds for its lifetime; `Agent.run` opens one for a single run.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack, get_args

from perdure import codec
from perdure.agent import (
    Agent,
    ApprovalRequest,
    Budget,
    Cancelled,
    Failed,
    Finished,
    Held,
    Outcome,
    Principal,
    Providers,
    Retired,
    Waiting,
    families,
)
from perdure.agent import agent as declaration
from perdure.agent.placing import Placing, placement_of
from perdure.clock import SECOND, SYSTEM, Clock
from perdure.codec.naming import written
from perdure.codec.secret import Resolver
from perdure.desk import Desk
from perdure.errors import BadSetting, NotServed, OtherGoal, at_store
from perdure.journal import Keep, follow, goal_of, load
from perdure.runtime import birth, questions, requests, senders
from perdure.runtime.boundary import reached
from perdure.runtime.brood import Brood
from perdure.runtime.chunks import Chunk, Reset
from perdure.runtime.drive import Host
from perdure.runtime.leases import LEASE_SECONDS, Leases
from perdure.runtime.limits import Limits
from perdure.runtime.manifest import refusal_of
from perdure.runtime.raising import check_same
from perdure.runtime.runner import drive
from perdure.runtime.spectator import STEP_SECONDS
from perdure.runtime.vaults import entered, vault_of
from perdure.state import events as e
from perdure.state.record import RunRecord
from perdure.store import open_store
from perdure.store.protocol import NEVER, Claim, Claimed, RunRow, Store
from perdure.store.standing import check_id
from perdure.timeline import NO_GOAL
from perdure.worker import Serving, Worker

if TYPE_CHECKING:  # whoever only drives runs does not load what looks at their past
    from perdure.runtime.bringing import Migration
    from perdure.runtime.forecast import Preflight
    from perdure.timeline.change import Change
    from perdure.timeline.compaction import Compacted
    from perdure.timeline.erasing import Erasure
    from perdure.timeline.fork import Fork
    from perdure.timeline.replayed import Replayed, Replays
    from perdure.timeline.simulated import Simulated
    from perdure.timeline.simulation import StandIn

log = logging.getLogger("perdure.host")

G = TypeVar("G")
R = TypeVar("R")

PATIENCE = timedelta(seconds=60)
"""`run` stays for timers that end within this time; for longer ones it returns `Waiting`."""

THREADS = 32
"""Plain `def` tools that may run at once in one process."""

FOLLOW_SECONDS = 1.0
"""How often a follower looks whether a silent driver's lease has become free."""


class Runtime(Desk):
    """A store and the agents served here. Use it as an async context manager.

    `secrets`: where the values of `Secret`s come from, a mapping or a function of the name; None is the
    environment.
    """

    def __init__(
        self,
        store: str | Store | None = None,
        agents: Sequence[Agent[Any, Any, Any]] = (),
        *,
        workers: int | Serving = 0,
        clock: Clock = SYSTEM,
        lease_seconds: float = LEASE_SECONDS,
        check: bool = False,
        secrets: Resolver | None = None,
    ) -> None:
        address = store if store is None or isinstance(store, str) else store.url
        self._address = None if (address or "").startswith("memory:") else address
        self._owns_store = store is None or isinstance(store, str)
        self.store: Store = (
            open_store(store, clock=clock) if store is None or isinstance(store, str) else store
        )
        self.agents = {agent.name: agent for agent in families(agents)}
        for agent in self.agents.values():
            agent.validate()
        self.clock = clock
        self.check = check
        self._serving = Serving(workers) if isinstance(workers, int) and workers else workers
        self._lease_seconds, self._secrets = lease_seconds, secrets
        self._life: Literal["new", "open", "closed"] = "new"
        self._begin()

    def _begin(self) -> None:
        """Another incarnation: one that was closed can be opened again, in the same loop or another one."""
        worker = f"w-{self.clock.new_id()}"
        self.host = Host(
            store=self.store,
            clock=self.clock,
            leases=Leases(self.store, worker, self.clock, self._lease_seconds),
            limits=Limits(self.clock),
            providers=Providers(),
            threads=ThreadPoolExecutor(THREADS, thread_name_prefix="perdure-tool"),
            known=dict(self.agents),
            secrets=self._secrets,
        )
        agents = list(self.agents.values())
        self._worker = Worker(self.host, agents, self._serving, check=self.check) if self._serving else None
        self._working: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._life == "open":
            raise BadSetting("this Runtime is open already", remedy="use it as it is, or make another one")
        if self._life == "closed":
            self._begin()
        await self.store.open()
        await self.store.enlist(self.host.worker)
        await self.host.providers.__aenter__()
        if self._worker is not None:
            self._working = asyncio.create_task(self._worker.run(), name=f"worker {self.host.worker}")
            self._working.add_done_callback(_ended_early)
        self._life = "open"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drain the worker and close what was opened. Raises what ended the worker before its time."""
        self._life = "closed"
        try:
            if self._working is not None:
                await self._drained(self._working)
        finally:
            await self.host.leases.close()
            await self.host.providers.__aexit__(kind, error, trace)
            self.host.threads.shutdown(wait=False, cancel_futures=True)
            if self._owns_store:
                await self.store.close()
        if self._working is None or self._working.cancelled():
            return
        if error is None:
            self._working.result()
        elif (ended := self._working.exception()) is not None:
            error.add_note(f"meanwhile the worker had ended: {ended!r}")

    async def serve(self, stop: asyncio.Event) -> None:
        """Return when `stop` is set, or at once when the worker has ended by a fault (raised on closing)."""
        ends: list[asyncio.Future[Any]] = [asyncio.ensure_future(stop.wait())]
        if self._working is not None:
            ends.append(asyncio.ensure_future(asyncio.wait([self._working])))
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()
            await asyncio.wait(ends)

    @property
    def worker(self) -> Worker | None:
        """The worker of this process, if it has one."""
        return self._worker

    async def drained(self) -> None:
        """Let the worker end as `Serving.grace` says; it claims nothing any more. Closing does so too."""
        if self._working is not None:
            await self._drained(self._working)

    async def _drained(self, working: asyncio.Task[None]) -> None:
        """Wait until the worker has ended; a cancellation does not wait for its steps."""
        assert self._worker is not None
        self._worker.stop()
        try:
            await asyncio.wait([working])
        except asyncio.CancelledError:
            working.cancel()
            await asyncio.wait([working])
            raise

    # -- start and run

    async def start(
        self,
        agent: Agent[Any, G, R],
        run_id: str,
        goal: G,
        *,
        principal: Principal | None = None,
        budget: Budget | None = None,
        **placing: Unpack[Placing],
    ) -> RunRow:
        """Make a run durable and return; a worker carries it on. The same id and goal again changes nothing.

        `budget`: the run's own limits; in what it sets none, the agent's hold. Raises OtherGoal if the id is
        taken by another goal or agent, OtherBudget or BudgetBelowSpent if by another budget, BadRunId,
        NotStorable, ShapeMismatch. `placing`: where a new run stands among those that wait; BadSetting.
        """
        check_id(run_id)
        placement = placement_of(placing)
        limits = (budget or Budget()).limits(agent.budget)
        begun = birth.Circumstances(birth.trace_of(run_id), birth.principal_bytes(principal), budget=limits)
        vault = await vault_of(self.store, run_id, make=True)
        with entered(vault):
            body = birth.started(agent, goal, begun)
            unfit = birth.unfit_state(agent, body)
        if unfit is not None:
            await birth.check_exists(self.store, run_id, unfit)
        reached("run.create")
        row, made = await self.store.create(birth.new_run(run_id, body, self.clock.now(), placement))
        reached("run.created")
        if not made:
            with entered(vault):
                await self._same(row, agent, body.goal)
            if budget is not None:
                check_same(run_id, (await load(self.store, run_id)).record, budget.limits())
        return row

    async def _same(self, row: RunRow, agent: Agent[Any, Any, Any], goal: bytes) -> None:
        if row.agent != agent.name:
            raise OtherGoal(
                f"run {row.run_id} belongs to agent {row.agent}, not to {agent.name}", run_id=row.run_id
            )
        from perdure.timeline.condition import fork_of

        known = (await load(self.store, row.run_id)).record.goal if fork_of(row) else None
        known = known or await goal_of(self.store, row.run_id)
        if not birth.same_goal(agent, known, goal):
            raise OtherGoal(
                f"run {row.run_id} was started for {written(codec.decode(known), 120)},"
                f" not for {written(codec.decode(goal), 120)}",
                run_id=row.run_id,
            )

    async def run(
        self,
        agent: Agent[Any, G, R],
        run_id: str,
        goal: G,
        *,
        principal: Principal | None = None,
        budget: Budget | None = None,
        check: bool | None = None,
        patience: timedelta = PATIENCE,
        **placing: Unpack[Placing],
    ) -> Outcome[R]:
        """Start or carry on a run until it ends, needs a person, or waits for longer than `patience`.

        It is carried on here whatever its queue and tags are; limits count, so that it may have to wait.
        """
        row = await self.start(agent, run_id, goal, principal=principal, budget=budget, **placing)
        return await self._carry(agent, row, self.check if check is None else check, patience)

    async def resume(
        self, run_id: str, *, check: bool | None = None, patience: timedelta = PATIENCE
    ) -> Outcome[Any]:
        """Carry on a run that exists. Raises NoSuchRun, NotServed."""
        row = await self.store.row(run_id)
        agent = self.agents.get(row.agent)
        if agent is None:
            raise NotServed(f"run {run_id} needs agent {row.agent}, which is not served here", run_id=run_id)
        return await self._carry(agent, row, self.check if check is None else check, patience)

    async def _carry(
        self, agent: Agent[Any, Any, R], row: RunRow, check: bool, patience: timedelta
    ) -> Outcome[R]:
        """Drive the run and its children when they can be claimed; follow it while another process does.

        `row`: as it was just now.
        """

        async def carry(child: Agent[Any, Any, Any], child_id: str) -> object:
            return await self._carry(child, await self.store.row(child_id), check, patience)

        async with Brood(self.host, carry) as brood:
            return await self._carried(agent, row, check, patience, brood)

    async def _carried(
        self, agent: Agent[Any, Any, R], row: RunRow, check: bool, patience: timedelta, brood: Brood
    ) -> Outcome[R]:
        run_id, seen, until = row.run_id, 0, self.clock.monotonic() + patience.total_seconds()
        while True:
            since = self.clock.monotonic()
            claimed = await self._claimed(agent, row)
            left: RunRecord | None = None
            for one in claimed:
                left = await drive(self.host, agent, one, since, check=check)
                if left is not None and left.ended is not None:  # nothing follows an end
                    return await self._told(agent, one.row, left)
            row = await self.store.row(run_id)
            if row.terminal or (row.status == "held" and not row.pending and row.worker is None):
                if left is not None and left.seq == row.seq:  # nobody has written since: no need to read it
                    return await self._told(agent, row, left)
                return await self._outcome(agent, run_id)
            pause = FOLLOW_SECONDS
            if row.worker is None and row.status == "waiting":
                pause = (row.due_at - self.store.now()) / SECOND
                late = self.clock.monotonic() + pause > until
                carried = await brood.carry(row, left)
                if late and not carried and not (await self.store.row(run_id)).pending:
                    return await self._outcome(agent, run_id)
            if not claimed:
                seen = await self.store.changed(seen, min(max(pause, 0.0), FOLLOW_SECONDS))

    async def preflight(
        self,
        *,
        seconds: float = STEP_SECONDS,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Preflight:
        """What the agents served here would do to every open run of the store; nothing is written or called.

        `seconds`: how long the open step of one run may take, in a thread apart. `progress` is told how many
        runs of how many are looked at. Raises StoreError.
        """
        from perdure.runtime.preflight import preflight

        agents = list(self.agents.values())
        found = await preflight(self.store, agents, self.clock, seconds=seconds, progress=progress)
        return found.at(self._address)

    async def replay(self, run_id: str, *, seconds: float = STEP_SECONDS) -> Replayed:
        """What today's code does to the recorded history of one run; nothing is written or called.

        `seconds`: how long one step may take. Raises NotServed if its agent is not served here, Damaged,
        NewerFormat, NoSuchRun, RunGone.
        """
        from perdure.timeline.replays import replay

        agents = list(self.agents.values())
        return await replay(self.store, agents, self.clock, run_id, seconds=seconds)

    async def replay_all(
        self,
        *,
        since: timedelta | None = None,
        statuses: Sequence[str] = (),
        seconds: float = STEP_SECONDS,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Replays:
        """The same for every run of the agents served here that was started within `since`, newest first.

        `statuses`: only runs that stand so. `progress` is told how many runs of how many are done. Raises
        StoreError.
        """
        from perdure.timeline import replays

        agents = list(self.agents.values())
        choice = replays.Choice(replays.since(self.clock, since), tuple(statuses))
        return await replays.replay_all(
            self.store, agents, self.clock, choice, seconds=seconds, progress=progress
        )

    async def simulate(
        self,
        run_id: str,
        *,
        at: int = 0,
        goal: Any = NO_GOAL,
        stand_ins: Mapping[str, StandIn] = MappingProxyType({}),
        anew: Collection[str] = (),
        live: Collection[str] = (),
    ) -> Simulated:
        """What today's code would do in the place of a run, its tools never acting; nothing is written.

        A call that the run made too, with the same arguments, comes to what it came to then. For any other
        `stand_ins` say, by the names of tools, models, signals, questions and children's agents; where
        nothing does, it stops. `anew`: names whose recorded outcomes are not used. `live`: models that are
        really asked. `at`: begin after this event; `goal`: another one. Raises NotServed, StepHangs,
        BadPoint, NoSuchRun, RunGone, Damaged.
        """
        from perdure.timeline.simulate import simulate
        from perdure.timeline.simulation import Given

        given = Given(at, goal, stand_ins, frozenset(anew), frozenset(live))
        return await simulate(self.store, list(self.agents.values()), self.clock, run_id, given)

    async def migrate(
        self,
        *,
        run_id: str | None = None,
        plan: bool = False,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Migration:
        """Bring open runs of the agents served here to today's state version; no step is executed.

        Safe beside running workers, and to be stopped and begun again at any moment. `run_id`: only this run.
        `plan`: only tell what would come of each. `progress` is told how many runs of how many are done.
        Raises NoSuchRun, StoreError.
        """
        from perdure.runtime.bringing import Order, bring_over

        order = Order(run_id, plan, progress)
        return await bring_over(self.host, list(self.agents.values()), order)

    async def _claimed(self, agent: Agent[Any, Any, Any], row: RunRow) -> tuple[Claimed, ...]:
        """Claim a run that this code carries on. Raises why it does not, unless somebody else does."""
        refusal = None if row.terminal else refusal_of(agent, row)
        if refusal is not None:
            if row.worker is None:
                raise refusal
            return ()
        served = {agent.name: frozenset({row.version})}
        limits = {} if agent.limit is None else {agent.name: agent.limit}
        lease = self.host.leases.seconds
        claim = Claim(self.host.worker, lease, served, run_id=row.run_id, limits=limits)
        return await self.store.claim(claim)

    def follow(self, run_id: str, *, after: int = 0) -> AsyncIterator[e.Event]:
        """Each durable event with seq > `after`, in order and without a gap, as it comes; ends with the run.

        Whoever drives it, in whatever process; a compacted run begins with the first event that is left.
        Raises NoSuchRun, RunGone, BadPoint, EventsPruned, Damaged.
        """
        return follow(self.store, run_id, after)

    def listen(
        self, run_id: str, *, after: int = 0, heard: Chunk | None = None
    ) -> AsyncIterator[e.Event | Chunk | Reset]:
        """`follow`, and between the events what bodies of the run `publish` in this process.

        Bodies that run already are heard from their first chunk on, or after the chunk `heard`. Chunks are
        provisional until their call has a receipt; a Reset takes them back.
        """
        return self.host.chunks.between(self.follow(run_id, after=after), run_id, heard)

    async def erase(self, run_id: str, *, dry_run: bool = False) -> Erasure:
        """Destroy the key of a terminal run's personal data, with those of its children and forks, for good.

        Its journal stays and verifies. Twice is once. `dry_run`: only tell what it concerns. Raises
        EraseRefused where one of them has not ended; NoSuchRun, RunGone.
        """
        from perdure.timeline import erasing

        if dry_run:
            return await erasing.planned(self.store, run_id)
        return await erasing.erase(self.store, run_id)

    async def state_at(self, run_id: str, seq: int | None = None) -> Any:
        """The run's committed state when event `seq` had been written, as plain data; None is now.

        Raises BadPoint, EventsPruned for an event before the run's compaction, Damaged, NoSuchRun, RunGone.
        """
        from perdure.timeline.moment import moment_of

        return (await moment_of(self.host.store, run_id, seq)).state

    async def compact(self, run_id: str, *, upto: int | None = None, keep: Keep = "audit") -> Compacted:
        """Take the run's events up to `upto` away, in one commit, beside whoever drives it; None: as many as
        may go.

        What stays: its state, its open step, its acts, approvals and answers. What goes: replies of models,
        reads, and its states in between. `keep="keys"`, of a run that has ended, keeps of its acts their keys
        alone. Raises BadPoint, RunOpen, Damaged, NewerFormat, NoSuchRun, RunGone.
        """
        from perdure.timeline.compaction import compacted

        return await compacted(self.host.store, run_id, upto=upto, keep=keep)

    async def fork(
        self,
        run_id: str,
        at: int | None = None,
        change: Change | None = None,
        *,
        effects: e.Effects = "ask",
        id: str | None = None,  # noqa: A002  (the word that callers know)
        by: str | Principal = "",
        dry_run: bool = False,
    ) -> Fork:
        """A new run that goes on from event `at` of this one with what `change` says; a worker carries it on.

        The run itself is untouched, and may be pruned afterwards. `at` None: its last point. Calls recorded
        before the point are served and not sent; one that was open there takes its later receipt. Calls that
        act and that the run made after the point are listed in the answer, and are in the fork, by `effects`:
        `ask` held until `decide_effect`; `simulate` answered by their results, with nothing sent; `redo` made
        again. `id`: the fork's own, else one is made of the run's; the same fork twice under one id is one.
        `dry_run`: only tell. Raises ForkRefused, OtherFork, BadChange, BadPlace, BadPoint, BadRunId,
        BudgetBelowSpent, ShapeMismatch, NotStorable, Damaged, NewerFormat, NoSuchRun, RunGone.
        """
        if effects not in get_args(e.Effects):
            raise BadSetting(f"effects={effects!r:.80}", remedy=f"one of {', '.join(get_args(e.Effects))}")
        if id is not None:
            check_id(id)
        from perdure.timeline.change import Change
        from perdure.timeline.fork import ForkOrder, fork, fork_id

        new_id = fork_id(run_id, self.clock.new_id()) if id is None else id
        wanted = change or Change()
        order = ForkOrder(run_id, at, wanted, new_id, effects, senders.name_of(by), dry_run)
        agent = self.agents.get((await self.store.row(run_id)).agent)
        return await fork(self.store, self.clock, order, agent)

    async def outcome(self, run_id: str) -> Outcome[Any]:
        """What has become of a run, without driving it. Raises NoSuchRun."""
        row = await self.store.row(run_id)
        return await self._outcome(self.agents.get(row.agent), run_id)

    async def _outcome(self, agent: Agent[Any, Any, R] | None, run_id: str) -> Outcome[R]:
        past = await load(self.store, run_id)
        return await self._told(agent, past.row, past.record)

    async def _told(self, agent: Agent[Any, Any, R] | None, row: RunRow, record: RunRecord) -> Outcome[R]:
        with entered(await vault_of(self.store, row.run_id)):
            return outcome_of(agent, row, record, self._address)


def _ended_early(working: asyncio.Task[None]) -> None:
    """Say at once that a worker ended by an error; it is raised when its Runtime closes."""
    if not working.cancelled() and (error := working.exception()) is not None:
        log.critical("the worker has ended, and carries no run on any more: %r", error, exc_info=error)


def outcome_of(
    agent: Agent[Any, Any, R] | None, row: RunRow, record: RunRecord, store: str | None = None
) -> Outcome[R]:
    """What a run has come to, as its caller sees it; its remedies name this store."""
    run_id = row.run_id
    if record.ended == "succeeded":
        value = codec.decode(record.value)
        result = value if agent is None else agent.result_shape.restore(value, where="$.result")
        return Finished(result, run_id=run_id)
    if record.ended is not None:
        told: dict[str, Any] = codec.decode(record.value)
        if record.ended == "failed":
            return Failed(str(told["message"]), str(told["type"]), run_id=run_id)
        by, note = str(told["by"]), str(told.get("note", ""))
        if record.ended == "retired":
            return Retired(by, note, run_id=run_id)
        undone, left = (tuple(map(str, told.get(name, ()))) for name in ("undone", "left"))
        return Cancelled(by, note, undone, left, run_id=run_id)
    if record.held is not None:
        ways = tuple(at_store(remedy, store) for remedy in record.held.remedies)
        return Held(record.held.reason, ways, record.held.detail, run_id=run_id)
    until = (
        None if row.due_at >= NEVER or row.due_at <= 0 else datetime.fromtimestamp(row.due_at / SECOND, UTC)
    )
    asked = requests.requests(run_id, record)
    return Waiting(tuple(_reasons(row, record, asked)), asked, until, run_id=run_id)


def _reasons(row: RunRow, record: RunRecord, asked: Sequence[ApprovalRequest]) -> Sequence[str]:
    """What the run waits for; where it waits for nothing, it runs, or needs someone to drive it."""
    if row.worker is not None:
        return [f"worker {row.worker} drives it now"]
    why = [*questions.reasons(record), *(f"approval {request.id} of {request.tool}" for request in asked)]
    return why or ["a worker: nobody drives it now"]


def check_by_default() -> bool:
    """Steps are checked under pytest, where a failure costs least."""
    return "PYTEST_CURRENT_TEST" in os.environ


class _Door:
    """How `Agent.run` reaches a Runtime without importing one."""

    async def run(
        self,
        agent: Agent[Any, Any, R],
        run_id: str,
        goal: Any,
        *,
        principal: Principal | None,
        store: str | Store | None,
        check: bool | None,
        budget: Budget | None,
        placing: Placing,
    ) -> Outcome[R]:
        """Open a Runtime for one run."""
        async with Runtime(store, [agent], check=check_by_default() if check is None else check) as runtime:
            return await runtime.run(agent, run_id, goal, principal=principal, budget=budget, **placing)


declaration.door = _Door()
