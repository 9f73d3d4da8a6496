"""What why and lists say of families: each points to the others."""

from __future__ import annotations

from typing import Any

from perdure.agent import Agent
from perdure.clock import SYSTEM
from perdure.host import Runtime
from perdure.journal import load
from perdure.store.memory import MemoryStore
from perdure.timeline.condition import condition, note_of
from perdure.timeline.reason import Why, why


def family(*, broken: bool) -> tuple[Any, Any]:
    """A parent, and a child that has a bug or sleeps for very long; the parent does not list it."""
    child: Agent[Any, Any, Any] = Agent("child", state=dict, start=lambda goal: {})

    @child.step
    async def step(run: Any) -> None:
        if broken:
            raise KeyError("a bug")
        await run.sleep(1_000_000)

    parent: Agent[Any, Any, Any] = Agent("parent", state=dict, start=lambda goal: {})

    @parent.step
    async def spawn(run: Any) -> None:
        run.finish(await run.spawn(child, "go"))

    return parent, child


async def answers(store: MemoryStore, *, created: bool = True) -> tuple[Why, Why]:
    """What why says of the parent and of the child."""
    told = []
    child = await store.row("p.1:0")
    for run_id, children in (("p", [child] if created else []), ("p.1:0", [])):
        past = await load(store, run_id)
        note = note_of(past.row)
        told.append(why(past.row, past.record, store.now(), inbox=past.inbox, note=note, children=children))
    return told[0], told[1]


def fact(answer: Why, label: str) -> str:
    """The text of one line."""
    return next(one.text for one in answer.facts if one.label == label)


async def test_a_parent_says_how_its_child_stands_and_the_child_whose_it_is() -> None:
    """It needs no person itself; the command that says more is there."""
    store = MemoryStore(clock=SYSTEM)
    made, child = family(broken=True)
    async with Runtime(store, [made, child]) as place:
        await place.run(made, "p", "go")
        parent, told = await answers(store)
        assert parent.headline.startswith("It waits for its children: child run 'p.1:0'")
        assert fact(parent, "child").startswith("p.1:0 (child) is held: step-error")
        assert any(remedy.startswith("perdure why p.1:0") for remedy in parent.remedies)
        assert fact(told, "parent") == "p spawned it at 1:0, and is told of its end"
        row = await store.row("p")
        assert condition(row, store.now(), note=note_of(row)).needs == "nothing"


async def test_a_child_that_nobody_serves_is_said_to_need_a_worker() -> None:
    """And one that a crash kept from being created is said not to be there yet."""
    store = MemoryStore(clock=SYSTEM)
    made, _ = family(broken=False)
    async with Runtime(store, [made], workers=1) as place:
        await place.start(made, "p", "go")
        seen = 0
        while (await store.row("p")).status != "waiting":
            seen = await store.changed(seen, 1.0)
        parent, _ = await answers(store)
        assert fact(parent, "child").startswith("p.1:0 (child) is ready: no worker that serves agent child")
        unborn, _ = await answers(store, created=False)
        assert "is not created yet" in fact(unborn, "child")
