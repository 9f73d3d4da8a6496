"""Today's code and a recorded step disagree: reads are forgotten, acts held; `check` sees it early."""

from __future__ import annotations

import itertools
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from perdure import Agent, Finished, Held, Run, tool
from perdure.errors import NothingToResolve
from perdure.state import events as e
from tests.unit.runtime.desk import Desk, Outside, agent_of, in_memory

Code = Callable[[Run[Any]], Awaitable[None]]


class Office:
    """A desk and two tools, and one run whose code is changed while it waits."""

    def __init__(self) -> None:
        self.desk: Desk = in_memory()
        self.outside = Outside()

        @tool(effect="read")
        async def look(at: int) -> str:
            self.outside.act(f"look {at}")
            return f"saw {at}"

        @tool()
        async def pay(cents: int) -> str:
            self.outside.act(f"pay {cents}")
            return f"paid {cents}"

        self.look, self.pay = look, pay

    def agent(self, code: Code) -> Agent[Any, Any, Any]:
        """The agent with this code."""
        return agent_of(code, self.look, self.pay)

    async def begin(self, code: Code) -> None:
        """The run gets as far as its wait with this code."""
        waiting = await self.desk.run(self.agent(code))
        assert waiting.status == "waiting", waiting
        self.outside.acts.clear()

    async def deploy(self, code: Code) -> Any:
        """What the run comes to with that code, after the wait."""
        self.desk.clock.advance(11)
        return await self.desk.run(self.agent(code))


def looks(office: Office, *places: int) -> Code:
    """Code that looks at these places and waits."""

    async def code(run: Run[Any]) -> None:
        seen = [await office.look(place) for place in places]
        await run.sleep(10)
        run.finish(seen)

    return code


# ---------------------------------------------------------------------------------------------- only reads


@pytest.mark.parametrize(
    ("now", "made"),
    [
        ((1, 3), ["look 3"]),  # other arguments
        ((2, 1), ["look 2", "look 1"]),  # reordered
        ((1,), []),  # recorded calls that are never asked for
        ((1, 2, 3), ["look 3"]),  # one more
        ((), []),
    ],
)
async def test_a_tail_of_reads_is_forgotten_and_the_step_goes_on(
    now: tuple[int, ...], made: list[str]
) -> None:
    office = Office()
    await office.begin(looks(office, 1, 2))
    outcome = await office.deploy(looks(office, *now))
    if outcome.status == "waiting":  # the wait was forgotten too
        outcome = await office.deploy(looks(office, *now))
    assert outcome.unwrap() == [f"saw {place}" for place in now]
    assert office.outside.done == made
    assert len(await office.desk.facts(e.StepRestarted)) == 1


async def test_another_tool_a_sleep_or_a_draw_in_place_of_a_read() -> None:
    for kind in ("sleep", "random", "now", "new_id", "pay"):
        office = Office()
        await office.begin(looks(office, 1))

        async def code(run: Run[Any], kind: str = kind, office: Office = office) -> None:
            if kind == "sleep":
                await run.sleep(0)
            elif kind == "pay":
                await office.pay(5)
            else:
                getattr(run, kind)()
            run.finish(kind)

        assert (await office.deploy(code)).unwrap() == kind
        assert office.outside.done == (["pay 5"] if kind == "pay" else [])


@pytest.mark.parametrize("kind", ["pay", "look", "random"])
async def test_a_call_in_place_of_an_open_wait_is_seen_before_it_acts(kind: str) -> None:
    office = Office()

    async def before(run: Run[Any]) -> None:
        await run.sleep(10)

    async def after(run: Run[Any]) -> None:
        if kind == "random":
            run.random()
        else:
            await getattr(office, kind)(5)
        run.finish(kind)

    await office.begin(before)
    assert (await office.deploy(after)).unwrap() == kind
    assert len(office.outside.done) == (kind != "random")


async def test_branches_that_are_no_longer_there() -> None:
    office = Office()

    async def before(run: Run[Any]) -> None:
        await run.gather(office.look(1), office.look(2), office.look(3))
        await run.sleep(10)

    async def after(run: Run[Any]) -> None:
        run.finish(list(await run.gather(office.look(1), office.look(2))))

    await office.begin(before)
    assert (await office.deploy(after)).unwrap() == ["saw 1", "saw 2"]


async def test_reads_after_an_act_are_forgotten_and_the_act_is_kept() -> None:
    office = Office()

    def code(place: int) -> Code:
        async def step(run: Run[Any]) -> None:
            receipt = await office.pay(5)
            seen = await office.look(place)
            await run.sleep(10)
            run.finish([receipt, seen])

        return step

    await office.begin(code(1))
    waiting = await office.deploy(code(2))
    assert waiting.status == "waiting"
    assert (await office.deploy(code(2))).unwrap() == ["paid 5", "saw 2"]
    assert office.outside.done == ["look 2"]


# ---------------------------------------------------------------------------------------------------- acts


def pays(office: Office, *sums: int, first: int | None = None) -> Code:
    """Code that pays these sums and waits."""

    async def code(run: Run[Any]) -> None:
        if first is not None:
            await office.look(first)
        receipts = [await office.pay(cents) for cents in sums]
        await run.sleep(10)
        run.finish(receipts)

    return code


