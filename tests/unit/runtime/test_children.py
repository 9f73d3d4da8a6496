"""Runs that a run spawns: their lives, their ends, their failures, their cancellation, their crashes."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import perdure
from perdure.agent import Agent, Cancelled, Finished, Held, Waiting
from perdure.errors import BadArguments, ChildFailed, NotServed, RunEnded, ShapeMismatch
from perdure.runtime.lineage import child_id
from perdure.state import events as e
from perdure.store.protocol import Query
from tests.unit.runtime.stage import LEASE, RUN, Stage, World, agent

CHILD = f"{RUN}.1:0"


def poster(
    world: World, *, name: str = "poster", fail: bool = False, nap: float = 0.0, **options: Any
) -> Any:
    """A child that acts once, sleeps if told to, and gives what it did."""

    @perdure.tool(effect="irreversible")
    async def post(what: str) -> str:
        return str(world.act(f"posted {what}"))

    async def step(run: Any) -> None:
        run.state["log"].append(await post(str(run.goal)))
        if nap:
            await run.sleep(nap)
        if fail:
            run.fail(ValueError("no stamps"))
        else:
            run.finish(run.state["log"][-1])

    return agent(step, post, name=name)


def parent(child: Any, *goals: str, **how: Any) -> Any:
    """Spawns a child for each goal, at once if there are several, and gives their results."""

    async def step(run: Any) -> None:
        if len(goals) == 1:
            run.finish(await run.spawn(child, goals[0], **how))
        else:
            run.finish(list(await run.gather(*(run.spawn(child, goal, **how) for goal in goals))))

    return agent(step, name="parent", spawns=[child])


async def until(stage: Stage, so: Any) -> None:
    """Wait until it is so: looked at whenever something was written."""
    seen = 0
    while not so():
        seen = await stage.store.changed(seen, 1.0)


async def ended(stage: Stage, run_id: str = RUN) -> None:
    """Wait until the run has ended."""
    seen = 0
    while not (await stage.store.row(run_id)).terminal:
        seen = await stage.store.changed(seen, 1.0)


# ----------------------------------------------------------------------------- the plain way


async def test_a_child_is_a_run_of_its_own_and_gives_its_result(stage: Stage) -> None:
    """It has its own journal under an id that says whose it is; its parent waits for it."""
    world = World()
    outcome = await stage.run(parent(poster(world), "a"), check=True)
    assert outcome == Finished("posted a", run_id=RUN)
    assert await stage.kinds(CHILD) == [
        "run.started",
        "call.intended",
        "call.settled",
        "step.committed",
        "run.finished",
    ]
    kinds = await stage.kinds()
    assert kinds[:2] == ["run.started", "wait.opened"]
    assert kinds[2:] == ["run.resumed", "wait.closed", "step.committed", "run.finished"] or kinds[2:] == [
        "wait.closed",
        "run.resumed",
        "step.committed",
        "run.finished",
    ]
    row = await stage.store.row(CHILD)
    assert (row.parent, row.agent, row.status) == (RUN, "poster", "succeeded")
    await stage.blameless(world)
    await stage.blameless(world, run_id=CHILD)


async def test_a_family_has_one_trace_recorded_with_each_run(stage: Stage) -> None:
    """Law 16: derived from the id of the run at the root; another root has another."""
    world = World()
    child = poster(world)
    await stage.run(parent(parent_named("middle", child), "a"))
    await stage.run(poster(world), run_id="other")
    traces = [(await stage.record(run_id)).trace for run_id in (RUN, CHILD, f"{CHILD}.1:0")]
    assert len(set(traces)) == 1
    assert len(traces[0]) == 32
    assert (await stage.record("other")).trace not in traces


def parent_named(name: str, child: Any) -> Any:
    """A parent that spawns one child for its own goal."""

    async def step(run: Any) -> None:
        run.finish(await run.spawn(child, run.goal))

    return agent(step, name=name, spawns=[child])


async def test_several_children_at_once(stage: Stage) -> None:
    """Each on its branch, with an id of its own; the results come in the order of the spawns."""
    world = World()
    outcome = await stage.run(parent(poster(world), "a", "b", "c"), check=True)
    assert outcome.unwrap() == ["posted a", "posted b", "posted c"]
    rows = await stage.store.list(Query(prefix=f"{RUN}."))
    assert sorted(row.run_id for row in rows) == [f"{RUN}.1:0.{n}.0" for n in range(3)]
    assert len(world) == 3


async def test_one_worker_with_one_place_carries_a_family(stage: Stage) -> None:
    """A parent that waits takes up no place: parent, child and grandchild share the one (O-071)."""
    world = World()
    made = parent(parent_named("middle", poster(world)), "a")
    async with stage.runtime(made, workers=1) as place:
        await place.start(made, RUN, "go")
        async with asyncio.timeout(30):
            await ended(stage)
        assert (await place.outcome(RUN)).unwrap() == "posted a"


async def test_a_result_comes_as_the_childs_type(stage: Stage) -> None:
    """Decoded as the child's agent declares it, live and replayed."""
    world = World()
    child: Agent[Any, Any, Any] = Agent("dates", goal=int, result=timedelta, state=dict, start=lambda n: {})

    @child.step
    async def days(run: Any) -> None:
        run.finish(timedelta(days=run.goal))

    @perdure.tool(effect="idempotent")
    async def ring() -> str:
        return str(world.act("rang"))

    async def step(run: Any) -> None:
        span = await run.spawn(child, 2)
        await ring()
        run.finish([type(span).__name__, span.total_seconds()])

    made = agent(step, ring, spawns=[child])
    await stage.crash(made, "call.acted")
    assert (await stage.run(made)).unwrap() == ["timedelta", 172_800.0]


