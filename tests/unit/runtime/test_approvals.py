"""Approvals: asked for once, waited for at the cost of a row, used once, and never for anything else."""

from __future__ import annotations

from typing import Any

import pytest

import perdure
from perdure import codec
from perdure.agent import Approval, Finished, Held
from perdure.errors import (
    AlreadyDecided,
    ApprovalExpired,
    ApprovalVoided,
    CodeMissing,
    EditRefused,
    LookAgain,
    NoSuchApproval,
    NotYours,
    RunEnded,
)
from perdure.state import events as e
from tests.unit.runtime.people import ANA, BOB, EVE, HOUR, asked, decide, payer, paying
from tests.unit.runtime.stage import RUN, Stage, World, agent

# ----------------------------------------------------------------------------------- the life of one


async def test_a_permitted_call_is_made_once(stage: Stage) -> None:
    world = World()
    made = agent(paying(payer(world)), payer(world))
    pay = payer(world)
    made = agent(paying(pay), pay)
    request = await asked(stage, made)
    assert (request.tool, request.args, request.run_id) == ("pay", {"to": "ada", "cents": 1200}, RUN)
    assert (request.expires.timestamp() * 1e6 - stage.clock.now()) == HOUR.total_seconds() * 1e6
    assert not world.acts
    again = await stage.run(made)
    assert again.approvals == (request,), "it asks once, and not again when it is looked at"
    await decide(stage, "approve", request.id, note="fine")
    assert await stage.run(made) == Finished("ada has 1200", run_id=RUN)
    assert len(world) == 1
    kinds = await stage.kinds()
    used = kinds.index("approval.used")
    assert kinds[used + 1] == "call.intended"
    (granted,) = await stage.bodies(e.ApprovalGranted)
    assert (granted.principal, granted.note, granted.roles) == ("ana", "fine", ("finance",))
    await stage.blameless(world)


async def test_a_waiting_run_has_no_owner_and_wakes_at_the_end_of_its_request(stage: Stage) -> None:
    world = World()
    pay = payer(world)
    request = await asked(stage, agent(paying(pay), pay))
    row = await stage.store.row(RUN)
    assert (row.status, row.worker) == ("waiting", None)
    assert row.due_at == round(request.expires.timestamp() * 1e6)


async def test_a_denied_call_raises_and_a_replay_raises_the_same(stage: Stage) -> None:
    world = World()
    pay = payer(world)
    made = agent(paying(pay), pay)
    request = await asked(stage, made)
    await decide(stage, "deny", request.id, note="too much")
    await stage.crash(made, "step.commit")
    outcome = await stage.run(made, check=True)
    assert outcome.result == f"ApprovalDenied: ana denied pay (approval {request.id}): too much"
    assert not world.acts
    await stage.blameless(world)


async def test_in_run_tools_a_denial_is_the_tools_answer(stage: Stage) -> None:
    world = World()
    pay = payer(world)

    async def step(run: Any) -> None:
        call = {"id": "c1", "function": {"name": "pay", "arguments": '{"to": "ada", "cents": 3}'}}
        run.finish(await run.tools([call]))

    made = agent(step, pay)
    request = await asked(stage, made)
    await decide(stage, "deny", request.id, note="no")
    ((message,),) = [(await stage.run(made)).result]
    assert message["content"] == f"Error: ana denied pay (approval {request.id}): no"


async def test_only_what_when_says_needs_a_permission(stage: Stage) -> None:
    world = World()
    pay = payer(world, when=lambda cents: cents > 1000)
    made = agent(paying(pay, "ada", 1000), pay)
    assert (await stage.run(made)).status == "succeeded"
    assert not await stage.bodies(e.ApprovalRequested)


async def test_a_read_is_written_first_when_it_needs_a_permission(stage: Stage) -> None:
    world = World()
    look = payer(world, effect="read")
    made = agent(paying(look, "x" * 300, 1), look)
    request = await asked(stage, made)
    assert request.args["to"] == "x" * 300, "a person must see what they permit"
    await decide(stage, "approve", request.id)
    await stage.crash(made, "call.act")
    assert (await stage.run(made)).status == "succeeded"
    assert len(await stage.bodies(e.ApprovalUsed)) == 1