@pytest.mark.parametrize(
    ("sums", "first", "told"),
    [
        ((6,), None, ["[R201] at 1:0", "of pay differ: cents recorded 5, now 6"]),
        ((), None, ["recorded pay", "the code sleeps"]),
        ((5,), 1, ["pay(cents=5)", "look(at=1)"]),
    ],
)
async def test_an_act_that_the_code_no_longer_makes_holds(
    sums: tuple[int, ...], first: int | None, told: list[str]
) -> None:
    office = Office()
    await office.begin(pays(office, 5))
    held = await office.deploy(pays(office, *sums, first=first))
    assert isinstance(held, Held)
    assert held.reason == "diverged"
    for words in told:
        assert words in held.detail
    if sums:
        assert "test_divergence.py:" in held.detail
    assert not any("--restart" in remedy for remedy in held.remedies)
    assert office.outside.done == []


async def test_after_the_old_code_is_back_a_retry_goes_on() -> None:
    office = Office()
    await office.begin(pays(office, 5))
    assert isinstance(await office.deploy(pays(office, 6)), Held)
    agent = office.agent(pays(office, 5))
    async with office.desk.runtime(agent) as runtime:
        with pytest.raises(NothingToResolve):
            await runtime.retry("r", by="ada", restart=True)
        await runtime.retry("r", by="ada")
        assert (await runtime.run(agent, "r", "go")).unwrap() == ["paid 5"]
    assert office.outside.done == []


async def test_a_divergence_is_not_hidden_by_a_step_that_catches_everything() -> None:
    office = Office()
    await office.begin(pays(office, 5))

    async def code(run: Run[Any]) -> None:
        try:
            await office.pay(6)
        except Exception:  # noqa: BLE001  (what users write)
            run.state["log"].append("caught")
        run.finish("nothing happened")

    held = await office.deploy(code)
    assert held.reason == "diverged"
    assert office.outside.done == []


async def test_branches_that_changed_places_around_an_act() -> None:
    office = Office()

    def code(*order: str) -> Code:
        async def step(run: Run[Any]) -> None:
            works = {"pay": office.pay(5), "look": office.look(1)}
            await run.gather(*(works[name] for name in order))
            await run.sleep(10)
            run.finish("done")

        return step

    await office.begin(code("pay", "look"))
    held = await office.deploy(code("look", "pay"))
    assert held.reason == "diverged"
    assert office.outside.done == []


# --------------------------------------------------------------------------------------------------- check

COUNTER = itertools.count()


def dishonest(office: Office, kind: str) -> Code:
    """Code that is not the same twice: its executions are counted, and some things are done only in one."""
    executions = itertools.count()
    turn = 0

    async def in_state(run: Run[Any], value: Any) -> None:
        run.state["log"].append(value)

    async def in_call(run: Run[Any], value: Any) -> None:
        await office.look(hash(value))

    async def in_result(run: Run[Any], value: Any) -> None:
        run.finish(value)

    async def in_count(run: Run[Any], value: Any) -> None:
        if turn == 0:
            await office.look(1)

    async def in_error(run: Run[Any], value: Any) -> None:
        if turn:
            raise ValueError("the second time")

    async def in_sleep(run: Run[Any], value: Any) -> None:
        if turn:
            await run.sleep(0)

    async def in_branches(run: Run[Any], value: Any) -> None:
        await run.gather(*(office.look(5 + n) for n in range(1 + turn)))

    places = {name: code for name, code in locals().items() if name.startswith("in_")}
    where, what = kind.split(" of ")

    async def code(run: Run[Any]) -> None:
        nonlocal turn
        turn = next(executions)
        values: dict[str, Callable[[], Any]] = {
            "time": lambda: datetime.now(UTC),
            "chance": random.random,
            "counter": lambda: next(COUNTER),
            "address": lambda: str(object()),
        }
        await office.look(0)
        await places[where](run, values[what]())
        if where != "in_result":
            run.finish("done")

    return code


KINDS = [
    *(f"{where} of {what}" for where in ("in_state", "in_call", "in_result") for what in ("time", "chance")),
    *(f"{where} of counter" for where in ("in_count", "in_sleep", "in_branches", "in_error")),
]


@pytest.mark.parametrize("kind", KINDS)
async def test_check_catches_a_step_that_is_not_the_same_twice(kind: str) -> None:
    office = Office()
    held = await office.desk.run(office.agent(dishonest(office, kind)), check=True)
    assert isinstance(held, Held), held
    assert held.reason == "not-repeatable"
    assert held.detail
    assert (await office.desk.record()).step == 0
    assert office.outside.done.count("look 0") == 1


async def test_check_does_not_accuse_an_honest_step() -> None:
    office = Office()

    async def code(run: Run[Any]) -> None:
        state = run.state

        async def branch(place: int) -> str:
            state["log"].append(f"in {place}")
            seen = await office.look(place)
            state["log"].append([place, run.random(), run.new_id(), run.now()])
            await office.pay(place)
            return str(seen)

        state["log"].extend(await run.gather(branch(1), branch(2), office.look(3)))
        state["log"].extend(await run.map(branch, [4, 5, 6], limit=2))
        await run.sleep(10)
        state["log"].append(run.now())
        if len(state["log"]) > 30:
            run.finish(len(state["log"]))

    agent = office.agent(code)
    outcome: Any = None
    for _ in range(10):
        outcome = await office.desk.run(agent, check=True)
        if isinstance(outcome, Finished):
            break
        assert outcome.status == "waiting", outcome
        office.desk.clock.advance(11)
    assert isinstance(outcome, Finished)
    steps = (await office.desk.record()).step
    assert len(office.outside.done) == 11 * steps


async def test_check_acts_nothing_a_second_time_and_publishes_one_ending() -> None:
    office = Office()

    async def code(run: Run[Any]) -> None:
        run.finish(await office.pay(5))

    assert (await office.desk.run(office.agent(code), check=True)).unwrap() == "paid 5"
    assert office.outside.done == ["pay 5"]
