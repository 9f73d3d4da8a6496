"""Markers: a step that began before the code came keeps to the old way, every other takes the new one."""

from __future__ import annotations

import random
from typing import Any

import pytest

from perdure import Agent, Approval, Held, tool
from perdure.errors import BadArguments
from perdure.state import events as e
from tests.unit.runtime.stage import LEASE, RUN, Stage, World

POINTS = ["receipt.queued", "intent.durable", "wait.opened", "run.suspend", "step.commit", "run.resumed"]


class Shop:
    """Acts by name, and what each execution of a step was answered."""

    def __init__(self) -> None:
        self.world = World()
        self.answers: list[tuple[str, bool]] = []
        world = self.world

        @tool(effect="idempotent")
        async def act(name: str) -> str:
            world.act(name)
            return name

        @tool(effect="irreversible", approval=Approval())
        async def pay(name: str) -> str:
            world.act(name)
            return name

        self.act, self.pay = act, pay

    def agent(self, step: Any) -> Agent[Any, Any, Any]:
        """An agent with this step."""
        made = Agent("shop", state=dict[str, Any], tools=[self.act, self.pay])
        made.step(step)
        return made

    def since(self, run: Any, marker: str) -> bool:
        """Ask, and remember the answer."""
        answer: bool = run.since(marker)
        self.answers.append((marker, answer))
        return answer

    @property
    def acts(self) -> list[str]:
        """What happened outside, in its order; a call that was sent again counts once."""
        return list(dict.fromkeys(self.world.keys))


async def go(stage: Stage, agent: Agent[Any, Any, Any]) -> Any:
    """Let the run go on with a signal."""
    async with stage.runtime(agent) as place:
        await place.signal(RUN, "go", "gone")
    return await stage.run(agent)


async def test_an_open_step_keeps_to_the_old_way_and_the_next_takes_the_new(stage: Stage) -> None:
    """Nothing moves for the run that waits: its call, its wait, its act are where they were."""
    shop = Shop()

    async def old(run: Any) -> None:
        await shop.act("first")
        await run.wait("go")
        await shop.act("last")
        if run.state.setdefault("steps", 0):
            run.finish("done")
        run.state["steps"] += 1

    async def new(run: Any) -> None:
        if shop.since(run, "check"):
            await shop.act("check")
        await shop.act("first")
        await run.wait("go")
        await shop.act("last")
        if run.state.setdefault("steps", 0):
            run.finish("done")
        run.state["steps"] += 1

    await stage.run(shop.agent(old))
    await go(stage, shop.agent(new))
    assert shop.answers[0] == ("check", False)
    assert shop.answers[-1] == ("check", True)
    assert (await go(stage, shop.agent(new))).unwrap() == "done"
    names = [event.body.head.args for event in await stage.events() if isinstance(event.body, e.CallIntended)]
    assert len(names) == 5
    assert len(shop.world) == 5
    await stage.blameless(shop.world)


async def test_the_answer_holds_for_the_whole_step(memory: Stage) -> None:
    """Also where it is asked again, further on, in another branch, or after a crash."""
    shop = Shop()

    async def old(run: Any) -> None:
        await shop.act("first")
        await run.wait("go")

    async def new(run: Any) -> None:
        first = shop.since(run, "check")
        await shop.act("first")

        async def branch() -> None:
            assert shop.since(run, "check") is first

        await run.wait("go")
        await run.gather(branch(), branch())
        run.finish(shop.since(run, "check"))

    await memory.run(shop.agent(old))
    async with memory.runtime() as place:
        await place.signal(RUN, "go", None)
    await memory.crash(shop.agent(new), "run.finish")
    assert (await memory.run(shop.agent(new))).unwrap() is False
    assert {answer for _, answer in shop.answers} == {False}
    assert (await memory.run(shop.agent(new), run_id="another", goal="go", check=True)).status == "waiting"
    assert shop.answers[-1] == ("check", True)