async def test_what_cannot_be_spawned_is_refused_in_the_step(memory: Stage) -> None:
    """Nothing is recorded of it: no agent, no such policy, a goal of another type."""
    child: Agent[Any, Any, Any] = Agent("numbers", goal=int, state=dict, start=lambda n: {})
    seen: list[type] = []

    async def step(run: Any) -> None:
        with pytest.raises(BadArguments):
            await run.spawn("numbers", 1)
        with pytest.raises(BadArguments):
            await run.spawn(child, 1, on_cancel="leave")
        with pytest.raises(ShapeMismatch) as refused:
            await run.spawn(child, "one")
        seen.append(refused.type)
        run.finish("nothing")

    assert (await memory.run(agent(step))).unwrap() == "nothing"
    assert await memory.kinds() == ["run.started", "step.committed", "run.finished"]


def test_an_id_is_always_the_same_and_never_too_long() -> None:
    """A family deeper than an id has room for goes on under a digest."""
    deep = "r"
    seen = set()
    for _ in range(100):
        deep = child_id(deep, "1:0.0.0")
        assert len(deep) <= 200
        assert deep not in seen
        seen.add(deep)
    assert child_id("r", "1:0") == "r.1:0" == child_id("r", "1:0")


# -------------------------------------------------------------------------- failing children


async def test_a_child_that_fails_raises_at_the_spawn(stage: Stage) -> None:
    """Live and replayed alike; the parent may go on without it."""
    world = World()
    child = poster(world, fail=True)

    async def step(run: Any) -> None:
        try:
            await run.spawn(child, "a")
        except ChildFailed as failed:
            run.finish([failed.code, failed.status, failed.run_id, failed.what])

    made = agent(step, name="parent", spawns=[child])
    await stage.crash(made, "step.commit", 2)
    told = (await stage.run(made, check=True)).unwrap()
    assert told == ["T221", "failed", CHILD, f"child run {CHILD} failed: ValueError: no stamps"]
    assert len(world) == 1


