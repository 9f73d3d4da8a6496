"""Replays of what people, time, children, forks and compaction have made of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from perdure import Agent, Approval, Personal, Principal, Runtime, Secret, fact, tool
from perdure.errors import NoSuchRun, NotServed
from perdure.journal import history
from perdure.store.memory import MemoryStore
from perdure.timeline.replayed import Replayed
from perdure.timeline.replays import replay
from tests.unit.timeline.clerks import clerk, difference, look, pay, plain, replayed

# ------------------------------------------------------------------------- what people and time have done


async def asks(run: Any) -> None:
    """It asks a person, waits for a signal, sleeps, and gathers."""
    answer = await run.ask("how much?", int)
    await run.sleep(0)
    went, page = await run.gather(run.wait("go", str), look(answer))
    run.state["log"] += [answer, went, page, str(run.now()), run.new_id()]
    run.finish(answer)


async def answered(place: Runtime) -> None:
    """A person answers, somebody signals."""
    await place.answer("r", 7, by="ada")
    await place.signal("r", "go", "went", id="1")
    await place.resume("r", patience=timedelta(0), check=False)


def test_answers_signals_sleeps_and_draws_are_served() -> None:
    found = replayed(clerk(asks), clerk(asks), answered)
    assert (found.verdict, found.status, found.steps) == ("same", "succeeded", 1)

    async def other(run: Any) -> None:
        await run.ask("how little?", int)

    found_now = difference(clerk(asks), clerk(other), answered)
    assert (found_now.path, found_now.aspect) == ("1:0", "call")
    assert "how much?" in found_now.recorded
    assert "how little?" in found_now.now


def test_an_open_run_is_replayed_as_far_as_it_has_come() -> None:
    found = replayed(clerk(asks), clerk(asks))
    assert (found.verdict, found.status, found.steps) == ("same", "waiting", 1)


def test_arguments_that_a_person_has_edited_are_what_was_asked_for() -> None:
    def agent(cents: int) -> Agent[Any, Any, Any]:
        asked = pay.replace(approval=Approval(expires=timedelta(hours=1)))

        async def step(run: Any) -> None:
            run.finish(await asked(cents))

        return clerk(step, tools=[asked])

    async def approve(place: Runtime) -> None:
        held = await place.outcome("r")
        [request] = held.approvals  # type: ignore[union-attr]
        await place.approve(request.id, by=Principal("ada"), edit={"cents": 3})
        await place.resume("r", check=False)

    assert replayed(agent(5), agent(5), approve).ok
    found = difference(agent(5), agent(6), approve)
    assert (found.recorded, found.now) == ("pay(cents=5)", "pay(cents=6)")


def test_a_verdict_of_a_person_is_served() -> None:
    @tool(effect="irreversible")
    async def send(to: str) -> str:
        raise ConnectionError("no reply")

    async def step(run: Any) -> None:
        run.finish(await send("ada"))

    async def settle(place: Runtime) -> None:
        await place.resolve("r", "1:0", by="ada", done="sent")
        await place.resume("r", check=False)

    found = replayed(clerk(step, tools=[send]), clerk(step, tools=[send]), settle)
    assert (found.verdict, found.status) == ("same", "succeeded")


def test_a_cancelled_run_is_replayed_up_to_its_cancel() -> None:
    async def cancel(place: Runtime) -> None:
        await place.cancel("r", by="ada", note="enough")
        await place.resume("r", check=False)

    found = replayed(clerk(asks), clerk(asks), cancel)
    assert (found.verdict, found.status, found.steps) == ("same", "cancelled", 1)


def test_a_step_that_raised_may_be_mended() -> None:
    async def broken(run: Any) -> None:
        await look(0)
        raise ValueError("broken")

    async def mended(run: Any) -> None:
        run.finish(await look(0))

    assert replayed(clerk(broken), clerk(broken)).ok
    found = replayed(clerk(broken), clerk(mended))
    assert found.ok
    assert found.notes == ("its open step no longer raises",)


def test_an_open_step_that_raises_before_its_record_ends_is_a_difference() -> None:
    async def other(run: Any) -> None:
        raise ValueError("new")

    assert difference(clerk(asks), clerk(other)).aspect == "error"


# ---------------------------------------------------------------------------------------- children and loops


def test_children_are_replayed_by_their_own_agents() -> None:
    child: Agent[Any, Any, Any] = Agent("child", state=dict, start=lambda goal: {"goal": goal})

    @child.step
    async def work(run: Any) -> None:
        run.finish(run.state["goal"] + "!")

    def parent(goal: str) -> Agent[Any, Any, Any]:
        async def step(run: Any) -> None:
            run.finish(await run.spawn(child, goal))

        return clerk(step, tools=[child.as_tool("child", "Works.")])

    assert replayed(parent("one"), parent("one")).ok
    found = difference(parent("one"), parent("two"))
    assert (found.recorded, found.now) == ("a child of child for 'one'", "spawns child for 'two'")

    async def all_of_it() -> list[str]:
        async with Runtime(MemoryStore(), [parent("one")]) as place:
            await place.run(parent("one"), "p", "goal", check=False)
            found = await place.replay_all()
            return [one.told() for one in found.runs]

    assert sorted(asyncio.run(all_of_it())) == [
        "run p.1:0: 1 steps, no difference",
        "run p: 1 steps, no difference",
    ]


def test_the_tool_loop_without_a_step() -> None:
    def desk(answer: str) -> Agent[Any, Any, Any]:
        agent: Agent[Any, Any, Any] = Agent("clerk", tools=[look])

        @agent.model("gpt")
        async def chat(messages: list[Any]) -> dict[str, Any]:
            if len(messages) > 1:
                return {"role": "assistant", "content": answer}
            call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 3}'}}
            return {"role": "assistant", "content": None, "tool_calls": [call]}

        return agent

    found = replayed(desk("done"), desk("never said"))
    assert (found.verdict, found.steps, found.calls, found.status) == ("same", 2, 3, "succeeded")


def test_facts_and_their_premises_are_served() -> None:
    reads: list[str] = []

    @fact(fresh_for=timedelta(minutes=1))
    async def order(order_id: str) -> str:
        reads.append(order_id)
        return "open"

    @tool(effect="irreversible", premises=[order])
    async def refund(order_id: str) -> str:
        return "refunded"

    async def step(run: Any) -> None:
        run.finish(await order("o-1") + await refund("o-1"))

    found = replayed(clerk(step, tools=[order, refund]), clerk(step, tools=[order, refund]))
    assert found.ok
    assert len(reads) == 1


# ------------------------------------------------------------------------------------------------- refused


def test_what_is_not_there_or_not_served() -> None:
    async def main() -> None:
        from perdure.clock import SYSTEM

        store = MemoryStore()
        async with Runtime(store, [clerk(plain)]) as place:
            await place.run(clerk(plain), "r", "goal", check=False)
            with pytest.raises(NoSuchRun):
                await place.replay("q")
            with pytest.raises(NotServed, match="run r was made by agent clerk; this code has none"):
                await replay(store, [], SYSTEM, "r")

    asyncio.run(main())


# ------------------------------------------------------------------------- secrets, personal data, compaction


@dataclass
class Case:
    """A customer."""

    name: Personal[str]
    letters: list[str] = field(default_factory=list)


def test_secrets_and_personal_data_are_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POST_KEY", "sk-live-0123456789")
    key: Secret[str] = Secret("POST_KEY")

    @tool(effect="idempotent")
    async def post(to: Personal[str], key: Secret[str] = key) -> str:
        return f"sent {len(key.reveal())}"

    async def step(run: Any) -> None:
        run.state.letters.append(await post(run.state.name))
        run.state.name = Personal(run.state.name.reveal() + "!")
        if len(run.state.letters) == 2:
            run.finish(run.state.letters[0])

    def agent(step: Callable[[Any], Any]) -> Agent[Any, Any, Any]:
        return clerk(step, state=Case, start=lambda goal: Case(Personal(goal)), tools=[post])

    found = replayed(agent(step), agent(step))
    assert found.ok, found.told()
    assert found.status == "succeeded"
    monkeypatch.delenv("POST_KEY")
    assert replayed(agent(step), agent(step)).status == "held"

    async def other(run: Any) -> None:
        await step(run)
        run.state.name = Personal("Eve")

    monkeypatch.setenv("POST_KEY", "sk-live-0123456789")
    told = replayed(agent(step), agent(other))
    assert told.difference is not None
    assert told.difference.aspect == "state"
    assert "Eve" not in told.told()


def test_a_run_whose_personal_data_was_erased_is_refused() -> None:
    async def step(run: Any) -> None:
        await look(len(run.state.name.reveal()))
        run.finish("done")

    async def main() -> Replayed:
        agent = clerk(step, state=Case, start=lambda goal: Case(Personal(goal)))
        async with Runtime(MemoryStore(), [agent]) as place:
            await place.run(agent, "r", "Ada", check=False)
            assert (await place.replay("r")).ok
            await place.erase("r")
            return await place.replay("r")

    found = asyncio.run(main())
    assert found.verdict == "refused"
    assert found.refused.startswith("[K604] the personal data of run r was erased")


def test_a_compacted_run_is_replayed_from_where_it_is_whole() -> None:
    async def open_step(run: Any) -> None:
        log = run.state["log"]
        log.append(await look(len(log)))
        if len(log) > 2:
            await run.wait("go")

    async def main(now: Callable[[Any], Any]) -> Replayed:
        store = MemoryStore()
        async with Runtime(store, [clerk(open_step)]) as place:
            await place.run(clerk(open_step), "r", "goal", patience=timedelta(0), check=False)
            await place.compact("r")
        async with Runtime(store, [clerk(now)]) as place:
            return await place.replay("r")

    found = asyncio.run(main(open_step))
    assert (found.verdict, found.steps) == ("same", 1)
    assert found.notes == ("its events up to 5 were taken away: replayed from step 3 on",)

    async def other(run: Any) -> None:
        await look(99)

    found = asyncio.run(main(other))
    assert found.difference is not None
    assert (found.difference.step, found.difference.recorded) == (3, "look(at=2)")


def test_a_fork_is_replayed_its_origins_steps_under_the_origins_id() -> None:
    """Also in the step in which its origin's child had ended: the child is told by its agent and goal."""
    child: Agent[Any, Any, Any] = Agent("child", state=dict, goal=int, start=lambda goal: {"n": goal})

    @child.step
    async def work(run: Any) -> None:
        run.finish(run.state["n"] * 2)

    async def step(run: Any) -> None:
        log = run.state["log"]
        if not log:
            log.append(run.id)
            log.append(await pay(len(run.id)))
            return
        log.append(await run.spawn(child, len(log)))
        log.append(await look(len(log)))
        run.finish(len(log))

    async def main() -> None:
        agent = clerk(step)
        async with Runtime(MemoryStore(), [agent]) as place:
            await place.run(agent, "r", "goal", check=False)
            closed = [event.seq for event in await history(place.store, "r") if event.kind == "wait.closed"]
            fork = await place.fork("r", closed[0], effects="redo", id="another-run")
            outcome = await place.resume(fork.run_id, check=False)
            assert outcome.status == "succeeded", outcome
            found = await place.replay("another-run")
            assert found.ok, found.told()
            assert found.steps == 2
            simulated = await place.simulate("another-run")
            assert simulated.same, simulated
            assert simulated.at == closed[0] + 1

    asyncio.run(main())
