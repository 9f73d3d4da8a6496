"""Whole histories against today's code: what is a difference, what is none, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from perdure import Agent, Approval, DeployPolicy, Personal, Principal, Retry, Runtime, Secret, fact, tool
from perdure.errors import NoSuchRun, NotServed
from perdure.journal import history
from perdure.store.memory import MemoryStore
from perdure.timeline.replayed import Difference, Replayed
from perdure.timeline.replays import replay

Make = Callable[..., Agent[Any, Any, Any]]
Drive = Callable[[Runtime], Any]


async def go(place: Runtime) -> None:
    """Nothing more than the first run."""


async def _replayed(was: Agent[Any, Any, Any], now: Agent[Any, Any, Any], drive: Drive) -> Replayed:
    store = MemoryStore()
    async with Runtime(store, [was]) as place:
        await place.run(was, "r", "goal", patience=timedelta(0), check=False)
        await drive(place)
    before = list(store._runs["r"].events)
    async with Runtime(store, [now]) as place:
        found = await place.replay("r", seconds=0.5)
    assert store._runs["r"].events == before
    return found


def replayed(was: Agent[Any, Any, Any], now: Agent[Any, Any, Any], drive: Drive = go) -> Replayed:
    """A run that one agent has made, replayed by another one."""
    return asyncio.run(_replayed(was, now, drive))


def difference(was: Agent[Any, Any, Any], now: Agent[Any, Any, Any], drive: Drive = go) -> Difference:
    """The first difference, which there must be."""
    found = replayed(was, now, drive).difference
    assert found is not None
    assert found.detail
    return found


@tool(effect="read")
async def look(at: int) -> str:
    """Read."""
    return f"page {at}"


@tool(effect="irreversible")
async def pay(cents: int) -> str:
    """Act."""
    return f"paid {cents}"


def clerk(
    step: Callable[[Any], Any],
    *,
    start: Callable[[str], Any] = lambda goal: {"log": []},
    **options: Any,
) -> Agent[Any, Any, Any]:
    """An agent with this step, which may look and pay."""
    given: dict[str, Any] = {"state": dict, "tools": [look, pay]} | options
    agent: Agent[Any, Any, Any] = Agent("clerk", start=start, **given)
    agent.step(step)
    return agent


async def plain(run: Any) -> None:
    """Three steps of a read and an act."""
    log = run.state["log"]
    log.append(await look(len(log)))
    log.append(await pay(len(log)))
    if len(log) == 6:
        run.finish(len(log))


def test_every_step_is_executed_and_given_what_its_calls_came_to() -> None:
    found = replayed(clerk(plain), clerk(plain))
    assert (found.verdict, found.steps, found.calls, found.status) == ("same", 3, 6, "succeeded")
    assert found.told() == "run r: 3 steps, no difference"


def test_the_first_difference_is_told_and_no_echo_of_it() -> None:
    async def other(run: Any) -> None:
        log = run.state["log"]
        log.append(await look(len(log)))
        log.append(await pay(len(log) + (len(log) > 2)))
        if len(log) == 6:
            run.finish(len(log))

    found = difference(clerk(plain), clerk(other))
    assert (found.aspect, found.step, found.path) == ("call", 2, "2:1")
    assert (found.recorded, found.now) == ("pay(cents=3)", "pay(cents=4)")
    assert found.place.startswith(f"{__file__}:")
    assert found.digests[0] != found.digests[1]


def test_a_call_that_is_no_longer_made() -> None:
    async def other(run: Any) -> None:
        log = run.state["log"]
        log += ["page", "paid"]
        if len(log) == 6:
            run.finish(len(log))

    found = difference(clerk(plain), clerk(other))
    assert (found.aspect, found.path, found.recorded, found.now) == ("call", "1:0", "look(at=0)", "nothing")
    assert found.place.startswith(f"{__file__}:")


def test_a_call_that_is_new() -> None:
    async def other(run: Any) -> None:
        await plain(run)
        await look(99)

    found = difference(clerk(plain), clerk(other))
    assert (found.aspect, found.path, found.recorded, found.now) == ("call", "1:2", "nothing", "look(at=99)")


def test_another_state() -> None:
    async def other(run: Any) -> None:
        await plain(run)
        run.state["log"][-1] = run.state["log"][-1].upper()

    found = difference(clerk(plain), clerk(other))
    assert (found.aspect, found.step, found.path) == ("state", 1, "")
    assert (found.recorded, found.now) == ("$.state['log'][1] = 'paid 1'", "$.state['log'][1] = 'PAID 1'")
    assert found.place.startswith(f"{__file__}:")


def test_another_end() -> None:
    async def other(run: Any) -> None:
        await plain(run)
        if len(run.state["log"]) == 6:
            run.finish("six")

    found = difference(clerk(plain), clerk(other))
    assert (found.aspect, found.step) == ("ending", 3)
    assert found.recorded == "ends it as succeeded with 6"
    assert found.now == "ends it as succeeded with 'six'"

    async def fails(run: Any) -> None:
        await plain(run)
        if len(run.state["log"]) == 6:
            run.fail("no")

    assert difference(clerk(plain), clerk(fails)).now.startswith("ends it as failed with")


def test_where_an_error_came_from_is_no_difference() -> None:
    """The same code some lines further down, or in another file."""

    async def fails(run: Any) -> None:
        await look(0)
        try:
            raise ValueError("no")
        except ValueError as error:
            run.fail(error)

    async def fails_elsewhere(run: Any) -> None:
        await look(0)
        try:
            raise ValueError("no")
        except ValueError as error:
            run.fail(error)

    found = replayed(clerk(fails), clerk(fails_elsewhere))
    assert (found.verdict, found.status) == ("same", "failed"), found.told()


def test_an_end_that_comes_too_early() -> None:
    async def other(run: Any) -> None:
        await plain(run)
        run.finish(6)

    found = difference(clerk(plain), clerk(other))
    assert (found.aspect, found.step, found.recorded) == ("ending", 1, "goes on with the run")


def test_an_error_with_its_line() -> None:
    async def other(run: Any) -> None:
        await plain(run)
        raise ValueError("two\nlines")

    found = difference(clerk(plain), clerk(other))
    assert (found.aspect, found.now) == ("error", "raises ValueError: two lines")
    assert found.place.startswith(f"{__file__}:")


def test_another_start_and_one_that_is_never_the_same() -> None:
    found = difference(clerk(plain), clerk(plain, start=lambda goal: {"log": [], "prompt": "kind"}))
    assert (found.aspect, found.step, found.seq) == ("start", 0, 1)
    assert found.now == "$.state['prompt'] = 'kind'"

    counter = iter(range(100))
    again = replayed(clerk(plain), clerk(plain, start=lambda goal: {"log": [], "n": next(counter)}))
    assert again.verdict == "same"
    assert "not compared" in again.notes[0]

    def broken(goal: str) -> Any:
        raise KeyError(goal)

    assert difference(clerk(plain), clerk(plain, start=broken)).now == "raises KeyError: 'goal'"


def test_a_step_that_never_ends() -> None:
    async def other(run: Any) -> None:
        if run.state["log"]:
            await asyncio.sleep(3600)
        await plain(run)

    found = difference(clerk(plain), clerk(other))
    assert (found.aspect, found.step, found.now) == ("hangs", 2, "no end within 0.5 s")


# ------------------------------------------------------------------------------------------ no difference


def test_what_a_tool_does_inside_is_none() -> None:
    @tool(effect="idempotent", name="pay", retry=Retry(attempts=3, backoff=0.1), timeout=timedelta(seconds=1))
    async def pay_otherwise(cents: int) -> str:
        raise AssertionError("never called")

    async def other(run: Any) -> None:
        log = run.state["log"]
        log.append(await look(len(log)))
        log.append(await pay_otherwise(len(log)))
        if len(log) == 6:
            run.finish(len(log))

    assert replayed(clerk(plain), clerk(other, tools=[look, pay_otherwise])).ok


def test_a_renamed_tool_is_none_if_the_policy_says_so() -> None:
    @tool(effect="irreversible")
    async def charge(cents: int) -> str:
        raise AssertionError("never called")

    async def other(run: Any) -> None:
        log = run.state["log"]
        log.append(await look(len(log)))
        log.append(await charge(len(log)))
        if len(log) == 6:
            run.finish(len(log))

    told = DeployPolicy(renamed={"pay": "charge"})
    assert replayed(clerk(plain), clerk(other, tools=[look, charge], on_change=told)).ok
    found = difference(clerk(plain), clerk(other, tools=[look, charge]))
    assert (found.recorded, found.now) == ("pay(cents=1)", "charge(cents=1)")


def test_code_behind_a_marker_that_came_later_is_none() -> None:
    async def other(run: Any) -> None:
        if run.since("audit"):
            await look(99)
        await plain(run)

    assert replayed(clerk(plain), clerk(other)).ok
    assert replayed(clerk(other), clerk(other)).ok  # and where it was there from the start


def test_a_field_that_came_later_with_a_default_is_none() -> None:
    @dataclass
    class Old:
        log: list[str] = field(default_factory=list)

    @dataclass
    class New:
        log: list[str] = field(default_factory=list)
        seen: int = 0

    async def step(run: Any) -> None:
        run.state.log.append(await look(len(run.state.log)))
        if len(run.state.log) == 3:
            run.finish(3)

    was = clerk(step, state=Old, start=lambda goal: Old())
    assert replayed(was, clerk(step, state=New, start=lambda goal: New())).ok

    async def counts(run: Any) -> None:
        await step(run)
        run.state.seen += 1

    found = difference(was, clerk(counts, state=New, start=lambda goal: New()))
    assert (found.aspect, found.step) == ("state", 1)


def test_a_result_that_no_longer_fits_is_one() -> None:
    @tool(effect="read", name="look")
    async def look_number(at: int) -> int:
        return at

    async def other(run: Any) -> None:
        run.state["log"].append(await look_number(len(run.state["log"])))

    found = difference(clerk(plain), clerk(other, tools=[look_number, pay]))
    assert (found.aspect, found.path) == ("call", "1:0")
    assert found.recorded == "a result of look: 'page 0'"
    assert found.now.startswith("it no longer fits:")


# ------------------------------------------------------------------------------------------------- migrations


def test_old_steps_are_executed_with_their_state_migrated() -> None:
    async def new(run: Any) -> None:
        log = run.state["pages"]
        log.append(await look(len(log)))
        log.append(await pay(len(log)))
        if len(log) == 6:
            run.finish(len(log))

    def now(step: Callable[[Any], Any] = new) -> Agent[Any, Any, Any]:
        agent = clerk(step, start=lambda goal: {"pages": []}, state_version=2)

        @agent.migration(1)
        def rename(state: dict[str, Any]) -> dict[str, Any]:
            return {"pages": state["log"]}

        return agent

    assert replayed(clerk(plain), now()).ok

    async def other(run: Any) -> None:
        await new(run)
        run.state["pages"][-1] = "other"

    found = difference(clerk(plain), now(other))
    assert (found.aspect, found.recorded) == ("state", "$.state['pages'][1] = 'paid 1'")


def test_steps_without_a_way_to_today_are_left_out_and_told() -> None:
    agent = clerk(plain, state_version=3)

    @agent.migration(2)
    def same(state: dict[str, Any]) -> dict[str, Any]:
        return state

    found = replayed(clerk(plain), agent)
    assert found.ok
    assert found.steps == 0
    assert found.notes == ("steps with state version 1 have no way to today's: not replayed",)


def test_a_state_from_newer_code_is_refused() -> None:
    found = replayed(clerk(plain, state_version=2), clerk(plain))
    assert found.verdict == "refused"
    assert found.refused.startswith("[M303]")
    assert found.told().startswith("run r cannot be replayed: [M303]")


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
