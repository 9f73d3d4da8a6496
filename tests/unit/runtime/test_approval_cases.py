"""Approvals in the field: what went wrong elsewhere does not go wrong here."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

import perdure
from perdure.agent import Agent, Principal, Waiting
from perdure.errors import ApprovalDenied, PremiseChanged
from perdure.state import events as e
from tests.unit.runtime.people import ANA, BOB, asked, decide, payer, paying
from tests.unit.runtime.stage import RUN, Stage, World, agent


@dataclass
class Context:
    """State as a dataclass."""

    log: list[str] = field(default_factory=list)


@pytest.mark.parametrize("state", [dict, Context])
@pytest.mark.parametrize("principal", [None, Principal("ana", frozenset({"finance"}))])
async def test_a_recorded_permission_is_found_whatever_the_run_carries(
    stage: Stage, state: Any, principal: Principal | None
) -> None:
    """Field case O-052."""
    world = World()
    pay = payer(world)
    made: Agent[Any, Any, Any] = Agent("payer", state=state, start=lambda goal: state(), tools=[pay])
    made.step(paying(pay))
    async with stage.runtime(made) as place:
        outcome = await place.run(made, RUN, "go", principal=principal)
    assert isinstance(outcome, Waiting)
    await decide(stage, "approve", outcome.approvals[0].id)
    assert (await stage.run(made)).status == "succeeded"
    assert len(world) == 1


async def test_a_short_look_is_no_refusal(stage: Stage) -> None:
    """Somebody waited 15 seconds on a page and left: nothing is decided, until the request's own end.

    Field case O-054.
    """
    world = World()
    pay = payer(world)
    made = agent(paying(pay), pay)
    request = await asked(stage, made)
    stage.clock.advance(16)
    assert (await asked(stage, made)).id == request.id
    assert "approval.denied" not in await stage.kinds()
    stage.clock.advance(3600)
    assert (await stage.run(made)).result.startswith("ApprovalExpired")
    kinds = await stage.kinds()
    assert ("approval.expired" in kinds, "approval.denied" in kinds) == (True, False)


async def test_a_loop_of_appends_and_refusals_appends_each_line_once(stage: Stage) -> None:
    """Refused three times and then permitted, with a process of its own for each (O-004)."""
    world = World()
    pay = payer(world)

    async def step(run: Any) -> None:
        lines = run.state["log"]
        lines.append(f"line {len(lines)}")
        try:
            await pay("ada", len(lines))
        except ApprovalDenied:
            return
        run.finish(list(lines))

    made = agent(step, pay)
    for _ in range(3):
        request = await asked(stage, made)
        await decide(stage, "deny", request.id)
    await decide(stage, "approve", (await asked(stage, made)).id)
    assert (await stage.run(made)).result == ["line 0", "line 1", "line 2", "line 3"]
    assert len(world) == 1


async def test_asking_uses_up_no_retry(stage: Stage) -> None:
    """Field case O-007."""
    tries: list[int] = []

    @perdure.tool(effect="idempotent", retry=perdure.Retry(attempts=3), approval=perdure.Approval())
    async def add() -> int:
        tries.append(1)
        return len(tries)

    async def step(run: Any) -> None:
        run.finish(await add())

    made = agent(step, add)
    request = await asked(stage, made)
    assert tries == []
    await decide(stage, "approve", request.id)
    assert (await stage.run(made)).result == 1


async def test_a_decision_for_another_call_permits_nothing(stage: Stage) -> None:
    """Field case O-055."""
    world = World()
    pay = payer(world)
    made = agent(paying(pay), pay)
    first = await stage.run(made, run_id="run-a")
    second = await stage.run(made, run_id="run-b")
    await decide(stage, "approve", second.approvals[0].id)
    again = await stage.run(made, run_id="run-a")
    assert again.approvals == first.approvals
    assert not world.acts


@pytest.mark.parametrize("note", ["a\x00b", "\ud800", "x" * 100_000])
async def test_any_note_is_kept(stage: Stage, note: str) -> None:
    world = World()
    pay = payer(world)
    made = agent(paying(pay), pay)
    request = await asked(stage, made)
    await decide(stage, "deny", request.id, by=Principal(f"eve {note[:3]}"), note=note)
    assert (await stage.run(made)).status == "succeeded"
    (denied,) = await stage.bodies(e.ApprovalDenied)
    assert denied.note in (note, "\\ud800")


@pytest.mark.parametrize("hours", [-5, 5])
async def test_a_clock_that_jumps_loses_nothing(stage: Stage, hours: int) -> None:
    """Back: the decision counts. Ahead of the end: it has expired, and that is what everybody is told."""
    world = World()
    pay = payer(world)
    made = agent(paying(pay), pay)
    request = await asked(stage, made)
    stage.clock.advance(hours * 3600.0)
    if hours > 0:
        assert (await stage.run(made)).result.startswith("ApprovalExpired")
    else:
        await decide(stage, "approve", request.id, by=BOB)
        assert (await stage.run(made)).status == "succeeded"
    assert len(world) == (hours < 0)
    await stage.blameless(world)


async def test_the_same_decision_twice_is_told_so(stage: Stage) -> None:
    world = World()
    pay = payer(world)
    made = agent(paying(pay), pay)
    request = await asked(stage, made)
    await decide(stage, "approve", request.id, by=ANA)
    with pytest.raises(perdure.PerdureError, match="granted by ana"):
        await decide(stage, "approve", request.id, by=ANA)
    assert (await stage.store.row(RUN)).pending == 1


async def test_a_permission_rests_on_the_facts_that_were_true_when_it_was_asked_for(stage: Stage) -> None:
    """The order is sent while a person decides: the call fails, its permission is void, a new one asks."""
    world, order = World(), {"status": "open"}

    @perdure.fact(fresh_for=timedelta(hours=9))
    async def status(to: str) -> str:
        return order["status"]

    @perdure.tool(effect="irreversible", premises=[status], approval=perdure.Approval())
    async def pay(to: str) -> str:
        return str(world.act(to))

    async def step(run: Any) -> None:
        log = run.state["log"]
        try:
            run.finish(await pay("ada"))
        except PremiseChanged:
            log.append("changed")

    made = agent(step, status, pay)
    first = await asked(stage, made)
    (premised,) = (await stage.bodies(e.ApprovalRequested))[0].premises
    assert premised.name == "status"
    await decide(stage, "approve", first.id)
    order["status"] = "sent"
    second = await asked(stage, made)
    assert second.id != first.id
    assert not world.acts
    (voided,) = await stage.bodies(e.ApprovalVoided)
    assert (voided.id, voided.why) == (first.id, "the call ended without an act: PremiseChanged")
    await decide(stage, "approve", second.id)
    assert (await stage.run(made)).result == "ada"
    assert await stage.state() == {"log": ["changed"]}
    await stage.blameless(world)
