"""A fork: a new run from a point of another one, with one input changed; the other one is not touched."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import perdure
from perdure.agent import Finished, Held, Waiting, current_call
from perdure.errors import (
    BadPoint,
    EventsPruned,
    ForkRefused,
    NoSuchRun,
    NothingToResolve,
    OtherFork,
    ShapeMismatch,
)
from perdure.journal import retold, verify
from perdure.state import events as e
from perdure.state.fork import own_events
from perdure.timeline.change import Change
from perdure.timeline.pruning import named, prune
from tests.unit.runtime.forking import FORK, Desk, carried, ended, forked, point, receipt
from tests.unit.runtime.stage import RUN, Stage, World, agent


async def test_a_fork_goes_on_from_the_point_with_another_state(stage: Stage) -> None:
    desk = Desk()
    assert await stage.run(desk.agent, "book") == Finished("paid book 700", run_id=RUN)
    at = await point(stage, 2)
    made = await forked(stage, desk, at, Change(state={"cents": 70}), effects="redo")
    assert (made.origin, made.at, made.step, made.fresh) == (RUN, at, 2, True)
    assert [(one.place, one.was, one.now) for one in made.changes] == [("cents", 700, 70)]
    assert [(one.name, one.effect, one.value) for one in made.acts] == [
        ("pay", "irreversible", "paid book 700"),
        ("mail", "idempotent", "mailed paid book 700"),
    ]
    assert await carried(stage, desk) == Finished("paid book 70", run_id=FORK)
    assert desk.acts(RUN) == ["paid book 700", "mailed paid book 700"]
    assert desk.acts(FORK) == ["paid book 70", "mailed paid book 70"]
    assert len(set(desk.world.keys)) == 4
    assert [one for one, _ in desk.reads] == [RUN], "what was recorded before the point is not read again"
    await stage.blameless(desk.world, run_id=FORK)


# ------------------------------------------------------------------------------------------- effects


async def test_what_the_origin_did_is_asked_about_before_it_is_done_again(stage: Stage) -> None:
    desk = Desk()
    made = await forked(stage, desk, await ended(stage, desk), Change())
    assert [one.in_fork for one in made.acts] == ["asked", "asked"]
    held = await carried(stage, desk)
    assert isinstance(held, Held)
    assert held.reason == "origin-acted"
    assert "run-1 has made the same (call 3:0): 'paid book 700'" in held.detail
    words = held.remedies[0].split()
    assert words[1] == "effect"
    assert words[words.index(FORK) :][:3] == [FORK, "3:0", "--reuse"]
    assert desk.acts(FORK) == []
    async with stage.runtime() as place:
        assert await place.decide_effect(FORK, None, "reuse", by="ada", note="it is paid") == "3:0"
    held = await carried(stage, desk)
    assert isinstance(held, Held)
    assert "mail (4:0, idempotent)" in held.detail
    async with stage.runtime(desk.agent) as place:
        await place.decide_effect(FORK, "4:0", "act", by="ada")
        assert await place.resume(FORK) == Finished("paid book 700", run_id=FORK)
    assert desk.acts(FORK) == ["mailed paid book 700"]
    kinds = await stage.kinds(FORK)
    assert kinds.count("effect.asked") == kinds.count("effect.decided") == 2
    assert not [
        one for one in await stage.bodies(e.CallIntended, FORK) if one.path == "3:0" and one.key == ""
    ]
    await stage.blameless(desk.world, run_id=FORK)


async def test_a_call_with_other_arguments_is_asked_about_too_and_says_so(stage: Stage) -> None:
    """A fork that pays less than its origin has paid would pay twice all the same."""
    desk = Desk()
    await forked(stage, desk, await ended(stage, desk), Change(state={"cents": 70}))
    held = await carried(stage, desk)
    assert isinstance(held, Held)
    assert "one of it with other arguments (call 3:0)" in held.detail
    async with stage.runtime(desk.agent) as place:
        await place.decide_effect(FORK, None, "simulate", by="ada", result="as if paid")
        outcome = await place.resume(FORK)
    assert isinstance(outcome, Held)  # the mail has other words as well
    assert desk.acts(FORK) == []
    assert (await stage.state(FORK))["paid"] == "as if paid"


async def test_simulated_effects_send_nothing(stage: Stage) -> None:
    desk = Desk()
    made = await forked(stage, desk, await ended(stage, desk), Change(), effects="simulate")
    assert [one.in_fork for one in made.acts] == ["stands in", "stands in"]
    assert await carried(stage, desk) == Finished("paid book 700", run_id=FORK)
    assert desk.acts(FORK) == []
    assert [one.by for one in await stage.bodies(e.EffectDecided, FORK)] == ["effects", "effects"]
    await stage.blameless(desk.world, run_id=FORK)


async def test_simulated_effects_hold_what_the_origin_did_not_do(stage: Stage) -> None:
    desk = Desk()
    await forked(stage, desk, await ended(stage, desk), Change(state={"cents": 70}), effects="simulate")
    held = await carried(stage, desk)
    assert isinstance(held, Held)
    assert "other arguments" in held.detail
    async with stage.runtime(desk.agent) as place:
        with pytest.raises(ShapeMismatch, match="none that pay returns"):
            await place.decide_effect(FORK, None, "simulate", by="ada", result=7)
        await place.decide_effect(FORK, None, "simulate", by="ada", result="stand-in")
        held = await place.resume(FORK)
    assert isinstance(held, Held)
    assert held.detail.startswith("mail (4:0")
    assert desk.acts(FORK) == []


async def test_a_result_that_does_not_fit_is_asked_for_again(stage: Stage) -> None:
    """Whoever answers has no code at hand; the worker that takes it has."""
    desk = Desk()
    await forked(stage, desk, await ended(stage, desk), Change())
    await carried(stage, desk)
    async with stage.runtime() as place:
        await place.decide_effect(FORK, None, "simulate", by="ada", result=7)
    held = await carried(stage, desk)
    assert isinstance(held, Held)
    assert "the result does not fit" in held.detail
    async with stage.runtime() as place:
        await place.decide_effect(FORK, None, "simulate", by="ada", result="seven")
    await carried(stage, desk)
    assert (await stage.state(FORK))["paid"] == "seven"
    assert desk.acts(FORK) == []


async def test_a_decision_counts_once_and_only_where_it_is_asked_for(stage: Stage) -> None:
    desk = Desk()
    await forked(stage, desk, await ended(stage, desk), Change())
    async with stage.runtime() as place:
        with pytest.raises(NothingToResolve, match="has none"):
            await place.decide_effect(FORK, None, "act", by="ada")
    await carried(stage, desk)
    async with stage.runtime(desk.agent) as place:
        await place.decide_effect(FORK, None, "reuse", by="ada")
        await place.decide_effect(FORK, None, "act", by="bob")  # the first one counts
        await place.resume(FORK)
    assert [(one.how, one.by) for one in await stage.bodies(e.EffectDecided, FORK)] == [("reuse", "ada")]
    assert desk.acts(FORK) == []


@pytest.mark.parametrize("boundary", ["effect.asked", "effect.decided", "effect.settled", "run.hold"])
async def test_a_crash_around_a_decision_changes_nothing(stage: Stage, boundary: str) -> None:
    desk = Desk()
    await forked(stage, desk, await ended(stage, desk), Change())

    async def play(place: Any) -> None:
        await place.resume(FORK)
        await place.decide_effect(FORK, "3:0", "reuse", by="ada")
        await place.resume(FORK)

    await stage.crash_in(boundary, play, desk.agent)
    held = await carried(stage, desk)
    assert isinstance(held, Held)
    if "3:0" in held.detail:
        async with stage.runtime() as place:
            await place.decide_effect(FORK, "3:0", "reuse", by="ada")
        held = await carried(stage, desk)
    assert isinstance(held, Held)
    assert "mail (4:0" in held.detail
    assert desk.acts(FORK) == []
    assert (await stage.state(FORK))["paid"] == "paid book 700"


# ------------------------------------------------------------------------------------------- points


@pytest.mark.parametrize("status", ["succeeded", "cancelled", "held", "waiting"])
async def test_runs_in_any_state_are_forked(stage: Stage, status: str) -> None:
    """And what held, ended or cancelled the origin does not hold, end or cancel the fork."""
    steps: list[str] = []
    broken = status == "held"

    @perdure.tool(effect="read")
    async def look(n: int) -> int:
        steps.append(current_call().run_id)
        return n

    async def step(run: Any) -> None:
        log = run.state["log"]
        log.append(await look(len(log)))
        if len(log) == 2 and broken:
            raise ValueError("broken")
        if len(log) == 2 and status in ("waiting", "cancelled"):
            await run.sleep(1_000_000 if run.id == RUN else 0)
        if len(log) >= 3:
            run.finish(log)

    tester = agent(step, look)
    async with stage.runtime(tester) as place:
        await place.run(tester, RUN, "go", patience=timedelta(0))
        if status == "cancelled":
            await place.cancel(RUN, by="bob")
            await place.resume(RUN)
    broken = False
    row = await stage.store.row(RUN)
    assert row.status == status
    made = await forked(stage, None, None, Change(), effects="redo")
    assert made.at == row.seq - (1 if row.terminal else 0)
    async with stage.runtime(tester) as place:
        outcome = await place.resume(FORK)
    expected = [0, 1, 2, 3] if status == "succeeded" else [0, 1, 2]
    assert outcome == Finished(expected, run_id=FORK)
    assert (await stage.record(FORK)).cancel is None
    assert RUN in steps


async def test_points_that_there_are_not(stage: Stage) -> None:
    desk = Desk()
    await ended(stage, desk)
    row = await stage.store.row(RUN)
    for at, error in ((0, BadPoint), (row.seq + 1, BadPoint), (row.seq, ForkRefused)):
        with pytest.raises(error):
            await forked(stage, desk, at, Change())
    with pytest.raises(ForkRefused, match="has ended at event") as refused:
        await forked(stage, desk, row.seq, Change())
    assert f"perdure fork {RUN}@{row.seq - 1}" in refused.value.remedy


async def test_a_run_is_forked_in_the_middle_of_its_step(stage: Stage) -> None:
    """The step is executed again; what it had recorded by then is served."""
    asked: list[str] = []

    @perdure.tool(effect="read")
    async def look(name: str) -> str:
        asked.append(f"{current_call().run_id} {name}")
        return name.upper()

    async def step(run: Any) -> None:
        now = run.now()
        one, two = await run.gather(look("a"), look("b"))
        run.state["log"] = [one, two, await look("c"), str(now)]
        run.finish(run.state["log"])

    tester = agent(step, look)
    first = await stage.run(tester)
    cut = await receipt(stage, "1:1.1.0")
    made = await forked(stage, None, cut, Change())
    assert dict(made.served) == {"1:1.0.0": "look", "1:1.1.0": "look"}
    asked.clear()
    async with stage.runtime(tester) as place:
        outcome = await place.resume(FORK)
    assert isinstance(outcome, Finished)
    assert outcome.result == first.result
    assert asked == [f"{FORK} c"]


# ------------------------------------------------------------------------------------------- what it is


async def test_a_dry_run_writes_nothing(stage: Stage) -> None:
    desk = Desk()
    at = await ended(stage, desk)
    made = await forked(stage, desk, at, Change(state={"cents": 1}), dry_run=True)
    assert (made.dry_run, made.fresh, len(made.acts)) == (True, False, 2)
    with pytest.raises(NoSuchRun):
        await stage.store.row(FORK)


async def test_the_same_fork_twice_is_one(stage: Stage) -> None:
    desk = Desk()
    at = await ended(stage, desk)
    made = await forked(stage, desk, at, Change(state={"cents": 1}))
    again = await forked(stage, desk, at, Change(state={"cents": 1}))
    assert (made.fresh, again.fresh, again.run_id) == (True, False, made.run_id)
    for at_, change in ((at, Change(state={"cents": 2})), (at - 1, Change()), (at, Change())):
        with pytest.raises(OtherFork):
            await forked(stage, desk, at_, change)
    with pytest.raises(OtherFork):
        async with stage.runtime() as place:
            await place.fork(RUN, at, Change(), id=RUN)


async def test_a_fork_is_whole_without_its_origin_and_the_origin_without_it(stage: Stage) -> None:
    desk = Desk()
    at = await ended(stage, desk)
    await forked(stage, desk, at, Change(), effects="simulate")
    plan = await named(stage.store, [RUN])
    assert (await prune(stage.store, plan.rows)).removed == 1
    assert (await verify(stage.store, FORK)).ok
    assert await carried(stage, desk) == Finished("paid book 700", run_id=FORK)
    async with stage.runtime() as place:
        again = await place.fork(FORK, at, Change(), id="fork-2")
    assert [one.run_id for one in again.acts] == [RUN, RUN]
    await prune(stage.store, (await named(stage.store, [FORK])).rows)
    assert (await verify(stage.store, "fork-2")).ok


async def test_a_compacted_run_is_forked_after_what_is_gone(stage: Stage) -> None:
    desk = Desk()
    at = await ended(stage, desk)
    async with stage.runtime() as place:
        await place.compact(RUN, upto=at)
    with pytest.raises(EventsPruned, match="was pruned"):
        await forked(stage, desk, at - 1, Change())
    made = await forked(stage, desk, at, Change(state={"cents": 70}), effects="redo")
    assert [one.name for one in made.acts] == ["pay", "mail"]
    await prune(stage.store, (await named(stage.store, [RUN])).rows)
    assert await carried(stage, desk) == Finished("paid book 70", run_id=FORK)
    async with stage.runtime() as place:
        await place.compact(FORK)
    assert own_events((await retold(stage.store, FORK)).events)[0].kind == "run.forked"


async def test_large_values_are_the_forks_own(stage: Stage) -> None:
    @perdure.tool(effect="read")
    async def fetch() -> str:
        return "x" * 600_000

    async def step(run: Any) -> None:
        if not run.state["log"]:
            run.state["log"].append(await fetch())
        else:
            run.finish(len(run.state["log"][0]))

    tester = agent(step, fetch)
    await stage.run(tester)
    at = await point(stage, 1)
    await forked(stage, None, at, Change())
    await prune(stage.store, (await named(stage.store, [RUN])).rows)
    async with stage.runtime(tester) as place:
        assert await place.resume(FORK) == Finished(600_000, run_id=FORK)


async def test_a_fork_of_a_fork_knows_what_both_have_done(stage: Stage) -> None:
    desk = Desk()
    at = await ended(stage, desk)
    await forked(stage, desk, at, Change(state={"cents": 70}))
    await carried(stage, desk)
    async with stage.runtime(desk.agent) as place:
        await place.decide_effect(FORK, "3:0", "act", by="ada")
        assert isinstance(await place.resume(FORK), Held)
        second = await place.fork(FORK, at + 1, Change(state={"cents": 7}), id="fork-2")
    assert [(one.run_id, one.name, one.value) for one in second.acts] == [
        (RUN, "pay", "paid book 700"),
        (FORK, "pay", "paid book 70"),
        (RUN, "mail", "mailed paid book 700"),
    ]
    held = await carried(stage, desk, "fork-2")
    assert isinstance(held, Held)
    assert "other arguments" in held.detail
    assert desk.acts("fork-2") == []
    bodies = await stage.bodies(e.RunForked, "fork-2")
    assert [one.run for one in bodies] == [RUN, FORK]
    async with stage.runtime(desk.agent) as place:  # a fork from the middle of what the first one decided
        third = await place.fork("fork-2", None, Change(), id="fork-3", effects="redo")
    assert len(third.acts) == 3


async def test_a_cancelled_fork_undoes_only_what_is_its_own(stage: Stage) -> None:
    world = World()

    @perdure.tool(effect="irreversible")
    async def book(what: str) -> str:
        return str(world.act(what))

    @book.undo
    async def unbook(what: str, result: str) -> str:
        return str(world.act(f"no {result}"))

    async def step(run: Any) -> None:
        log = run.state["log"]
        if len(log) < 3:
            log.append(await book("abc"[len(log)]))
        else:
            await run.sleep(1_000_000)

    tester = agent(step, book)
    async with stage.runtime(tester) as place:
        assert isinstance(await place.run(tester, RUN, "go", patience=timedelta(0)), Waiting)
        at = await point(stage, 1)
        await place.fork(RUN, at, Change(), id=FORK, effects="ask")
        await place.resume(FORK)
        await place.decide_effect(FORK, None, "reuse", by="ada")
        await place.resume(FORK)
        await place.decide_effect(FORK, None, "act", by="ada")
        await place.resume(FORK, patience=timedelta(0))
        await place.cancel(FORK, by="ada", compensate=True)
        await place.resume(FORK)
    assert [world.find(key) for key in dict.fromkeys(world.keys)] == ["a", "b", "c", "c", "no c"]
    assert {act.run_id for act in world.acts if world.find(act.key).startswith("no")} == {FORK}
    with pytest.raises(ForkRefused, match="taking back"):
        async with stage.runtime() as place:
            await place.fork(FORK, None)
