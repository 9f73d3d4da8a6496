"""Questions to people: typed answers, choices, refusals, ends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from enum import Enum
from typing import Annotated, Any, Literal

import pydantic
import pytest

from perdure.agent import Held, Principal
from perdure.errors import (
    AlreadyAnswered,
    AnswerLate,
    AnswerUnfit,
    IdReused,
    NoSuchQuestion,
    NoSuchRun,
    NotStorable,
    RunEnded,
)
from perdure.state import events as e
from tests.unit.runtime.stage import RUN, Stage, agent


@dataclass
class Trip:
    """Where and when."""

    to: str
    on: date
    seats: int = 1


LISBON = {"to": "LIS", "on": date(2027, 1, 2), "seats": 1}


class Size(Enum):
    """Of a shirt."""

    SMALL = "s"
    LARGE = "l"


class Odd(pydantic.BaseModel):
    """What no schema can say."""

    n: int

    @pydantic.field_validator("n")
    @classmethod
    def odd(cls, n: int) -> int:
        """Judge."""
        if n % 2 == 0:
            raise ValueError("n is even")
        return n


def asker(*args: Any, **options: Any) -> Any:
    """Asks one question and finishes with the answer."""

    async def step(run: Any) -> None:
        run.finish(await run.ask("Well?", *args, **options))

    return agent(step, result=options.pop("result", Any))


async def answer(stage: Stage, value: Any, **options: Any) -> bool:
    """An answer from a process that serves no agent."""
    async with stage.runtime() as place:
        return await place.answer(RUN, value, **{"by": "ana", **options})


async def test_an_answer_goes_to_the_step(stage: Stage) -> None:
    """Text, if nothing else is asked for; who answered is recorded."""
    made = asker(expires=timedelta(days=2))
    waiting = await stage.run(made)
    assert waiting.reasons == ("an answer to 'Well?' at 1:0",)
    assert await answer(stage, "yes", by=Principal("bob", frozenset({"boss"}))) is True
    assert (await stage.run(made, check=True)).unwrap() == "yes"
    [closed] = await stage.bodies(e.WaitClosed)
    assert (closed.how, closed.by) == ("answer", "bob")
    await stage.blameless()


@pytest.mark.parametrize(
    ("expected", "bad", "good", "result"),
    [
        (bool, "yes", True, True),
        (int, True, 5, 5),
        (float, "5", 5, 5.0),
        (Literal["a", "b"], "c", "b", "b"),
        (Size, "x", "l", "l"),
        (list[int], [1, "2"], [1, 2], [1, 2]),
        (dict[str, int], {"a": "b"}, {"a": 1}, {"a": 1}),
        (tuple[int, str], [1], [1, "x"], (1, "x")),
        (int | None, "5", None, None),
        (Annotated[int, pydantic.Field(ge=1)], 0, 1, 1),
        (
            Trip,
            {"to": "LIS"},
            {"to": "LIS", "on": "2027-01-02"},
            {"to": "LIS", "on": date(2027, 1, 2), "seats": 1},
        ),
        (
            Trip,
            {"to": "LIS", "on": "x", "seat": 1},
            Trip("LIS", date(2027, 1, 2)),
            {"to": "LIS", "on": date(2027, 1, 2), "seats": 1},
        ),
    ],
)
async def test_an_answer_of_another_type_is_refused(
    memory: Stage, expected: Any, bad: Any, good: Any, result: Any
) -> None:
    """Where it is given, by a process without the agent; the question stays open."""
    made = asker(expected)
    await memory.run(made)
    with pytest.raises(AnswerUnfit, match="A415"):
        await answer(memory, bad)
    assert (await memory.store.row(RUN)).inbox == 0
    await answer(memory, good)
    assert (await memory.run(made, check=True)).unwrap() == result


async def test_a_choice_is_one_of_those_offered(stage: Stage) -> None:
    """And comes back as the object that the step offered."""
    made = asker(choices=["S", "M", 5, None])
    await stage.run(made)
    for bad in ("L", "5", 5.0, True, ["S"]):
        with pytest.raises(AnswerUnfit, match="one of 'S', 'M', 5, None"):
            await answer(stage, bad)
    await answer(stage, 5)
    assert (await stage.run(made, check=True)).unwrap() == 5


async def test_what_only_the_code_can_judge_leaves_the_question_open(stage: Stage) -> None:
    """A validator says no where the code is: the answer is refused there, and the next one counts."""
    made = asker(Odd, expires=timedelta(days=1))
    waiting = await stage.run(made)
    await answer(stage, {"n": 2})
    assert await stage.run(made) == waiting
    wait = (await stage.record()).waits["1:0"]
    assert "n is even" in wait.refused
    await answer(stage, {"n": 3})
    assert (await stage.run(made, check=True)).unwrap() == {"n": 3}
    assert [body.path for body in await stage.bodies(e.AnswerRefused)] == ["1:0"]
    await stage.blameless()


async def test_the_first_answer_counts(stage: Stage) -> None:
    """The second is told whose it was: waiting, taken, of a step that is over; a run that is over says so."""

    async def step(run: Any) -> None:
        run.state["log"].append(await run.ask("Well?", bool))
        await run.sleep(100)
        if len(run.state["log"]) > 1:
            run.finish(run.state["log"])

    made = agent(step)
    await stage.run(made)
    assert await answer(stage, True, by="ana", id="a-1") is True
    for _ in range(2):
        assert await answer(stage, True, by="ana", id="a-1") is False
        with pytest.raises(AlreadyAnswered, match="by ana"):
            await answer(stage, False, by="bob", question="1:0")
        with pytest.raises(IdReused):
            await answer(stage, False, by="bob", id="a-1", question="1:0")
        await stage.run(made)
    stage.clock.advance(100)
    assert (await stage.run(made)).reasons == ("an answer to 'Well?' at 2:0",)
    with pytest.raises(AlreadyAnswered, match="by ana"):
        await answer(stage, False, by="bob", question="1:0")
    assert await answer(stage, True, by="ana", id="a-1", question="1:0") is False
    await answer(stage, False, id="a-2")
    await stage.run(made)
    stage.clock.advance(100)
    assert (await stage.run(made)).unwrap() == [True, False]
    assert await answer(stage, False, id="a-2") is False
    with pytest.raises(RunEnded, match="succeeded"):
        await answer(stage, True)


async def test_what_is_not_asked_cannot_be_answered(memory: Stage) -> None:
    """No run, no question, several questions: each said."""
    async with memory.runtime() as place:
        with pytest.raises(NoSuchRun):
            await place.answer("nobody", 1, by="ana")

    async def step(run: Any) -> None:
        await run.wait("go")
        run.finish(list(await run.gather(run.ask("One?"), run.ask("Two?", int))))

    made = agent(step)
    await memory.run(made)
    for question in (None, "1:0", "7:7"):
        with pytest.raises(NoSuchQuestion, match="asks nothing"):
            await answer(memory, 1, question=question)
    async with memory.runtime() as place:
        await place.signal(RUN, "go")
    await memory.run(made)
    with pytest.raises(NoSuchQuestion, match=r"1:1\.0\.0 \(One\?\), 1:1\.1\.0 \(Two\?\)"):
        await answer(memory, "x")
    with pytest.raises(NotStorable):
        await answer(memory, object(), question="1:1.0.0")
    await answer(memory, 2, question="1:1.1.0")
    await answer(memory, "1")
    assert (await memory.run(made, check=True)).unwrap() == ["1", 2]


async def test_an_answer_that_comes_too_late_is_refused(stage: Stage) -> None:
    """And one that came in time beats the deadline, though the run wakes later."""
    made = asker(bool, expires=1000, default="nobody")
    await stage.run(made)
    stage.clock.advance(1000)
    with pytest.raises(AnswerLate, match="A414"):
        await answer(stage, True)
    assert (await stage.run(made)).unwrap() == "nobody"


async def test_an_answer_in_time_beats_the_deadline(stage: Stage) -> None:
    """By the moment at which the store accepted it."""
    made = asker(bool, expires=1000, default="nobody")
    await stage.run(made)
    stage.clock.advance(999)
    await answer(stage, True)
    stage.clock.advance(1000)
    assert (await stage.run(made)).unwrap() is True


async def test_an_answer_whose_deadline_passes_on_its_way_is_told_so(memory: Stage) -> None:
    """Judged in time, accepted too late: the sender learns it, and the run does not use it."""
    made = asker(bool, expires=1000, default="nobody")
    await memory.run(made)
    memory.clock.advance(999)
    below = memory.store

    class Slow:
        def __getattr__(self, name: str) -> Any:
            return getattr(below, name)

        async def deliver(self, message: Any) -> Any:
            memory.clock.advance(1)
            return await below.deliver(message)

    memory.wrap(Slow())
    with pytest.raises(AnswerLate):
        await answer(memory, True)
    assert (await memory.run(made)).unwrap() == "nobody"


@pytest.mark.parametrize(
    ("args", "options", "result"),
    [((bool,), {"expiry": "deny"}, False), ((Trip,), {"default": None}, None), ((), {"default": "?"}, "?")],
)
async def test_an_unanswered_question_may_end_in_several_ways(
    stage: Stage, args: Any, options: Any, result: Any
) -> None:
    """As it declares; by default it is an error."""
    assert (await stage.run(asker(*args, expires=5, **options), check=True)).unwrap() == result


async def test_an_unanswered_question_is_an_error(memory: Stage) -> None:
    """If it declares nothing else."""
    held = await memory.run(asker(expires=5))
    assert isinstance(held, Held)
    assert "A411" in held.detail


async def test_a_question_must_be_one(memory: Stage) -> None:
    """Empty text, no text, nothing to choose from."""
    asked: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        (("",), {}),
        ((5,), {}),
        (("Which?",), {"choices": []}),
    ]
    for number, (args, options) in enumerate(asked):

        async def step(run: Any, args: Any = args, options: Any = options) -> None:
            await run.ask(*args, **options)

        held = await memory.run(agent(step), run_id=f"r-{number}")
        assert "T204" in held.detail
