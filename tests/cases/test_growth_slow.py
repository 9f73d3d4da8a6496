"""What a run keeps grows with what changes in its state, whatever the state is made of."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from perdure import Agent, Approval, Principal, tool
from perdure.errors import AlreadyDecided
from perdure.runtime import head, messages
from perdure.state import events as e
from perdure.state.fold import fold, recorded_values
from perdure.state.record import RunRecord
from tests.unit.runtime.stage import RUN, Stage, agent

SEED = 20261130
PIECE = 1_000
HALF = 60
POOL = "".join(random.Random(SEED).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=2 * HALF * PIECE))


def piece(at: int) -> str:
    """A text that does not compress, another one each time."""
    return POOL[at * PIECE : (at + 1) * PIECE]


def text(state: Any, at: int) -> None:
    """A report that is written piece by piece."""
    state["text"] = state.get("text", "") + piece(at)


def data(state: Any, at: int) -> None:
    """The same in bytes."""
    state["data"] = state.get("data", b"") + piece(at).encode()


def middle(state: Any, at: int) -> None:
    """A document that is edited in its middle."""
    was = state.get("text", "")
    state["text"] = was[: len(was) // 2] + piece(at) + was[len(was) // 2 :]


def streamed(state: Any, at: int) -> None:
    """The last message of a conversation grows."""
    messages = state.setdefault("messages", [])
    if not messages:
        messages.append({"role": "assistant", "content": ""})
    messages[-1]["content"] += piece(at)


def window(state: Any, at: int) -> None:
    """Only the last messages are kept."""
    messages = state.setdefault("messages", [])
    messages.append(piece(at))
    del messages[:-20]


def front(state: Any, at: int) -> None:
    """The newest comes first."""
    state.setdefault("messages", []).insert(0, piece(at))


@pytest.mark.parametrize("change", [text, data, middle, streamed, window, front])
async def test_what_is_stored_is_linear_in_what_is_new(
    sqlite: Stage, change: Callable[[Any, int], None]
) -> None:
    """O-016, of everything that grows: a text that grew was written whole with each step, so that 600 steps
    of a kilobyte took 170 MB.
    """
    made: Agent[Any, Any, Any] = Agent("writer", state=dict, goal=int, start=lambda goal: {"n": 0})

    @made.step
    async def step(run: Any) -> None:
        change(run.state, run.state["n"])
        run.state["n"] += 1
        if run.state["n"] == run.goal:
            run.finish(None)

    kept = {}
    for count in (HALF, 2 * HALF):
        run_id = f"{RUN}-{count}"
        assert (await sqlite.run(made, count, run_id=run_id)).status == "succeeded"
        kept[count] = sum(len(one.data) for one in await sqlite.store.read(run_id))
        state = await sqlite.state(run_id)
        expected: dict[str, Any] = {"n": 0}
        for at in range(count):
            change(expected, at)
            expected["n"] += 1
        assert state == expected
    assert kept[2 * HALF] <= 2.3 * kept[HALF], kept


async def test_a_call_among_hundreds_costs_what_a_call_costs(
    memory: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call of a step looked through all that the step had recorded, so that 20,000 calls in a step took
    a minute. It looks through the newest, and what it finds there is still stored once.
    """
    looked: list[int] = []
    whole = recorded_values

    def counted(record: RunRecord) -> dict[int, bytes]:
        looked.append(len(record.calls))
        return whole(record)

    monkeypatch.setattr(head, "recorded_values", counted)
    calls = 3 * head.NEAR

    @tool(effect="idempotent")
    async def follow(link: str) -> str:
        return f"{link[:40]} and then {random.Random(link).randbytes(8).hex()}"

    async def step(run: Any) -> None:
        link = "the first of many links that lead on"
        for _ in range(calls):
            link = await follow(link)
        await run.wait("go")
        run.finish(link)

    made = agent(step, follow)
    assert (await memory.run(made)).status == "waiting"
    assert max(looked) <= head.NEAR
    heads = [body.head for body in await memory.bodies(e.CallIntended)]
    assert [type(one.args[0][1]) for one in heads[1:]] == [e.Ref] * (calls - 1)
    async with memory.runtime(made) as place:  # from its record, in which each argument is found again
        await place.signal(RUN, "go")
        assert (await place.resume(RUN)).status == "succeeded"


async def test_a_decision_among_many_looks_at_its_own_request(
    memory: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each decision was judged on top of all that lay in the inbox before it: 800 of them took 40 seconds."""
    folded: list[int] = []

    def counted(*given: Any) -> RunRecord:
        folded.append(1)
        return fold(*given)

    monkeypatch.setattr(messages, "fold", counted)
    asked = 30

    @tool(effect="irreversible", approval=Approval())
    async def pay(cents: int) -> int:
        return cents

    async def step(run: Any) -> None:
        run.finish(await run.gather(*[run.call(pay, cents) for cents in range(asked)]))

    made = agent(step, pay)
    waiting: Any = await memory.run(made)
    assert len(waiting.approvals) == asked
    async with memory.runtime(made) as place:
        for one in waiting.approvals:
            await place.approve(one.id, by=Principal("ann"))
        assert len(folded) <= 2 * asked
        with pytest.raises(AlreadyDecided):
            await place.approve(waiting.approvals[0].id, by=Principal("bob"))
        assert (await place.resume(RUN)).unwrap() == tuple(range(asked))