async def test_a_request_for_a_permission_counts(memory: Stage) -> None:
    """Its call is not recorded yet, and must stay where it is all the same."""
    shop = Shop()

    async def old(run: Any) -> None:
        run.finish(await shop.pay("rent"))

    async def new(run: Any) -> None:
        if shop.since(run, "check"):
            await shop.act("check")
        run.finish(await shop.pay("rent"))

    waiting = await memory.run(shop.agent(old))
    again = await memory.run(shop.agent(new))
    assert [one.id for one in again.approvals] == [one.id for one in waiting.approvals]
    async with memory.runtime(shop.agent(new)) as place:
        found = await place.preflight()
    assert found.forecasts[0].voided == ()
    assert found.forecasts[0].notes == ("keeps to the old way of marker 'check'",)
    assert shop.answers[-1] == ("check", False)


async def test_a_marker_may_be_taken_out(memory: Stage) -> None:
    """Once no old step is left, the code that asks can go: nobody misses the answer."""
    shop = Shop()

    async def new(run: Any) -> None:
        if shop.since(run, "check"):
            await shop.act("check")
        run.finish(await run.wait("go"))

    async def later(run: Any) -> None:
        await shop.act("check")
        run.finish(await run.wait("go"))

    await memory.run(shop.agent(new))
    assert (await go(memory, shop.agent(later))).unwrap() == "gone"
    assert len(shop.world) == 1


@pytest.mark.parametrize("name", ["", "two words", "x" * 81, 7])
async def test_a_name_that_is_none(memory: Stage, name: Any) -> None:
    """It is refused where it is asked."""

    async def step(run: Any) -> None:
        with pytest.raises(BadArguments, match="a marker's name"):
            run.since(name)
        run.finish()

    (await memory.run(Shop().agent(step))).unwrap()


def _step(shop: Shop, plan: list[tuple[str, str]], inserted: dict[int, str]) -> Any:
    """A step that does what the plan says; before place `n` what is inserted there, behind a marker."""

    async def one(run: Any, kind: str, name: str) -> None:
        if kind == "act":
            await shop.act(name)
        elif kind == "wait":
            await run.sleep(0.001)
        elif kind == "draw":
            run.random()
        else:
            await run.gather(shop.act(f"{name} left"), shop.act(f"{name} right"))

    async def step(run: Any) -> None:
        for place, (kind, name) in enumerate(plan):
            if place in inserted and shop.since(run, inserted[place]):
                await shop.act(inserted[place])
            await one(run, kind, name)
        run.finish("done")

    return step


@pytest.mark.parametrize("seed", range(60))
async def test_any_insertion_behind_a_marker_is_safe(memory: Stage, seed: int) -> None:
    """Whatever was recorded when the code changed, and wherever it dies after that: nothing diverges, nothing
    is acted twice, and no execution of the step is answered otherwise than another.
    """
    chance, shop = random.Random(seed), Shop()
    plan = [
        (chance.choice(["act", "wait", "draw", "both"]), f"a{number}")
        for number in range(chance.randint(2, 6))
    ]
    inserted = {place: f"m{place}" for place in range(len(plan)) if chance.random() < 0.5}
    old, new = shop.agent(_step(shop, plan, {})), shop.agent(_step(shop, plan, inserted))
    await _some(memory, old, chance)
    before = await memory.record()
    begun = bool(before.calls or before.waits)
    for _ in range(3):
        await _some(memory, new, chance)
    ended = await memory.run(new)
    assert not isinstance(ended, Held), (seed, plan, inserted, ended)
    assert ended.unwrap() == "done"
    answers = dict(shop.answers)
    assert all(answers[marker] is answer for marker, answer in shop.answers), (seed, shop.answers)
    if not begun:
        assert all(answers.values()), (seed, answers)
    wanted = [*(name for _, name in plan), *(name for name, new_way in answers.items() if new_way)]
    told = {name.split()[0] for name in map(_told, shop.world.acts)}
    kinds = {name: kind for kind, name in plan}
    assert told == {name for name in wanted if kinds.get(name, "act") in ("act", "both")}, seed
    assert len({act.key for act in shop.world.acts}) == len({act.args for act in shop.world.acts}), seed
    await memory.blameless(shop.world)


def _told(act: Any) -> str:
    from perdure import codec

    told: str = codec.decode(bytes.fromhex(act.reply))
    return told


async def _some(stage: Stage, agent: Agent[Any, Any, Any], chance: random.Random) -> None:
    """Drive the run, and perhaps die somewhere."""
    point, hit = chance.choice(POINTS), chance.randint(1, 3)
    try:
        await stage.crash(agent, point, hit)
    except AssertionError:  # that place was not reached so often
        stage.clock.advance(LEASE + 1)
