"""A run that is forked, and how it looks afterwards: what the tests of forks share."""

from __future__ import annotations

from typing import Any

import perdure
from perdure.agent import Finished, current_call
from perdure.journal import gathered
from perdure.state import events as e
from perdure.timeline.change import Change
from perdure.timeline.fork import Fork
from tests.unit.runtime.stage import RUN, Stage, World

FORK = "fork-1"


class Desk:
    """Reads a price, asks a model, pays, mails: one call a step. `world` sees what acts, `reads` the rest."""

    def __init__(self, **options: Any) -> None:
        self.world = World()
        self.reads: list[tuple[str, str]] = []
        self.models: list[str | None] = []
        world, reads, models = self.world, self.reads, self.models

        @perdure.tool(effect="read")
        async def price(item: str) -> int:
            reads.append((current_call().run_id, item))
            return 700

        @perdure.model("small")
        async def think(question: str) -> str:
            models.append(current_call().model)
            return f"{question}!"

        @perdure.tool(effect="irreversible")
        async def pay(item: str, cents: int) -> str:
            return str(world.act(f"paid {item} {cents}"))

        @perdure.tool(effect="idempotent")
        async def mail(text: str) -> str:
            return str(world.act(f"mailed {text}"))

        async def step(run: Any) -> None:
            state = run.state
            if "cents" not in state:
                state["cents"] = await price(state["item"])
            elif "plan" not in state:
                state["plan"] = await think(f"pay {state['cents']}?")
            elif "paid" not in state:
                state["paid"] = await pay(state["item"], state["cents"])
            else:
                await mail(state["paid"])
                run.finish(state["paid"])

        self.price, self.pay, self.mail = price, pay, mail
        start = lambda goal: {"item": goal}  # noqa: E731
        tools: Any = [price, pay, mail, think]
        self.agent: Any = perdure.Agent("tester", state=dict, goal=str, start=start, tools=tools, **options)
        self.agent.step(step)

    def acts(self, run_id: str) -> list[str]:
        """What was done for a run."""
        return [self.world.find(act.key) for act in self.world.acts if act.run_id == run_id]


async def point(stage: Stage, number: int, run_id: str = RUN) -> int:
    """The event that committed this step."""
    for event in await stage.events(run_id):
        if isinstance(event.body, e.StepCommitted) and event.body.number == number:
            return event.seq
    raise AssertionError(f"step {number} is not committed")


async def receipt(stage: Stage, path: str) -> int:
    """The event that settled this call."""
    (seq,) = [
        event.seq
        for event in await stage.events()
        if isinstance(event.body, e.CallSettled) and event.body.path == path
    ]
    return seq


async def bytes_of(stage: Stage, run_id: str = RUN) -> Any:
    """Everything that is stored of a run."""
    row = await stage.store.row(run_id)
    return await gathered(stage.store, run_id, row.seq), row, await stage.store.inbox(run_id)


async def forked(stage: Stage, desk: Desk | None, at: int | None, change: Change, **options: Any) -> Fork:
    """Fork the run, without its code at hand; the run is the same to the byte afterwards."""
    before = await bytes_of(stage)
    async with stage.runtime() as place:
        made = await place.fork(RUN, at, change, id=FORK, by="ada", **options)
    assert await bytes_of(stage) == before
    return made


async def carried(stage: Stage, desk: Desk, run_id: str = FORK) -> Any:
    """Carry a run on as far as it goes."""
    async with stage.runtime(desk.agent) as place:
        return await place.resume(run_id)


async def ended(stage: Stage, desk: Desk) -> int:
    """A run that has ended; gives the point before it paid."""
    assert isinstance(await stage.run(desk.agent, "book"), Finished)
    return await point(stage, 2)
