"""Approvals when things change: the call, the code, the process; several at once, and telling people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import perdure
from perdure.agent import Approval
from perdure.errors import (
    ApprovalDenied,
    ApprovalVoided,
    NoSuchApproval,
)
from perdure.state import events as e
from tests.unit.runtime.people import BOB, HOUR, asked, decide, payer, paying, teller
from tests.unit.runtime.stage import Stage, World, agent, dying

# --------------------------------------------------------------------------------------------- drift


def drifting(world: World, **changes: Any) -> Callable[[], Any]:
    """A build of one agent's code; `changes` are what a deploy changed."""
    cents: int = changes.get("cents", 10)

    def build() -> Any:
        if changes.get("schema"):

            @perdure.tool(effect="irreversible", name="pay", approval=Approval(expires=HOUR))
            async def pay(to: str, cents: int, note: str = "") -> str:
                return str(world.act(f"{to} has {cents}"))
        else:
            pay = payer(world, **changes.get("policy", {}))
        return agent(paying(pay, "ada", cents), pay)

    return build


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"cents": 1000}, "its arguments changed: cents 10 -> 1000"),
        ({"schema": True}, "the types of pay changed"),
        ({"policy": {"by": "finance"}}, "who must agree changed"),
        ({"policy": {"quorum": 2}}, "who must agree changed"),
        ({"policy": {"when": lambda cents: False}}, "the call no longer needs an approval"),
    ],
)
async def test_what_drifts_is_asked_for_again(stage: Stage, changes: dict[str, Any], why: str) -> None:
    """Field case O-056."""
    world = World()
    request = await asked(stage, drifting(world)())
    await decide(stage, "approve", request.id)
    made = drifting(world, **changes)()
    outcome = await stage.run(made)
    if "types" in why:
        assert outcome.reason == "changed"
        async with stage.runtime(made) as place:
            await place.release("run-1", by="ana")
        outcome = await stage.run(made)
    (voided,) = await stage.bodies(e.ApprovalVoided)
    assert (voided.id, voided.why) == (request.id, why)
    if "no longer" in why:
        assert outcome.status == "succeeded"
        return
    assert not world.acts
    assert [one.id for one in outcome.approvals] != [request.id]
    with pytest.raises(ApprovalVoided, match="is void"):
        await decide(stage, "approve", request.id, by=BOB)


# --------------------------------------------------------------------------------- several at once


async def test_parallel_approvals_never_answer_each_other(stage: Stage) -> None:
    """Field case O-053."""
    world = World()
    pay = payer(world)

    async def step(run: Any) -> None:
        async def one(to: str) -> str:
            try:
                return str(await pay(to, 10))
            except ApprovalDenied:
                return "denied"

        run.finish(await run.map(one, ["a", "b", "c"]))

    made = agent(step, pay)
    outcome = await stage.run(made)
    first, second, third = outcome.approvals
    assert len({one.id for one in outcome.approvals}) == 3
    await decide(stage, "approve", third.id, made, edit={"cents": 3})
    await decide(stage, "deny", second.id)
    assert [one.id for one in (await stage.run(made)).approvals] == [first.id]
    assert len(world) == 1
    await decide(stage, "approve", first.id)
    assert (await stage.run(made, check=True)).result == ["a has 10", "denied", "c has 3"]
    assert len(world) == 2
    await stage.blameless(world)


async def test_a_retry_after_a_failure_needs_no_second_permission(stage: Stage) -> None:
    world, tries = World(), []

    @perdure.tool(
        effect="irreversible", retry=perdure.Retry(attempts=3, backoff=0.1), approval=Approval(expires=HOUR)
    )
    async def pay(to: str) -> str:
        tries.append(to)
        if len(tries) < 3:
            raise perdure.NotDone("busy")
        return str(world.act(to))

    made = agent(paying(pay, "ada"), pay)
    request = await asked(stage, made)
    await decide(stage, "approve", request.id)
    assert (await stage.run(made)).result == "ada"
    assert len(await stage.bodies(e.ApprovalUsed)) == 1


# -------------------------------------------------------------------------------------- telling people


