"""What a model or a caller sends, and nobody has looked at."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Agent, tool
from perdure.errors import BadRunId
from tests.unit.runtime.stage import Stage, World

ODD = {
    "a key that stands twice": '{"order": "o-77", "cents": 1, "cents": 100000}',
    "nested beyond any sense": "[" * 100_000 + "]" * 100_000,
    "an endless number": '{"order": "o-77", "cents": ' + "9" * 5_000 + "}",
    "no number at all": '{"order": "o-77", "cents": NaN}',
    "a fence around it": '```json\n{"order": "o-77", "cents": 1}\n```',
    "more behind it": '{"order": "o-77", "cents": 1} {"order": "o-78", "cents": 1}',
}


@pytest.mark.parametrize("arguments", ODD.values(), ids=[name.replace(" ", "-") for name in ODD])
async def test_arguments_of_a_model_that_mean_nothing_are_told_to_it(stage: Stage, arguments: str) -> None:
    """A model's reply is recorded: what its arguments break, they break at every retry, and the run stays
    held. Whatever they are, they are the model's to mend, nothing is called, and the answer is short.
    """
    world = World()

    @tool(effect="irreversible")
    async def refund(order: str, cents: int) -> str:
        return str(world.act(f"{order} {cents}"))

    desk: Agent[Any, Any, Any] = Agent("desk", state=dict, start=lambda goal: {}, tools=[refund])

    @desk.step
    async def step(run: Any) -> None:
        calls = [
            {"id": "c1", "name": "refund", "arguments": arguments},
            {"id": "c2", "name": "x" * 10_000, "arguments": "{}"},
        ]
        run.finish(await run.tools(calls))

    first, second = (await stage.run(desk)).unwrap()
    assert first["content"].startswith("Error: ")
    assert "refund" in first["content"]
    assert second["content"].startswith("Error: there is no tool")
    assert max(len(first["content"]), len(second["content"])) < 400
    assert len(world) == 0


@pytest.mark.parametrize("active", list("\"'`$&|;<>()*?!\\"))
async def test_an_id_that_a_shell_would_obey_is_refused(memory: Stage, active: str) -> None:
    """A run id may come from a caller, and it stands in remedies, which are commands that people paste."""
    desk: Agent[Any, Any, Any] = Agent("desk", state=dict, start=lambda goal: {})
    for run_id in (f"order{active}1042", f"{active}order", f"order{active}"):
        with pytest.raises(BadRunId, match="a shell"):
            await memory.run(desk, run_id=run_id)
    for run_id in ("order-1042", "tenant/7:2026-11-30", "a+b=c%20d~e,f.g_h", "größe-5", "user[5]#{a}^"):
        await memory.run(_ending(), run_id=run_id)


def _ending() -> Agent[Any, Any, Any]:
    made: Agent[Any, Any, Any] = Agent("ending", state=dict, start=lambda goal: {})

    @made.step
    async def step(run: Any) -> None:
        run.finish(None)

    return made