async def test_a_transactional_call_uses_its_permission_with_its_receipt(sqlite: Stage) -> None:
    @perdure.tool(effect="transactional", approval=Approval())
    def move(cents: int) -> int:
        tx = perdure.current_call().tx
        assert tx is not None
        tx.execute("CREATE TABLE IF NOT EXISTS moved (cents INTEGER)")
        tx.execute("INSERT INTO moved VALUES (?)", (cents,))
        return int(tx.execute("SELECT count(*) FROM moved")[0][0])

    async def step(run: Any) -> None:
        run.finish(await run.call(move, 5))

    made = agent(step, move)
    request = await asked(sqlite, made)
    await decide(sqlite, "approve", request.id)
    assert (await sqlite.run(made)).result == 1
    kinds = await sqlite.kinds()
    assert kinds[kinds.index("approval.used") + 1] == "call.settled"


# --------------------------------------------------------------------------------- edited arguments


async def test_edited_arguments_are_what_runs_and_what_is_recorded(stage: Stage) -> None:
    world = World()
    pay = payer(world, effect="idempotent")
    made = agent(paying(pay), pay)
    request = await asked(stage, made)
    await decide(stage, "approve", request.id, made, edit={"cents": 500})
    await stage.crash(made, "step.commit")
    assert (await stage.run(made, check=True)).result == "ada has 500"
    for intended in await stage.bodies(e.CallIntended):
        assert dict(intended.head.args)["cents"] == codec.encode(500)
    assert len(set(world.keys)) == 1
    await stage.blameless(world)


async def test_an_edited_call_is_sent_again_with_the_edit(stage: Stage) -> None:
    world = World(lose=1)
    pay = payer(world, effect="idempotent")
    made = agent(paying(pay), pay)
    request = await asked(stage, made)
    await decide(stage, "approve", request.id, made, edit={"cents": 500})
    await stage.crash(made, "call.unknown")
    assert (await stage.run(made, check=True)).result == "ada has 500"
    assert len(set(world.keys)) == 1
    assert len(world) == 2
    await stage.blameless(world)


@pytest.mark.parametrize(
    ("edit", "said"), [({"cents": "many"}, "cents"), ({"bank": 1}, "its parameters: to, cents")]
)
async def test_an_edit_that_does_not_fit_is_refused(stage: Stage, edit: dict[str, Any], said: str) -> None:
    world = World()
    pay = payer(world)
    made = agent(paying(pay), pay)
    request = await asked(stage, made)
    with pytest.raises(EditRefused, match=said):
        await decide(stage, "approve", request.id, made, edit=edit)
    assert not (await stage.store.row(RUN)).pending


async def test_an_edit_needs_the_agents_code(stage: Stage) -> None:
    world = World()
    pay = payer(world)
    request = await asked(stage, agent(paying(pay), pay))
    with pytest.raises(CodeMissing, match="not served here"):
        await decide(stage, "approve", request.id, edit={"cents": 1})


# ----------------------------------------------------------------------------------------- who decides


async def test_only_the_role_decides(stage: Stage) -> None:
    world = World()
    pay = payer(world, by="finance")
    request = await asked(stage, agent(paying(pay), pay))
    for verb in ("approve", "deny"):
        with pytest.raises(NotYours, match="role finance"):
            await decide(stage, verb, request.id, by=EVE)
    await decide(stage, "approve", request.id, by=BOB)


async def test_a_function_decides_where_the_code_is(stage: Stage) -> None:
    world = World()
    pay = payer(world, by=lambda who, request: who.id == "bob" and request.args["cents"] < 2000)
    made = agent(paying(pay), pay)
    request = await asked(stage, made)
    with pytest.raises(CodeMissing):
        await decide(stage, "approve", request.id, by=BOB)
    with pytest.raises(NotYours):
        await decide(stage, "approve", request.id, made, by=ANA)
    await decide(stage, "approve", request.id, made, by=BOB)
    assert (await stage.run(made)).status == "succeeded"