async def test_a_failed_child_that_nobody_catches_holds_the_parent(memory: Stage) -> None:
    """Like any exception that leaves a step."""
    outcome = await memory.run(parent(poster(World(), fail=True), "a"))
    assert isinstance(outcome, Held)
    assert outcome.reason == "step-error"
    assert outcome.detail.startswith(f"[T221] ChildFailed: child run {CHILD} failed")


async def test_one_child_fails_and_its_siblings_go_on(stage: Stage) -> None:
    """The error comes when all have ended; nothing is done twice (O-067)."""
    world = World()
    good, bad = poster(world), poster(world, name="bad", fail=True)

    async def one(run: Any, child: Any, goal: str) -> str:
        try:
            return str(await run.spawn(child, goal))
        except ChildFailed as failed:
            return str(failed.status)

    async def step(run: Any) -> None:
        run.finish(list(await run.gather(one(run, good, "a"), one(run, bad, "b"), one(run, good, "c"))))

    made = agent(step, name="parent", spawns=[good, bad])
    assert (await stage.run(made, check=True)).unwrap() == ["posted a", "failed", "posted c"]
    assert len(world) == 3


async def test_a_child_that_is_cancelled_raises_at_the_spawn(memory: Stage) -> None:
    """And says by whom."""
    child = poster(World(), nap=10_000)
    made = parent(child, "a")
    waiting = await memory.run(made)
    assert isinstance(waiting, Waiting)
    assert waiting.reasons == (f"child run '{CHILD}' at 1:0",)
    async with memory.runtime(made) as place:
        assert await place.cancel(CHILD, by="ada")
        outcome = await place.run(made, RUN, "go")
    assert isinstance(outcome, Held)
    assert f"child run {CHILD} was cancelled by ada" in outcome.detail


async def test_a_held_child_keeps_its_parent_waiting(memory: Stage) -> None:
    """Until a person has let it go on."""
    world = World()
    broken = [True]

    async def step(run: Any) -> None:
        if broken[0]:
            raise KeyError("bug")
        run.finish("mended")

    child = agent(step, name="broken")
    made = parent(child, "a")
    assert (await memory.run(made)).status == "waiting"
    assert (await memory.store.row(CHILD)).status == "held"
    broken.clear()
    broken.append(False)
    async with memory.runtime(made) as place:
        await place.retry(CHILD, by="ada")
        assert (await place.run(made, RUN, "go")).unwrap() == "mended"
    assert not world.acts


# ----------------------------------------------------------------------------------- crashes


@pytest.mark.parametrize(
    "where",
    [
        ("wait.opened", 1),
        ("child.create", 1),
        ("child.created", 1),
        ("run.suspend", 1),
        ("run.suspended", 1),
        ("call.acted", 1),
        ("run.finish", 1),
        ("run.finished", 1),
        ("inbox.apply", 1),
        ("step.commit", 2),
        ("run.finish", 2),
    ],
)
async def test_a_crash_anywhere_leaves_one_child_and_one_result(stage: Stage, where: tuple[str, int]) -> None:
    """Whether parent or child was at that point: one child, one act unless it is unknown, one end each."""
    world = World()
    made = parent(poster(world), "a")
    await stage.crash(made, *where)
    outcome = await stage.run(made)
    if outcome.status == "waiting":
        assert where[0] in ("call.acted", "run.finish")  # the receipt was not durable: nobody knows
        async with stage.runtime(made) as place:
            await place.resolve(CHILD, "1:0", by="ada", done="posted a")
            outcome = await place.run(made, RUN, "go")
    assert outcome.unwrap() == "posted a"
    assert len(world) == 1
    assert len(await stage.bodies(e.WaitOpened)) == len(await stage.bodies(e.WaitClosed)) == 1
    await stage.blameless(world)
    await stage.blameless(world, run_id=CHILD)


async def test_no_child_is_created_before_its_wait_is_durable(stage: Stage) -> None:
    """Law 1: else a parent that goes another way after a crash had a child that it knows nothing of."""
    await stage.crash(parent(poster(World()), "a"), "child.created")
    assert (await stage.store.row(CHILD)).parent == RUN
    assert [wait.name for wait in await stage.bodies(e.WaitOpened)] == [CHILD]


