"""Compensation: what a cancelled run has done is undone, newest first, each act once."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import perdure
from perdure.agent import Budget, Cancelled, Done, Held, NotDone, Retry, Waiting, current_call
from perdure.errors import NothingToResolve, RunEnded
from perdure.state import events as e
from tests.unit.runtime.stage import RUN, Stage, World, agent


class Trip:
    """Three bookings in two steps, then a wait for ever. `world` sees bookings and undos alike."""

    def __init__(self, **options: Any) -> None:
        self.world = World()
        self.trouble: dict[str, Exception] = {}
        world, trouble = self.world, self.trouble

        @perdure.tool(effect="irreversible")
        async def book(what: str, seats: int = 1) -> str:
            return str(world.act(f"{what}-{seats}"))

        @book.undo
        async def unbook(what: str, seats: int, result: str) -> str:
            reply = world.act(f"no {result}")
            if (error := trouble.get(what)) is not None:
                raise error
            return str(reply)

        @perdure.tool(effect="idempotent")
        async def mail(text: str) -> str:
            return str(world.act(text))

        async def step(run: Any) -> None:
            log = run.state["log"]
            if not log:
                log.append(await book("flight", len("ab")))
                await mail("booked")
            elif len(log) == 1:
                log.append(await book("hotel"))
            else:
                log.append(await book("car"))
                await run.sleep(1_000_000)

        self.book, self.unbook, self.mail, self.step = book, unbook, mail, step
        self.agent = agent(step, book, mail, **options)

    @property
    def undone(self) -> list[str]:
        """What was undone, in its order."""
        return [act for act in self.told if act.startswith("no ")]

    @property
    def told(self) -> list[str]:
        """What the world answered, in its order."""
        return [self.world.find(key) for key in dict.fromkeys(self.world.keys)]

    async def booked(self, stage: Stage) -> None:
        """Book everything, and wait."""
        async with stage.runtime(self.agent) as place:
            outcome = await place.run(self.agent, RUN, "go", patience=NONE)
        assert isinstance(outcome, Waiting)

    async def cancel(self, stage: Stage, **how: Any) -> Any:
        """Ask for it, in a process that knows no agent, and carry the run on in another one."""
        async with stage.runtime() as place:
            assert not await place.cancel(RUN, by="ada", compensate=True, **how)
        return await stage.run(self.agent)


NONE = timedelta(0)
ALL = ["no car-1", "no hotel-1", "no flight-2"]


async def test_undone_in_reverse_then_cancelled(stage: Stage) -> None:
    """Acts of committed steps and of the open one; what has no hook stays."""
    trip = Trip()
    await trip.booked(stage)
    outcome = await trip.cancel(stage, note="rain")
    assert outcome == Cancelled("ada", "rain", ("3:0", "2:0", "1:0"), (), run_id=RUN)
    assert trip.undone == ALL
    [plan] = await stage.bodies(e.UndoPlanned)
    assert [(act.path, act.name) for act in plan.acts] == [("3:0", "book"), ("2:0", "book"), ("1:0", "book")]
    assert [body.path for body in await stage.bodies(e.CallIntended)][4:] == [
        "undo:3:0",
        "undo:2:0",
        "undo:1:0",
    ]
    assert (await stage.bodies(e.CancelRequested)) == [e.CancelRequested("ada", "rain", True)]
    assert (await stage.kinds())[-1] == "run.finished"
    await stage.blameless(trip.world, undoable=["book"])


async def test_a_plain_cancel_undoes_nothing(stage: Stage) -> None:
    trip = Trip()
    await trip.booked(stage)
    async with stage.runtime() as place:
        assert await place.cancel(RUN, by="ada")
    assert await stage.run(trip.agent) == Cancelled("ada", run_id=RUN)
    assert trip.undone == []
    assert await stage.bodies(e.UndoPlanned) == []


AT_EACH = ("undo.done", "intent.write", "intent.durable", "call.act", "call.acted", "receipt.queued")
PLACES = [
    ("undo.plan", 1),
    ("undo.planned", 1),
    ("run.finish", 1),
    *((one, hit) for one in AT_EACH for hit in (1, 2)),
]


@pytest.mark.parametrize(("boundary", "hit"), PLACES)
async def test_a_crash_repeats_no_undo_wrongly(stage: Stage, boundary: str, hit: int) -> None:
    """Each is sent with one key until it has an answer, and none is lost."""
    trip = Trip()
    await trip.booked(stage)
    async with stage.runtime() as place:
        await place.cancel(RUN, by="ada", compensate=True)
    await stage.crash(trip.agent, boundary, hit)
    outcome = await stage.run(trip.agent)
    assert isinstance(outcome, Cancelled)
    assert outcome.undone == ("3:0", "2:0", "1:0")
    assert trip.undone == ALL
    assert len(set(trip.world.keys)) == 7
    await stage.blameless(trip.world, undoable=["book"])


async def test_the_history_is_read_once(memory: Stage) -> None:
    """A run that is held in the middle of its undos is looked at again without its history."""
    trip = Trip()
    trip.trouble["hotel"] = NotDone("closed")
    await trip.booked(memory)
    assert isinstance(await trip.cancel(memory), Held)
    reads: list[int] = []
    store: Any = memory.store
    read = store.read

    async def counted(run_id: str, after: int, *more: Any) -> Any:
        if more != (1,):  # the first event alone tells the goal
            reads.append(after)
        return await read(run_id, after, *more)

    store.read = counted
    async with memory.runtime() as place:
        await place.signal(RUN, "anything", id="s-1")
    assert isinstance(await memory.run(trip.agent), Held)
    assert reads == []
    trip.trouble.clear()
    async with memory.runtime() as place:
        await place.retry(RUN, by="ada")
    assert isinstance(await memory.run(trip.agent), Cancelled)
    assert reads.count(0) == 1


# ------------------------------------------------------------------------------------- what may go wrong


async def test_a_failing_undo_holds_the_run_and_keeps_the_others(stage: Stage) -> None:
    """Nothing before it in the plan is repeated, nothing after it is begun; a retry goes on."""
    trip = Trip()
    trip.trouble["hotel"] = NotDone("the desk is closed")
    await trip.booked(stage)
    held = await trip.cancel(stage)
    assert isinstance(held, Held)
    assert held.reason == "undo-failed"
    assert "book (2:0) is not undone: NotDone: the desk is closed; 1 more to undo after it" in held.detail
    assert held.remedies[0].startswith("perdure retry ")
    assert f"{RUN} undo:2:0 --done null" in held.remedies[1]
    assert trip.undone == ALL[:2]
    assert (await stage.store.row(RUN)).asks
    trip.trouble.clear()
    async with stage.runtime() as place:
        await place.retry(RUN, by="ada")
    assert (await stage.run(trip.agent)).undone == ("3:0", "2:0", "1:0")
    assert trip.undone == ALL
    [car, *hotel, flight] = [body for body in await stage.bodies(e.CallIntended) if "undo" in body.path]
    assert [car.attempt, flight.attempt, *(body.attempt for body in hotel)] == [1, 1, 1, 2]


@pytest.mark.parametrize("by_hand", [True, False])
async def test_a_person_settles_an_undo(stage: Stage, by_hand: bool) -> None:
    """It was undone by hand, or it stays as it is; the rest is undone all the same."""
    trip = Trip()
    trip.trouble["hotel"] = NotDone("closed")
    await trip.booked(stage)
    assert isinstance(await trip.cancel(stage), Held)
    async with stage.runtime(trip.agent) as place:
        if by_hand:
            await place.resolve(RUN, "undo:2:0", by="ada", done="called them")
        else:
            await place.resolve(RUN, "undo:2:0", by="ada", failed="let it be")
        with pytest.raises(NothingToResolve):
            await place.resolve(RUN, "undo:2:0", by="ada", failed="let it be")
    outcome = await stage.run(trip.agent)
    undone, left = (("3:0", "2:0", "1:0"), ()) if by_hand else (("3:0", "1:0"), ("2:0",))
    assert outcome == Cancelled("ada", "", undone, left, run_id=RUN)


async def test_an_unknown_undo_is_sent_again_then_a_person_is_asked(stage: Stage) -> None:
    """The default class is idempotent: one key for all tries; a retry sends once more."""
    trip = Trip()
    trip.trouble["hotel"] = ConnectionError("the line broke")
    await trip.booked(stage)
    held = await trip.cancel(stage)
    assert isinstance(held, Held)
    assert held.reason == "unknown-outcome"
    assert held.remedies[0].startswith("perdure retry ")
    assert "undo:2:0" in held.remedies[1]
    sent = [body for body in await stage.bodies(e.CallIntended) if body.path == "undo:2:0"]
    assert len(sent) == 8
    assert len({body.key for body in sent}) == 1
    trip.trouble.clear()
    async with stage.runtime() as place:
        await place.retry(RUN, by="ada")
    assert (await stage.run(trip.agent)).undone == ("3:0", "2:0", "1:0")
    await stage.blameless(trip.world, undoable=["book"])


def lost(world: World, *, hook: bool) -> Any:
    """A tool whose undo is irreversible, and whose answer gets lost."""

    @perdure.tool(effect="irreversible")
    async def pay(cents: int) -> int:
        return int(world.act(cents))

    @pay.undo
    @perdure.tool(effect="irreversible", retry=Retry(attempts=2, backoff=0.1))
    async def pay_back(cents: int) -> int:
        if current_call().attempt == 1:
            raise NotDone("the door was shut")
        world.lose = 1
        return int(world.act(-cents))

    if hook:

        @pay_back.reconcile
        async def paid_back(cents: int) -> Any:
            found = world.find(current_call().key)
            return NotDone() if found is None else Done(found)

    return pay


@pytest.mark.parametrize("hook", [True, False])
async def test_an_irreversible_undo_is_never_sent_twice(stage: Stage, hook: bool) -> None:
    """A tool as the undo keeps what it declares: its class, its tries and its hook."""
    world = World()
    pay = lost(world, hook=hook)

    async def step(run: Any) -> None:
        await pay(5)
        await run.sleep(1_000_000)

    made = agent(step, pay)
    async with stage.runtime(made) as place:
        await place.run(made, RUN, "go", patience=NONE)
        await place.cancel(RUN, by="ada", compensate=True)
    outcome = await stage.run(made)
    if not hook:
        assert isinstance(outcome, Held)
        assert outcome.reason == "unknown-outcome"
        async with stage.runtime(made) as place:
            await place.resolve(RUN, "undo:1:0", by="ada", done=-5)
        outcome = await stage.run(made)
    assert isinstance(outcome, Cancelled)
    assert outcome.undone == ("1:0",)
    assert [act.tool for act in world.acts] == ["pay", "pay_back"]
    await stage.blameless(world)


def payer(world: World) -> Any:
    """An agent that pays once, which can be undone."""

    @perdure.tool(effect="irreversible")
    async def pay(cents: int) -> int:
        return int(world.act(cents))

    @pay.undo
    async def pay_back(cents: int) -> int:
        return int(world.act(-cents))

    async def step(run: Any) -> None:
        run.finish(await pay(5))

    return agent(step, pay)


async def test_an_open_call_gets_its_verdict_first(stage: Stage) -> None:
    """What a lost reply says in the end counts: an act that had happened is undone, too."""
    world = World(lose=1)
    made = payer(world)
    assert isinstance(await stage.run(made), Held)
    async with stage.runtime(made) as place:
        await place.cancel(RUN, by="ada", compensate=True)
    held = await stage.run(made)
    assert isinstance(held, Held)
    assert f"{RUN} 1:0 --done" in held.remedies[0]
    async with stage.runtime(made) as place:
        await place.resolve(RUN, "1:0", by="ada", done=5)
    assert (await stage.run(made)).undone == ("1:0",)
    assert [act.tool for act in world.acts] == ["pay", "pay_back"]
    await stage.blameless(world)


@pytest.mark.parametrize("compensate", [True, False])
async def test_an_idempotent_call_without_an_answer(stage: Stage, compensate: bool) -> None:
    """It is not sent again; where it would have to be undone, a person says whether it happened."""
    world = World()

    @perdure.tool(effect="idempotent")
    async def note(text: str) -> str:
        world.lose = 1
        async with stage.runtime() as place:
            await place.cancel(RUN, by="ada", compensate=compensate)
        return str(world.act(text))

    @note.undo
    async def erase(text: str) -> None:
        world.act(None)

    async def step(run: Any) -> None:
        run.finish(await note("x"))

    made = agent(step, note)
    outcome = await stage.run(made)
    if not compensate:
        assert outcome == Cancelled("ada", run_id=RUN)
        return
    assert isinstance(outcome, Held)
    assert outcome.reason == "unknown-outcome"
    async with stage.runtime(made) as place:
        await place.resolve(RUN, "1:0", by="ada", done="x")
    assert (await stage.run(made)).undone == ("1:0",)
    await stage.blameless(world)


async def test_what_nobody_knows_is_left_and_said(stage: Stage) -> None:
    """An act that its tool leaves unknown is not undone, and the end names it."""
    world = World(lose=1)

    @perdure.tool(effect="irreversible", unknown="raise")
    async def shell(line: str) -> str:
        return str(world.act(line))

    @shell.undo
    async def unshell(line: str) -> None:
        world.act(None)

    async def step(run: Any) -> None:
        try:
            await shell("make")
        except perdure.LeftUnknown:
            await run.sleep(1_000_000)

    made = agent(step, shell)
    async with stage.runtime(made) as place:
        await place.run(made, RUN, "go", patience=NONE)
        await place.cancel(RUN, by="ada", compensate=True)
    assert await stage.run(made) == Cancelled("ada", "", (), ("1:0",), run_id=RUN)
    assert len(world) == 1


# ----------------------------------------------------------------------------------------- what guards it


async def test_neither_budget_nor_permission_keeps_an_undo_back(stage: Stage) -> None:
    """It is counted, and nothing is asked of it."""
    trip = Trip(budget=Budget(calls=4, seconds=1))
    allowed = [True]
    trip.agent.authorize(lambda who, call: allowed[0])
    async with stage.runtime(trip.agent) as place:
        await place.run(trip.agent, RUN, "go", patience=NONE, principal=perdure.Principal("bo"))
    allowed[0] = False
    outcome = await trip.cancel(stage)
    assert isinstance(outcome, Cancelled)
    assert outcome.undone == ("3:0", "2:0", "1:0")
    assert (await stage.record()).spent.calls == 7
    await stage.blameless(trip.world, undoable=["book"])


async def test_a_held_run_can_be_cancelled_so(stage: Stage) -> None:
    """Its hold ends with the plan; the undos need none of what it was held for."""
    trip = Trip(budget=Budget(calls=2))
    held = await stage.run(trip.agent)
    assert isinstance(held, Held)
    assert held.reason == "over-budget"
    outcome = await trip.cancel(stage)
    assert isinstance(outcome, Cancelled)
    assert trip.undone == ["no flight-2"]
    await stage.blameless(trip.world, undoable=["book"])


async def test_it_may_be_asked_for_after_a_cancel(stage: Stage) -> None:
    """As long as the run is open: it waits for a verdict, and then undoes."""
    world = World(lose=1)
    made = payer(world)
    assert isinstance(await stage.run(made), Held)
    async with stage.runtime(made) as place:
        await place.cancel(RUN, by="ada")
        await place.cancel(RUN, by="bo", compensate=True)
        await place.resolve(RUN, "1:0", by="ada", done=5)
    assert await stage.run(made) == Cancelled("ada", "", ("1:0",), (), run_id=RUN)
    async with stage.runtime(made) as place:
        with pytest.raises(RunEnded):
            await place.cancel(RUN, by="bo", compensate=True)


# ------------------------------------------------------------------------------------------ code that moves


async def test_a_tool_that_is_gone_holds_the_run(stage: Stage) -> None:
    """Nobody knows whether its acts have an undo, so nothing is passed over."""
    trip = Trip()
    await trip.booked(stage)
    async with stage.runtime() as place:
        await place.cancel(RUN, by="ada", compensate=True)
    held = await stage.run(agent(trip.step, trip.mail))
    assert isinstance(held, Held)
    assert held.reason == "undo-failed"
    assert "no longer lists a tool book with an undo hook" in held.detail
    assert trip.undone == []
    async with stage.runtime() as place:
        await place.retry(RUN, by="ada")
    assert (await stage.run(trip.agent)).undone == ("3:0", "2:0", "1:0")
    assert trip.undone == ALL
    await stage.blameless(trip.world, undoable=["book"])


async def test_arguments_that_no_longer_fit_hold_the_run(stage: Stage) -> None:
    """The undo is not called with something else than what was done."""
    trip = Trip()
    await trip.booked(stage)

    @perdure.tool(effect="irreversible", name="book")
    async def today(what: int, seats: int) -> str:
        raise AssertionError

    @today.undo
    async def untoday(what: int, seats: int) -> None:
        raise AssertionError

    async with stage.runtime() as place:
        await place.cancel(RUN, by="ada", compensate=True)
    held = await stage.run(agent(trip.step, today, trip.mail))
    assert isinstance(held, Held)
    assert held.reason == "undo-failed"
    assert "what" in held.detail
    async with stage.runtime() as place:
        await place.resolve(RUN, "undo:3:0", by="ada", failed="keep the car")
    held = await stage.run(agent(trip.step, today, trip.mail))
    assert isinstance(held, Held)
    assert "(2:0)" in held.detail


async def test_what_an_undo_returns_need_not_be_kept(memory: Stage) -> None:
    """It is undone all the same."""
    world = World()

    @perdure.tool(effect="irreversible")
    async def pay(cents: int) -> int:
        return int(world.act(cents))

    @pay.undo
    def pay_back(cents: int) -> Any:
        world.act(None)
        return object()

    async def step(run: Any) -> None:
        await pay(5)
        await run.sleep(1_000_000)

    made = agent(step, pay)
    async with memory.runtime(made) as place:
        await place.run(made, RUN, "go", patience=NONE)
        await place.cancel(RUN, by="ada", compensate=True)
    assert (await memory.run(made)).undone == ("1:0",)
    await memory.blameless(world)


async def test_a_worker_that_drains_leaves_between_two_undos(memory: Stage) -> None:
    """It ends the one that is under way; the next worker goes on."""
    trip = Trip()
    await trip.booked(memory)
    async with memory.runtime() as place:
        await place.cancel(RUN, by="ada", compensate=True)
    task: list[asyncio.Task[Any]] = []

    def stop(name: str) -> None:
        if name == "undo.done" and task:
            task.pop().cancel()

    from perdure.runtime.boundary import set_hook

    task.append(asyncio.create_task(memory.run(trip.agent)))
    running = task[0]
    set_hook(stop)
    with pytest.raises(asyncio.CancelledError):
        await running
    set_hook(None)
    row = await memory.store.row(RUN)
    assert (row.worker, row.due_at) == (None, 0)
    assert 1 <= len(trip.undone) < 3
    assert (await memory.run(trip.agent)).undone == ("3:0", "2:0", "1:0")
    assert trip.undone == ALL
    await memory.blameless(trip.world, undoable=["book"])
