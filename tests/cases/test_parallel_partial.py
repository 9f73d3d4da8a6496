"""Joins that came too early, and turns that were taken with calls still open."""

from __future__ import annotations

from typing import Any

import pytest

import perdure
from perdure.agent import Principal
from perdure.state import events as e
from tests.cases.field import Field
from tests.processes import said
from tests.unit.runtime.stage import RUN, Stage, World, agent

JOINING = """
SHAPE, EFFECT = (HERE / "kind").read_text().split()
agent = Agent("agent", state=dict, start=lambda goal: {}, storage="snapshot")


@agent.tool(effect=EFFECT)
async def fast(n: int) -> str:
    book("fast")
    return "A"


@agent.tool(effect=EFFECT)
async def slow(n: int) -> str:
    await opened("snapped")
    book("slow")
    if booked("slow") == 1:
        die()
    return "B"


if EFFECT == "irreversible":
    @slow.reconcile
    async def slowly(n: int) -> Done[str] | NotDone:
        return Done("B")


@agent.tool(effect="irreversible")
async def join(parts: list[str]) -> str:
    book("joined", "+".join(parts))
    return "+".join(parts)


async def one(n):
    return await (fast if n == 0 else slow)(n)


async def both(run):
    if SHAPE == "gather":
        return list(await run.gather(fast(0), slow(1)))
    if SHAPE == "map":
        return await run.map(one, [0, 1])
    if SHAPE == "nested":
        return list((await run.gather(run.gather(fast(0), slow(1)), run.sleep(0)))[0])
    calls = [{"id": name, "function": {"name": name, "arguments": {"n": 0}}} for name in ("fast", "slow")]
    return [message["content"] for message in await run.tools(calls)]


@agent.step
async def step(run):
    run.finish(await join(await both(run)))


if __name__ == "__main__":
    run_here(agent)
"""


@pytest.mark.crash
@pytest.mark.parametrize(
    ("shape", "effect"),
    [
        ("gather", "idempotent"),
        ("gather", "irreversible"),
        ("gather", "read"),
        ("map", "irreversible"),
        ("nested", "idempotent"),
        ("tools", "irreversible"),
    ],
)
async def test_a_join_waits_for_both_whatever_was_kept_of_one(field: Field, shape: str, effect: str) -> None:
    """O-066: what was kept while a sibling still ran made the join ready too early, and after a restart it
    ran twice, once on a part. Killed when one input is durable and the other is not: it runs once, on both.
    """
    (field.folder / "kind").write_text(f"{shape} {effect}")
    field.program(JOINING)
    process = field.process("app.py")
    if effect == "read":
        await field.until("r", lambda row, record, facts: field.lines("fast"))
    else:
        await field.until("r", lambda row, record, facts: any(isinstance(f, e.CallSettled) for f in facts))
    field.open("snapped")
    assert said(process) == "killed"
    assert said(field.process("app.py")) == "succeeded"
    assert field.lines("joined") == ["A+B"]
    if effect != "read":  # a read may be made again
        assert len(field.lines("fast")) == 1


# ------------------------------------------------------------------------------------------ outside results


def _turns() -> tuple[Any, list[Any]]:
    """A model that asks for three things at once, and what it was given each time."""
    seen: list[Any] = []

    @perdure.model("scripted")
    async def chat(messages: list[Any], tools: list[Any]) -> dict[str, Any]:
        told = [message["content"] for message in messages if message["role"] == "tool"]
        seen.append(told)
        if told:
            return {"role": "assistant", "content": "done"}
        names = [{"name": "ask_bank", "arguments": f'{{"n": {n}}}'} for n in range(3)]
        calls = [{"id": f"c{n}", "type": "function", "function": name} for n, name in enumerate(names)]
        return {"role": "assistant", "content": None, "tool_calls": calls}

    return chat, seen


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
@pytest.mark.parametrize("how", ["verdicts", "permissions"])
async def test_a_model_is_asked_again_when_all_results_are_there(
    stage: Stage, how: str, order: tuple[int, ...]
) -> None:
    """O-067: the run went on at each result, while other calls of the same turn were open. Three results come
    from people, apart, each to a new process; the middle one is a failure. The model is asked once more, when
    all three are there, and sees two results and an error; the two good calls are not repeated.
    """
    world, (chat, seen) = World(), _turns()
    gated = perdure.Approval() if how == "permissions" else None

    @perdure.tool(effect="irreversible", approval=gated)
    async def ask_bank(n: int) -> str:
        told = str(world.act(f"paid {n}"))
        if gated is None:
            raise ConnectionError("the reply never came")
        return told

    made: Any = perdure.Agent("talker", tools=[chat, ask_bank])
    outcome = await stage.run(made)
    assert outcome.status == ("waiting" if gated else "held")
    after = outcome
    for n in order:
        assert len(seen) == 1
        async with stage.runtime(made) as place:
            if gated is None:
                verdict = {"failed": "no money"} if n == 1 else {"done": f"paid {n}"}
                await place.resolve(RUN, f"1:1.{n}.0", by="ana", **verdict)  # type: ignore[arg-type]
            else:
                request = next(one for one in outcome.approvals if one.args["n"] == n)
                verb = place.deny if n == 1 else place.approve
                await verb(request.id, by=Principal("ana"), note="no money")
        after = await stage.run(made)
    assert after.unwrap() == "done"
    assert len(seen) == 2
    first, second, third = seen[1]
    assert ("paid 0" in first, "no money" in second, "paid 2" in third) == (True, True, True)
    assert len(world) == (3 if gated is None else 2)
    if gated is not None:
        await stage.blameless(world)


async def test_a_step_goes_on_when_all_that_it_waits_for_is_there(stage: Stage) -> None:
    """O-067, for signals: three results come as signals, apart; for the middle one nobody answers in time."""
    asked: list[Any] = []

    @perdure.tool(effect="idempotent")
    async def tell(results: list[Any]) -> int:
        asked.append(results)
        return len(results)

    async def result(run: Any, n: int) -> Any:
        try:
            return await run.wait(f"result-{n}", str, timeout=100)
        except perdure.PerdureError as error:
            return error.code

    async def step(run: Any) -> None:
        run.finish(await tell(await run.map(lambda n: result(run, n), [0, 1, 2])))

    made = agent(step, tell)
    for n in (2, 0):
        assert (await stage.run(made)).status == "waiting"
        async with stage.runtime() as anybody:
            await anybody.signal(RUN, f"result-{n}", f"came {n}", id=f"s{n}")
    assert (await stage.run(made)).status == "waiting"
    assert asked == []
    stage.clock.advance(101)
    assert (await stage.run(made)).unwrap() == 3
    assert asked == [["came 0", "A411", "came 2"]]