async def test_a_child_of_a_dead_process_goes_on_where_its_agent_is_served(stage: Stage) -> None:
    """Killed in the child's step: the child is carried on first, then its parent (O-071)."""
    world = World()
    made = parent(parent_named("middle", poster(world)), "a")
    await stage.crash(made, "receipt.queued")
    async with stage.runtime(made, workers=1) as place:
        async with asyncio.timeout(30):
            seen = 0
            while (await stage.store.row(f"{CHILD}.1:0")).status != "held":
                seen = await stage.store.changed(seen, 1.0)
            await place.resolve(f"{CHILD}.1:0", "1:0", by="ada", done="posted a")
            await ended(stage)
        assert (await place.outcome(RUN)).unwrap() == "posted a"
    assert len(world) == 1


async def test_a_message_of_a_childs_end_counts_once(memory: Stage) -> None:
    """Law 10: however often it is sent again."""
    from perdure import codec
    from perdure.store.protocol import Message

    world = World()
    child, again = poster(world), poster(world, name="again", nap=10_000)

    async def step(run: Any) -> None:
        run.finish([await run.spawn(child, "a"), await run.spawn(again, "b")])

    made = agent(step, name="parent", spawns=[child, again])
    assert (await memory.run(made)).status == "waiting"
    closed = (await memory.bodies(e.WaitClosed))[0]
    for sender in (f"end of {CHILD}", "another sender"):
        data = {"path": "1:0", "child": CHILD, "told": closed.value}
        await memory.store.deliver(Message(RUN, sender, "child", codec.encode(data)))
    stray = {"path": "1:1", "child": "somebody else", "told": closed.value}
    await memory.store.deliver(Message(RUN, "stray", "child", codec.encode(stray)))
    assert (await memory.run(made)).status == "waiting"
    assert len(await memory.bodies(e.WaitClosed)) == 1


async def test_a_child_whose_agent_nobody_serves_waits_for_a_worker(memory: Stage) -> None:
    """The parent waits; its runtime says what is missing; a worker that serves the child mends it."""
    world = World()
    child = poster(world, nap=10)

    async def step(run: Any) -> None:
        run.finish(await run.spawn(child, "a"))

    made = agent(step, name="parent")
    with pytest.raises(BaseException, match=r"run\.suspended"):
        async with memory.runtime(made) as place:
            from tests.unit.runtime.stage import dying

            with dying("run.suspended"):
                await place.run(made, RUN, "go")
    memory.clock.advance(LEASE + 1)
    async with memory.runtime(made) as place:
        assert (await place.run(made, RUN, "go")).status == "waiting"
        with pytest.raises(NotServed):
            await place.resume(CHILD)
    async with memory.runtime(child) as place:
        assert (await place.resume(CHILD)).unwrap() == "posted a"
    assert (await memory.run(made)).unwrap() == "posted a"


async def test_an_id_that_another_run_has_holds_the_parent(memory: Stage) -> None:
    """Somebody started a run under the child's id by themselves: it is not the child."""
    world = World()
    child = poster(world)
    await memory.run(child, "mine", run_id=CHILD)
    outcome = await memory.run(parent(child, "a"))
    assert isinstance(outcome, Held)
    assert outcome.reason == "child-taken"
    async with memory.runtime(parent(child, "a")) as place:
        assert await place.cancel(RUN, by="ada")
    assert (await memory.store.row(RUN)).status == "cancelled"