async def test_who_lost_the_right_before_the_act_is_not_heard(stage: Stage) -> None:
    world, allowed = World(), {"bob"}
    pay = payer(world, by=lambda who, request: who.id in allowed)
    made = agent(paying(pay), pay)
    request = await asked(stage, made)
    await decide(stage, "approve", request.id, made, by=BOB)
    allowed.clear()
    again = await asked(stage, made)
    assert again.id != request.id
    assert not world.acts
    (voided,) = await stage.bodies(e.ApprovalVoided)
    assert voided.why == "bob may no longer decide"


async def test_a_quorum_needs_different_people_who_agree_to_the_same(stage: Stage) -> None:
    world = World()
    pay = payer(world, quorum=2)
    made = agent(paying(pay), pay)
    request = await asked(stage, made)
    await decide(stage, "approve", request.id, by=ANA)
    assert (await asked(stage, made)).id == request.id
    with pytest.raises(AlreadyDecided):
        await decide(stage, "approve", request.id, by=ANA)
    await decide(stage, "approve", request.id, made, by=BOB, edit={"cents": 7})
    assert (await asked(stage, made)).args == {"to": "ada", "cents": 7}, "ana has not agreed to this"
    await decide(stage, "approve", request.id, by=ANA)
    assert (await stage.run(made)).result == "ada has 7"


async def test_nobody_permits_what_they_have_not_seen(memory: Stage) -> None:
    world = World()
    pay = payer(world, quorum=2)
    made = agent(paying(pay), pay)
    request = await asked(memory, made)

    class Slow(type(memory.store)):  # type: ignore[misc]
        """A store on which somebody else is quicker."""

    async with memory.runtime(made) as place:
        deliver = place.store.deliver

        async def overtaken(message: Any) -> Any:
            place.store.deliver = deliver  # type: ignore[method-assign]
            await place.approve(request.id, by=BOB, edit={"cents": 7})
            return await deliver(message)

        place.store.deliver = overtaken  # type: ignore[method-assign]
        with pytest.raises(LookAgain, match="edited by bob"):
            await place.approve(request.id, by=ANA)


# -------------------------------------------------------------------------------- what comes too late


async def test_the_first_decision_counts_and_the_second_is_told(stage: Stage) -> None:
    world = World()
    pay = payer(world)
    made = agent(paying(pay), pay)
    request = await asked(stage, made)
    await decide(stage, "approve", request.id, by=BOB)
    with pytest.raises(AlreadyDecided, match="granted by bob at 20") as told:
        await decide(stage, "approve", request.id, by=ANA)
    assert (told.value.decision, told.value.by) == ("granted", "bob")
    await stage.run(made)
    for verb in ("approve", "deny"):
        with pytest.raises(AlreadyDecided, match="the act has begun"):
            await decide(stage, verb, request.id, by=ANA)


async def test_a_permission_can_be_taken_back_until_the_act_begins(stage: Stage) -> None:
    world = World()
    pay = payer(world)
    made = agent(paying(pay), pay)
    request = await asked(stage, made)
    await decide(stage, "approve", request.id, by=BOB)
    await decide(stage, "deny", request.id, by=ANA, note="wait")
    with pytest.raises(AlreadyDecided, match="denied by ana"):
        await decide(stage, "approve", request.id, by=BOB)
    assert (await stage.run(made)).result.startswith("ApprovalDenied: ana denied pay")
    assert not world.acts


