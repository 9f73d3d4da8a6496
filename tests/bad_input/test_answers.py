"""Run ids, goals and answers of people that cannot be taken: refused, and nothing is written."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, Held, Run, Runtime
from perdure.errors import (
    BadArguments,
    BadRunId,
    NoSuchRun,
    NothingToResolve,
    OtherGoal,
    PerdureError,
    RunEnded,
    ShapeMismatch,
)
from tests.bad_input.bench import all_whole, refused, rows, speaks


def clerk(name: str = "clerk") -> Agent[dict[str, Any], str, Any]:
    """An agent whose one tool loses its reply if the goal says so."""
    agent: Agent[dict[str, Any], str, Any] = Agent(name, state=dict[str, Any], start=lambda goal: {})

    @agent.tool(effect="irreversible")
    async def pay(order: str) -> int:
        """Pays."""
        if order == "lost":
            raise ConnectionError("the line broke")
        return 1

    @agent.step
    async def step(run: Run[dict[str, Any], str, Any]) -> None:
        run.finish(await pay(run.goal))

    return agent


@pytest.mark.parametrize(
    "run_id",
    ["", "a\0b", "run@41", "x" * 201, "x" * 5000, "a\udc81", "a b", "a\nb", "\x1b[2J", "\u202e", "-1"],
)
async def test_a_bad_run_id_is_refused(tmp_path: Path, run_id: str) -> None:
    path = tmp_path / "perdure.db"
    with refused(BadRunId) as caught:
        await clerk().run(run_id, "o-1", store=str(path))
    assert len(caught().what) < 200
    caught().what.encode()  # can be printed
    assert rows(path) == []


async def test_a_run_id_means_one_goal_of_one_agent(tmp_path: Path) -> None:
    path = tmp_path / "perdure.db"
    await clerk().run("r", "o-1", store=str(path))
    before = path.read_bytes()
    with refused(OtherGoal, "run r ", "o-1", "o-2"):
        await clerk().run("r", "o-2", store=str(path))
    with refused(OtherGoal, "run r ", "clerk", "other"):
        await clerk("other").run("r", "o-1", store=str(path))
    assert rows(path) == [("r", "succeeded", 5)] or rows(path)[0][:2] == ("r", "succeeded")
    assert len(before) == path.stat().st_size
    all_whole(path)


async def test_answers_that_nobody_asked_for(tmp_path: Path) -> None:
    path, agent = tmp_path / "perdure.db", clerk()
    async with Runtime(str(path), [agent]) as runtime:
        assert (await runtime.run(agent, "ended", "o-1")).status == "succeeded"
        outcome = await runtime.run(agent, "lost", "lost")
        assert isinstance(outcome, Held)
        before = rows(path)
        for answer in (
            runtime.cancel("none", by="me"),
            runtime.release("none", by="me"),
            runtime.retry("none", by="me"),
            runtime.resolve("none", "1/1", by="me", not_done=True),
            runtime.resume("none"),
            runtime.outcome("none"),
        ):
            with refused(NoSuchRun, "none"):
                await answer
        for answer in (
            runtime.cancel("ended", by="me"),
            runtime.release("ended", by="me"),
            runtime.retry("ended", by="me"),
        ):
            with refused(RunEnded, "ended", "succeeded"):
                await answer
        with refused(NothingToResolve, "ended"):
            await runtime.resolve("ended", "1:1", by="me", not_done=True)
        with refused(NothingToResolve, "lost", "9:9"):
            await runtime.resolve("lost", "9:9", by="me", not_done=True)
        call = next(iter(await _calls(runtime, "lost")))
        for wrong in ({}, {"done": 1, "not_done": True}, {"not_done": True, "failed": "no"}):
            with refused(BadArguments):
                await runtime.resolve("lost", call, by="me", **wrong)
        with refused(ShapeMismatch, "$.result"):
            await runtime.resolve("lost", call, by="me", done="not a number")
        with pytest.raises(PerdureError) as caught:
            await runtime.resolve("lost", call, by="me", done=object())
        speaks(caught.value, "T205", "$.result")
        assert rows(path) == before
        row = await runtime.store.row("lost")
        assert (row.status, row.pending) == ("held", 0)
    all_whole(path)


async def _calls(runtime: Runtime, run_id: str) -> list[str]:
    from perdure.journal import load

    return list((await load(runtime.store, run_id)).record.calls)


async def test_of_two_verdicts_at_once_one_counts(tmp_path: Path) -> None:
    path, agent = tmp_path / "perdure.db", clerk()
    async with Runtime(str(path), [agent]) as runtime:
        await runtime.run(agent, "lost", "lost")
        [call] = await _calls(runtime, "lost")
        await asyncio.gather(
            runtime.resolve("lost", call, by="anna", done=7),
            runtime.resolve("lost", call, by="bert", done=8),
        )
        outcome = await runtime.resume("lost")
        assert outcome.unwrap() in (7, 8)
        with refused(NothingToResolve, "lost"):
            await runtime.resolve("lost", call, by="carl", done=9)
    all_whole(path)


async def test_names_and_notes_that_are_no_proper_text_are_taken_all_the_same(tmp_path: Path) -> None:
    path, agent = tmp_path / "perdure.db", clerk()
    async with Runtime(str(path), [agent]) as runtime:
        await runtime.run(agent, "lost", "lost")
        [call] = await _calls(runtime, "lost")
        await runtime.resolve("lost", call, by="a\udc81", failed="b\udc81\0", note="c\udc81")
        outcome = await runtime.resume("lost")
        assert outcome.status == "held"
        await runtime.cancel("lost", by="d\udc81", note="e\udc81")
        assert (await runtime.resume("lost")).status == "cancelled"
    all_whole(path)