async def test_other_code_at_the_place_of_a_child_is_a_divergence(memory: Stage) -> None:
    """Another goal, another agent, no spawn at all: the child is there, so a person decides."""
    world = World()
    child = poster(world, nap=10_000)
    assert (await memory.run(parent(child, "a"))).status == "waiting"

    async def none(run: Any) -> None:
        run.finish("nothing spawned")

    for changed in (parent(child, "b"), parent(poster(world, name="other"), "a"), agent(none, name="parent")):
        async with memory.runtime(changed) as place:
            from perdure.store.protocol import Message

            stray = Message(RUN, f"wake {id(changed)}", "release", b"\x80")
            await memory.store.deliver(stray)
            outcome = await place.run(changed, RUN, "go")
            assert isinstance(outcome, Held), outcome
            assert outcome.reason == "diverged"
            assert not any("--restart" in remedy for remedy in outcome.remedies)
            await place.release(RUN, by="ada")
    assert len(world) == 1


# ------------------------------------------------------------------------------ cancellation


async def test_a_cancelled_parent_ends_after_its_children(stage: Stage) -> None:
    """A family that nobody drives ends at once, youngest first."""
    made = parent(parent_named("middle", poster(World(), nap=10_000)), "a", "b")
    assert (await stage.run(made)).status == "waiting"
    async with stage.runtime(made) as place:
        assert await place.cancel(RUN, by="ada", note="enough")
        assert await place.outcome(RUN) == Cancelled("ada", "enough", run_id=RUN)
        with pytest.raises(RunEnded):
            await place.cancel(RUN, by="ada")
    rows = {row.run_id: row for row in await stage.store.list(Query(prefix=RUN))}
    assert len(rows) == 5
    assert {row.status for row in rows.values()} == {"cancelled"}
    ends = {run_id: (await stage.events(run_id))[-1].at for run_id in rows}
    assert all(ends[run_id] <= ends[str(row.parent)] for run_id, row in rows.items() if row.parent)


async def test_a_parent_that_is_driven_calls_its_children_back(stage: Stage) -> None:
    """A worker carries parent and children: a cancel reaches all of them, and nothing is begun after it."""
    world = World()
    made = parent(poster(world, nap=10_000), "a", "b")
    async with stage.runtime(made, workers=5) as place:
        await place.start(made, RUN, "go")
        async with asyncio.timeout(30):
            await until(stage, lambda: len(world) == 2)
            await place.cancel(RUN, by="ada")
            await ended(stage)
    rows = await stage.store.list(Query(prefix=RUN))
    assert [row.status for row in rows] == ["cancelled"] * 3
    await stage.blameless(world)


async def test_a_child_may_be_left_to_end(stage: Stage) -> None:
    """on_cancel="wait": the parent is cancelled when the child has ended by itself."""
    made = parent(poster(World(), nap=100), "a", on_cancel="wait")
    async with stage.runtime(made) as place:
        assert (await place.run(made, RUN, "go", patience=timedelta(0))).status == "waiting"
        assert not await place.cancel(RUN, by="ada")
        assert (await stage.store.row(CHILD)).status == "waiting"
        stage.clock.advance(101)
        assert (await place.resume(CHILD)).unwrap() == "posted a"
        assert (await place.run(made, RUN, "go")).status == "cancelled"


@pytest.mark.parametrize(
    "where", ["wait.opened", "child.create", "child.created", "run.suspend", "run.suspended"]
)
async def test_a_cancel_while_a_child_is_launched(stage: Stage, where: str) -> None:
    """O-070: killed at each point of the launch, then cancelled. No child without id and parent, and none
    that goes on: it is recorded and cancelled, or does not exist.
    """
    world = World()
    made = parent(poster(world), "a")
    await stage.crash(made, where)
    async with stage.runtime(made) as place:
        await place.cancel(RUN, by="ada")
        assert (await place.run(made, RUN, "go")).status == "cancelled"
    rows = {row.run_id: row for row in await stage.store.list(Query(prefix=RUN))}
    assert {row.status for row in rows.values()} == {"cancelled"}
    assert CHILD not in rows or rows[CHILD].parent == RUN
    assert not world.acts