async def test_a_denial_between_the_guard_and_the_intent_is_heard(stage: Stage) -> None:
    world = World()
    pay = payer(world)
    made = agent(paying(pay), pay)
    request = await asked(stage, made)
    await decide(stage, "approve", request.id, by=BOB)
    async with stage.runtime(made) as place:
        append = place.store.append

        def overtaken(batch: Any) -> Any:
            if any(b"approval.used" in event.data for event in batch.events):
                import asyncio

                place.store.append = append  # type: ignore[method-assign]
                loop = asyncio.get_running_loop()

                async def late() -> Any:
                    await place.deny(request.id, by=ANA)
                    return await append(batch)

                return loop.create_task(late())
            return append(batch)

        place.store.append = overtaken  # type: ignore[method-assign]
        outcome: Any = await place.run(made, RUN, "go")
    assert outcome.result.startswith("ApprovalDenied: ana denied pay"), outcome
    assert not world.acts
    await stage.blameless(world)


async def test_nobody_decides_in_time_and_the_call_fails(stage: Stage) -> None:
    world = World()
    pay = payer(world)
    made = agent(paying(pay), pay)
    request = await asked(stage, made)
    stage.clock.advance(3600)
    with pytest.raises(ApprovalExpired):
        await decide(stage, "approve", request.id)
    assert (await stage.run(made)).result.startswith("ApprovalExpired: nobody decided on pay")
    with pytest.raises(ApprovalExpired):
        await decide(stage, "deny", request.id)
    assert "approval.denied" not in await stage.kinds(), "nobody has refused it"


@pytest.mark.parametrize(("early", "expired"), [(1000, False), (0, True), (-1000, True)])
async def test_a_decision_in_time_counts_though_nobody_was_there(
    stage: Stage, early: int, expired: bool
) -> None:
    """Field case O-057."""
    world = World()
    pay = payer(world)
    made = agent(paying(pay), pay)
    request = await asked(stage, made)
    stage.clock.advance(3600 - early / 1e6)
    if expired:
        with pytest.raises(ApprovalExpired):
            await decide(stage, "approve", request.id)
    else:
        await decide(stage, "approve", request.id)
    stage.clock.advance(60)
    assert (await stage.run(made)).status == "succeeded"
    assert len(world) == (0 if expired else 1)
    kinds = await stage.kinds()
    assert ("approval.granted" in kinds, "approval.expired" in kinds) == (not expired, expired)


async def test_a_permission_that_lies_too_long_is_asked_for_again(stage: Stage) -> None:
    world = World()
    pay = payer(world)
    made = agent(paying(pay), pay)
    request = await asked(stage, made)
    await decide(stage, "approve", request.id)
    stage.clock.advance(3601)
    again = await asked(stage, made)
    assert again.id != request.id
    assert not world.acts
    with pytest.raises(ApprovalVoided, match="not used in time"):
        await decide(stage, "approve", request.id, by=BOB)


async def test_expiry_may_ask_again_or_hold(stage: Stage) -> None:
    world = World()
    ask = payer(world, expiry="ask")
    made = agent(paying(ask), ask)
    first = await asked(stage, made)
    stage.clock.advance(3601)
    second = await asked(stage, made)
    assert first.id != second.id
    hold = payer(world, expiry="hold")
    made = agent(paying(hold), hold)
    stage.clock.advance(3601)
    outcome = await stage.run(made)
    assert isinstance(outcome, Held)
    assert outcome.reason == "approval-expired"
    async with stage.runtime(made) as place:
        await place.release(RUN, by="ana")
    third = await asked(stage, made)
    assert third.id not in (first.id, second.id)


async def test_what_does_not_exist_or_has_ended(stage: Stage) -> None:
    world = World()
    pay = payer(world)
    made = agent(paying(pay), pay)
    request = await asked(stage, made)
    for wrong in ("nonsense", "run-1", "run-9~0123456789ab", f"{RUN}~0123456789ab"):
        with pytest.raises(NoSuchApproval):
            await decide(stage, "approve", wrong)
    async with stage.runtime(made) as place:
        assert await place.cancel(RUN, by="ana")
    with pytest.raises(RunEnded):
        await decide(stage, "approve", request.id)
    assert not world.acts