async def test_people_are_told_once_under_the_approvals_id(stage: Stage) -> None:
    world, post = World(), World()
    pay = payer(world, effect="idempotent", notify=teller(post))
    made = agent(paying(pay), pay)
    request = await asked(stage, made)
    assert post.keys == [request.id]
    await stage.run(made)
    assert len(post) == 1
    await decide(stage, "approve", request.id)
    await stage.crash(made, "step.commit")
    assert (await stage.run(made, check=True)).status == "succeeded"
    assert len(post) == 1
    await stage.blameless(world, post)


@pytest.mark.parametrize("boundary", ["approval.requested", "approval.tell", "approval.told"])
async def test_a_crash_while_people_are_told(stage: Stage, boundary: str) -> None:
    world, post = World(), World()
    pay = payer(world, notify=teller(post))
    made = agent(paying(pay), pay)
    await stage.crash(made, boundary)
    request = await asked(stage, made)
    assert set(post.keys) == {request.id}
    assert len(post) <= 2
    await decide(stage, "approve", request.id)
    assert (await stage.run(made, check=True)).status == "succeeded"
    await stage.blameless(world, post)


async def test_decided_before_people_could_be_told(stage: Stage) -> None:
    world, post = World(), World()
    pay = payer(world, notify=teller(post))
    made = agent(paying(pay), pay)
    await stage.crash(made, "approval.tell")
    (request,) = await stage.bodies(e.ApprovalRequested)
    await decide(stage, "approve", request.id)
    outcome = await stage.run(made, check=True)
    assert outcome.status == "succeeded", outcome
    assert not post.acts
    await stage.blameless(world, post)


async def test_people_who_cannot_be_told_find_it_in_the_inbox(stage: Stage) -> None:
    world, post = World(), World(lose=9)
    pay = payer(world, notify=teller(post))
    made = agent(paying(pay), pay)
    request = await asked(stage, made)
    assert len(post) == 3
    await decide(stage, "approve", request.id)
    assert (await stage.run(made)).status == "succeeded"
    await stage.blameless(world, post)


# ------------------------------------------------------------------------------------------- crashes


BOUNDARIES = ["approval.request", "approval.requested", "run.suspend", "run.suspended"]
LATER = ["inbox.apply", "run.resumed", "intent.write", "intent.durable", "call.acted", "receipt.queued"]


@pytest.mark.parametrize("boundary", BOUNDARIES)
async def test_a_crash_while_it_asks(stage: Stage, boundary: str) -> None:
    world = World()
    pay = payer(world)
    made = agent(paying(pay), pay)
    await stage.crash(made, boundary)
    request = await asked(stage, made)
    await decide(stage, "approve", request.id)
    assert (await stage.run(made)).status == "succeeded"
    assert len(world) == 1
    await stage.blameless(world)


@pytest.mark.parametrize("boundary", LATER)
async def test_a_crash_after_the_permission(stage: Stage, boundary: str) -> None:
    world = World()
    pay = payer(world, effect="idempotent")
    made = agent(paying(pay), pay)
    request = await asked(stage, made)
    await decide(stage, "approve", request.id)
    await stage.crash(made, boundary)
    assert (await stage.run(made)).status == "succeeded"
    assert len(set(world.keys)) == 1
    assert len(await stage.bodies(e.ApprovalUsed)) == 1
    await stage.blameless(world)


async def test_only_the_database_is_left(stage: Stage) -> None:
    """Field case O-002."""
    world, entered = World(), World()

    @perdure.tool(effect="idempotent")
    async def enter() -> str:
        return str(entered.act("in"))

    pay = payer(world)

    async def step(run: Any) -> None:
        run.state["log"].append(await enter())
        run.finish(await pay("ada", 1))

    made = agent(step, enter, pay)
    request = await asked(stage, made)
    await decide(stage, "approve", request.id)
    assert (await stage.run(made)).status == "succeeded"
    assert (len(entered), len(world)) == (1, 1)


async def test_a_gated_call_whose_history_ends_undecided_is_not_made(stage: Stage) -> None:
    """Field case O-055."""
    world = World()
    pay = payer(world)
    made = agent(paying(pay), pay)
    with dying("run.suspended"):
        pass
    request = await asked(stage, made)
    with pytest.raises(NoSuchApproval):
        await decide(stage, "approve", request.id[:-1] + ("0" if request.id[-1] != "0" else "1"))
    assert (await asked(stage, made)).id == request.id
    assert not world.acts