async def test_a_step_that_gives_up_a_spawn_does_not_lose_it(stage: Stage) -> None:
    """O-070: the step's own timeout in the midst of the launch. The child is durable, and awaited."""
    world = World()
    child = poster(world)

    class Slow:
        def __init__(self, below: Any) -> None:
            self.below = below

        def __getattr__(self, name: str) -> Any:
            return getattr(self.below, name)

        async def create(self, run: Any) -> Any:
            if run.parent is not None:
                await asyncio.sleep(0.05)
            return await self.below.create(run)

    stage.wrap(Slow(stage.store))

    async def step(run: Any) -> None:
        try:
            async with asyncio.timeout(0.02):
                run.finish(await run.spawn(child, "a"))
        except TimeoutError:
            run.finish("given up")

    made = agent(step, name="parent", spawns=[child])
    assert (await stage.run(made)).unwrap() == "posted a"
    assert len(world) == 1


async def test_an_owner_that_is_late_creates_no_child_after_the_end(memory: Stage) -> None:
    """A parent was cancelled and has ended while its old process still meant to create the child."""
    world = World()
    made = parent(poster(world), "a")
    await memory.crash(made, "child.create")
    wait = (await memory.record()).waits["1:0"]
    async with memory.runtime(made) as place:
        await place.cancel(RUN, by="ada")
    from perdure.runtime.birth import new_run
    from perdure.runtime.lineage import Begun

    row, fresh = await memory.store.create(new_run(CHILD, Begun.of(wait).started, memory.clock.now()))
    assert not fresh
    assert row.status == "cancelled"


async def test_children_take_back_what_they_did_first(stage: Stage) -> None:
    """A compensating cancel is handed down, and the parent undoes what is its own after that."""
    world = World()

    @perdure.tool(effect="irreversible")
    async def post(what: str) -> str:
        return str(world.act(f"posted {what}"))

    @post.undo
    async def unpost(what: str, result: str) -> str:
        return str(world.act(f"not {result}"))

    async def work(run: Any) -> None:
        await post(run.goal)
        await run.sleep(1_000_000)

    child = agent(work, post, name="child")

    async def head(run: Any) -> None:
        await post("first")
        await run.spawn(child, "second")

    made = agent(head, post, name="parent", spawns=[child])
    async with stage.runtime(made) as place:
        assert (await place.run(made, RUN, "go", patience=timedelta(0))).status == "waiting"
        assert not await place.cancel(RUN, by="ada", compensate=True)
    assert (await stage.run(made)).undone == ("1:0",)
    told = ["posted first", "posted second", "not posted second", "not posted first"]
    assert [world.find(key) for key in world.keys] == told
    for run_id in (RUN, f"{RUN}.1:1"):
        await stage.blameless(world, run_id=run_id, undoable=["post"])


async def test_who_waits_for_a_family_follows_a_child_that_a_worker_drives_elsewhere(memory: Stage) -> None:
    """It moves, though this process does not know its agent: like a run that another process drives."""
    began, go_on = asyncio.Event(), asyncio.Event()

    async def work(run: Any) -> None:
        began.set()
        await go_on.wait()
        run.finish("done elsewhere")

    child = agent(work, name="child")

    async def head(run: Any) -> None:
        run.finish(await run.spawn(child, "a"))

    made = agent(head, name="parent")  # which agents it spawns is not declared
    async with memory.runtime(made) as place:
        starts = asyncio.create_task(place.run(made, RUN, "go"))
        await began.wait()
        starts.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starts
    async with memory.runtime(made) as place:
        assert (await place.run(made, RUN, "go", patience=timedelta(0))).status == "waiting"
    began.clear()
    async with memory.runtime(child) as elsewhere, memory.runtime(made) as place:
        drives = asyncio.create_task(elsewhere.resume(CHILD))
        await began.wait()
        follows = asyncio.create_task(place.run(made, RUN, "go", patience=timedelta(0)))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not follows.done()
        go_on.set()
        assert (await follows).unwrap() == "done elsewhere"
        assert (await drives).unwrap() == "done elsewhere"
