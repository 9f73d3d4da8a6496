"""What a run keeps grows with what changes in its state, whatever the state is made of."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from perdure import Agent
from tests.unit.runtime.stage import RUN, Stage

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
