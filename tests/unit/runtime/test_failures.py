"""Exceptions: declared, not declared, of the step; poison; what cannot be stored."""

from __future__ import annotations

import asyncio
import random
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.agent import Agent, Held, Retry
from perdure.errors import BadDeclaration, CallFailed, NotStorable, ShapeMismatch
from perdure.runtime.holds import POISON_CLAIMS
from perdure.state import events as e
from perdure.store.memory import MemoryStore
from perdure.testing.clock import MovableClock
from tests.unit.runtime.stage import RUN, Crash, Stage, World, agent


class NoMoney(Exception):
    """A declared failure with a constructor of its own."""

    def __init__(self, account: str, *, missing: int) -> None:
        super().__init__(f"{account} lacks {missing}")
        self.account = account
        self.missing = missing


class Broke(NoMoney):
    """A kind of it, which is not declared itself."""


# ------------------------------------------------------------------------------- exceptions of tools


@pytest.mark.parametrize("effect", ["read", "irreversible", "idempotent"])
@pytest.mark.parametrize("crash", [False, True])
async def test_declared_exceptions_arrive_as_themselves(stage: Stage, effect: Any, crash: bool) -> None:
    """With their class, text and attributes; live and replayed alike; and they settle the call."""
    world = World()

    @perdure.tool(effect=effect, raises=[NoMoney])
    async def pay(account: str) -> None:
        world.act(account)
        raise NoMoney(account, missing=7)

    async def step(run: Any) -> None:
        try:
            await pay("a-1")
        except NoMoney as failure:
            run.finish([type(failure).__name__, str(failure), failure.account, failure.missing])

    made = agent(step, pay, durability="strict")
    if crash:
        await stage.crash(made, "step.commit")
    assert (await stage.run(made, check=True)).unwrap() == ["NoMoney", "a-1 lacks 7", "a-1", 7]
    assert len(world) == 1
    assert "call.unknown" not in await stage.kinds()


async def test_a_subclass_of_a_declared_exception_arrives_as_the_declared_one(memory: Stage) -> None:
    """Only declared classes are rebuilt; a subclass comes as its nearest declared base, live and replayed."""

    @perdure.tool(effect="read", raises=[NoMoney])
    async def pay() -> None:
        raise Broke("a-1", missing=7)

    async def step(run: Any) -> None:
        try:
            await pay()
        except NoMoney as failure:
            run.finish([type(failure).__name__, failure.missing])

    assert (await memory.run(agent(step, pay), check=True)).unwrap() == ["NoMoney", 7]


@pytest.mark.parametrize("crash", [False, True])
async def test_other_exceptions_of_reads_arrive_as_call_failed(stage: Stage, crash: bool) -> None:
    """With the type's name, the message, the trace, and the original as its cause."""

    @perdure.tool(effect="read")
    async def look() -> None:
        raise NoMoney("a-1", missing=7)

    async def step(run: Any) -> None:
        try:
            await look()
        except CallFailed as failure:
            told = [failure.type_name, failure.message, failure.path, "raise NoMoney" in failure.trace]
            run.finish([*told, type(failure.__cause__).__name__])

    made = agent(step, look, durability="strict")
    if crash:
        await stage.crash(made, "step.commit")
    assert (await stage.run(made, check=True)).unwrap() == [
        "NoMoney",
        "a-1 lacks 7",
        "1:0",
        True,
        "RemoteError",
    ]


async def test_exceptions_with_odd_texts_are_kept(stage: Stage) -> None:
    """NUL and lone surrogates in a message, arguments that cannot be stored."""

    @perdure.tool(effect="read", raises=[LookupError])
    async def look(kind: int) -> None:
        raise LookupError("a\x00b \ud83d" if kind == 0 else socket)

    async def step(run: Any) -> None:
        for kind in (0, 1):
            try:
                await look(kind)
            except LookupError as failure:
                run.state["log"].append(str(failure))
        run.finish()

    assert (await stage.run(agent(step, look), check=True)).status == "succeeded"
    first, second = (await stage.state())["log"]
    assert first == "a\x00b \ud83d"
    assert "socket" in second


# ------------------------------------------------------------------------------- exceptions of steps


async def test_an_exception_of_the_step_holds_the_run(stage: Stage) -> None:
    """With its type, text and place; the patch is discarded, the calls are kept, and serve the retry."""
    world, broken = World(), [True]

    @perdure.tool(effect="irreversible")
    async def pay() -> str:
        return str(world.act("paid"))

    async def step(run: Any) -> None:
        run.state["log"].append(await pay())
        if broken:
            raise ValueError("the step is wrong")
        run.finish("mended")

    made = agent(step, pay)
    held = await stage.run(made)
    assert isinstance(held, Held)
    assert held.reason == "step-error"
    assert "ValueError: the step is wrong" in held.detail
    assert f"{Path(__file__).name}:" in held.detail
    again, cancel = held.remedies  # each names the store, where that is not the default one
    assert re.fullmatch(rf"perdure retry (--store \S+ )?{RUN}", again)
    assert re.fullmatch(rf"perdure cancel (--store \S+ )?{RUN}", cancel)
    assert await stage.state() == {"log": []}
    assert await stage.run(made) == held
    broken.clear()
    async with stage.runtime(made) as place:
        await place.retry(RUN, by="ada")
        assert (await place.run(made, RUN, "go")).unwrap() == "mended"
    assert len(world) == 1
    await stage.blameless(world)


@pytest.mark.parametrize("good", [3, 4])
async def test_a_step_is_retried_as_the_agent_declares(memory: Stage, good: int) -> None:
    """So many executions with backoff; the calls of the first one serve all of them."""
    world, tries = World(), [0]

    @perdure.tool(effect="irreversible")
    async def pay() -> str:
        return str(world.act("paid"))

    async def step(run: Any) -> None:
        await pay()
        tries[0] += 1
        if tries[0] < good:
            raise ConnectionError("not yet")
        run.finish(tries[0])

    before = memory.clock.now()
    outcome = await memory.run(agent(step, pay, retry=Retry(attempts=3, backoff=10)))
    assert len(world) == 1
    assert tries == [3]
    assert memory.clock.now() - before >= 30_000_000
    if good == 3:
        assert outcome.unwrap() == 3
    else:
        assert isinstance(outcome, Held)
        assert "not yet" in outcome.detail


@pytest.mark.parametrize("crashes", [1, 2])
async def test_tries_of_a_step_are_counted_in_the_journal(stage: Stage, crashes: int) -> None:
    """A restart gives a step no new tries: three fail in all, with processes that die in between."""
    world, tries = World(), [0]

    @perdure.tool(effect="irreversible")
    async def pay() -> str:
        return str(world.act("paid"))

    async def step(run: Any) -> None:
        tries[0] += 1
        if tries[0] in (2, 4)[:crashes]:
            raise Crash("in the step")
        await pay()
        raise ConnectionError("never")

    made = agent(step, pay, retry=Retry(attempts=3, backoff=10))
    for _ in range(crashes):
        with suppress(Crash):
            await stage.run(made)
        stage.clock.advance(100)
    held = await stage.run(made)
    assert isinstance(held, Held)
    assert held.reason == "step-error"
    failed = tries[0] - crashes
    assert failed == 3
    assert len(world) == 1
    restarts = await stage.bodies(e.StepRestarted)
    assert [body.why for body in restarts] == ["ConnectionError: never"] * 2
    assert (await stage.record()).failures == 2
    await stage.blameless(world)


async def test_a_step_that_a_person_lets_go_on_has_all_its_tries_again(stage: Stage) -> None:
    """And so has the next step."""
    tries = [0]

    async def step(run: Any) -> None:
        tries[0] += 1
        if tries[0] not in (6, 8):
            raise ConnectionError("not yet")
        run.state["log"].append(tries[0])
        if tries[0] == 8:
            run.finish()

    made = agent(step, retry=Retry(attempts=3, backoff=1))
    assert (await stage.run(made)).status == "held"
    assert tries == [3]
    async with stage.runtime(made) as place:
        await place.retry(RUN, by="ada")
        assert (await place.run(made, RUN, "go")).status == "succeeded"
    assert tries == [8]
    assert len(await stage.bodies(e.StepRestarted)) == 2 + 2 + 1


async def test_only_fail_fails_a_run(memory: Stage) -> None:
    """Not even SystemExit of the step does; it ends the process, and the run is found by the next one."""
    gone: list[int] = []

    async def step(run: Any) -> None:
        if not gone:
            gone.append(1)
            raise GeneratorExit
        run.finish("later")

    with pytest.raises(BaseException):  # noqa: B017
        await memory.run(agent(step))
    memory.clock.advance(100)
    assert (await memory.run(agent(step))).unwrap() == "later"


# ----------------------------------------------------------------------------------------------------- poison


async def test_a_run_that_kills_its_worker_is_held_as_poison(stage: Stage) -> None:
    """After so many claims without progress; told with the number; a person may try again."""

    async def step(run: Any) -> None:
        run.finish("well")

    made = agent(step)
    for _ in range(POISON_CLAIMS):
        await stage.crash(made, "run.loaded")
    held = await stage.run(made)
    assert isinstance(held, Held)
    assert held.reason == "poison"
    assert f"[R206] claimed {POISON_CLAIMS + 1} times since the last progress; worker w-" in held.detail
    assert "fell silent: its lease ran out, in step 1 before anything was recorded in it" in held.detail
    async with stage.runtime(made) as place:
        await place.retry(RUN, by="ada")
        assert (await place.run(made, RUN, "go")).unwrap() == "well"


async def test_code_that_fails_to_take_a_run_up_counts(stage: Stage) -> None:
    """What it raised is told, with its line; once it is mended a person lets the run go on."""

    async def step(run: Any) -> None:
        run.finish(await run.wait("go"))

    good = agent(step)
    bad = Agent(good.name, state=dict, goal=object, start=lambda goal: {"log": []})  # its step was forgotten
    await stage.run(good)
    async with stage.runtime(good) as place:
        await place.signal(RUN, "go", "gone")
    async with stage.runtime(bad) as place:
        [told] = (await place.preflight()).forecasts
        assert (told.prospect, told.reason) == ("held", "poison")
        assert "BadDeclaration: agent tester has no step" in told.detail
    for _ in range(POISON_CLAIMS):
        with pytest.raises(BadDeclaration, match="no step and 0 models"):
            await stage.run(bad)
    held = await stage.run(bad)
    assert isinstance(held, Held)
    assert held.reason == "poison"
    assert f"claimed {POISON_CLAIMS + 1} times since the last progress, and not taken up" in held.detail
    assert "BadDeclaration: agent tester has no step and 0 models" in held.detail
    assert (await stage.store.row(RUN)).pending == 0
    async with stage.runtime(good) as place:
        await place.retry(RUN, by="ada")
        assert (await place.resume(RUN)).unwrap() == "gone"


async def test_progress_forgives_lost_workers(stage: Stage) -> None:
    """Each worker dies, but not before a call was settled: that is no poison."""
    world = World()

    @perdure.tool(effect="idempotent")
    async def note(n: int) -> int:
        return int(world.act(n))

    async def step(run: Any) -> None:
        for n in range(POISON_CLAIMS + 4):
            await note(n)
        run.finish("well")

    made = agent(step, note, durability="strict")
    for _ in range(POISON_CLAIMS + 2):
        await stage.crash(made, "receipt.queued", 1)
    assert (await stage.run(made)).unwrap() == "well"
    await stage.blameless(world)


# ---------------------------------------------------------------------------- what cannot be stored


def close_sockets(kept: list[Any]) -> None:
    """Python would complain of those that were made for a test."""
    for one in kept:
        if isinstance(one, socket.socket):
            one.close()


UNSTORABLE: list[Callable[[], Any]] = [lambda: lambda: None, socket.socket, object, lambda: {"deep": [open]}]


@pytest.mark.parametrize("make", UNSTORABLE)
@pytest.mark.parametrize("effect", ["read", "irreversible"])
async def test_a_result_that_cannot_be_stored_fails_at_its_call(
    memory: Stage, make: Any, effect: Any
) -> None:
    """At once, with path and type; an act is never repeated because of it, nor is it unknown (O-031)."""
    world, kept = World(), []

    @perdure.tool(effect=effect, retry=Retry(attempts=3))
    async def fetch() -> Any:
        world.act("fetched")
        kept.append(make())
        return kept[-1]

    async def step(run: Any) -> None:
        try:
            await fetch()
        except NotStorable as failure:
            run.finish([failure.path, failure.type_name])

    [path, kind] = (await memory.run(agent(step, fetch), check=True)).unwrap()
    assert path.startswith("$.result")
    assert kind
    assert len(world) == 1
    close_sockets(kept)


async def test_arguments_that_cannot_be_stored_are_refused_before_the_call(memory: Stage) -> None:
    """Nothing was called; the message has the argument's name."""
    world = World()

    @perdure.tool(effect="irreversible")
    async def post(letter: Any) -> None:
        world.act("sent")

    async def step(run: Any) -> None:
        try:
            await post({"to": [socket]})
        except NotStorable as failure:
            run.finish(failure.path)

    assert (await memory.run(agent(step, post), check=True)).unwrap() == "$.letter.to[0]"
    assert len(world) == 0


@pytest.mark.parametrize("make", UNSTORABLE)
async def test_a_state_that_cannot_be_stored_holds_the_run(memory: Stage, make: Any) -> None:
    """Told with the path; the committed state is untouched, and the step's calls are kept."""
    kept: list[Any] = []

    @perdure.tool(effect="read")
    async def look() -> str:
        return "seen"

    async def step(run: Any) -> None:
        if not run.state["log"]:
            run.state["log"].append(await look())
        else:
            kept.append(make())
            run.state["bad"] = {"here": [1, kept[-1]]}
            run.finish()

    held = await memory.run(agent(step, look))
    assert isinstance(held, Held)
    assert held.reason == "step-error"
    assert "$.state" in held.detail
    assert "here" in held.detail
    assert await memory.state() == {"log": ["seen"]}
    close_sockets(kept)


@dataclass
class Typed:
    """A state of a declared type."""

    count: int = 0
    names: list[str] = field(default_factory=list)


async def test_a_state_that_no_longer_fits_its_type_holds_the_run(memory: Stage) -> None:
    """A text where a number belongs could not be brought back: refused at the commit."""

    async def step(run: Any) -> None:
        run.state.names.append("one")
        run.state.count = "many"
        run.finish()

    made: Agent[Typed, str, Any] = Agent("typed", state=Typed)
    made.step(step)
    held = await memory.run(made)
    assert isinstance(held, Held)
    assert "$.state.count" in held.detail
    assert await memory.state() == {"count": 0, "names": []}


async def test_a_result_of_another_type_than_declared_fails_at_its_call(memory: Stage) -> None:
    """Live and replayed alike."""

    @perdure.tool(effect="read")
    async def count() -> int:
        return "many"  # type: ignore[return-value]

    async def step(run: Any) -> None:
        try:
            await count()
        except ShapeMismatch as failure:
            run.finish(failure.path)

    assert (await memory.run(agent(step, count), check=True)).unwrap() == "$.count"


async def test_one_bad_run_harms_no_other(memory: Stage) -> None:
    """The others of the same process end (O-031)."""

    @perdure.tool(effect="read")
    async def fetch(n: int) -> Any:
        return socket if n == 1 else n

    async def step(run: Any) -> None:
        run.finish(await fetch(run.goal))

    made = agent(step, fetch)
    async with memory.runtime(made) as place:
        outcomes = await asyncio.gather(*(place.run(made, f"r-{n}", n) for n in range(4)))
    assert [outcome.status for outcome in outcomes] == ["succeeded", "held", "succeeded", "succeeded"]


# ------------------------------------------------------------------------------------- large values


async def test_large_values_are_kept_out_of_line(sqlite: Stage) -> None:
    """5 MB results and states: blobs, once per value, whole after a crash (O-074)."""

    @perdure.tool(effect="idempotent")
    async def fetch(n: int) -> bytes:
        return random.Random(n).randbytes(5_000_000)

    async def step(run: Any) -> None:
        data = await fetch(len(run.state["log"]))
        run.state["log"].append(data)
        if len(run.state["log"]) == 2:
            run.finish([len(part) for part in run.state["log"]])

    made = agent(step, fetch, storage="log")
    await sqlite.crash(made, "step.committed")
    assert (await sqlite.run(made, check=True)).unwrap() == [5_000_000, 5_000_000]
    stats = await sqlite.store.stats()
    assert 10_000_000 <= stats.blob_bytes < 10_100_000
    assert stats.event_bytes < 10_000
    kept = [random.Random(n).randbytes(5_000_000) for n in (0, 1)]
    assert await sqlite.state() == {"log": kept}


@pytest.mark.parametrize("what", ["result", "argument", "state", "transactional"])
async def test_a_value_above_the_stores_limit_is_refused_once(what: str) -> None:
    """2 MB at most, 5 MB given: an error at the place that produced it, with both sizes; no loop (O-074)."""
    clock = MovableClock(hurried=True)
    stage = Stage(MemoryStore(clock=clock, value_bytes=2_000_000), clock)
    await stage.store.open()
    calls: list[int] = []

    @perdure.tool(effect="idempotent", retry=Retry(attempts=3))
    async def fetch(data: bytes, size: int) -> bytes:
        calls.append(size)
        return bytes(size)

    @perdure.tool(effect="transactional")
    def book(size: int) -> bytes:
        calls.append(size)
        return bytes(size)

    async def step(run: Any) -> None:
        try:
            if what == "result":
                await fetch(b"", 5_000_000)
            elif what == "argument":
                await fetch(bytes(5_000_000), 0)
            elif what == "transactional":
                await run.call(book, 5_000_000)
            else:
                run.state["log"] = bytes(5_000_000)
            run.finish("taken")
        except NotStorable as failure:
            run.finish(failure.what)

    outcome = await stage.run(agent(step, fetch, book))
    told = outcome.detail if isinstance(outcome, Held) else outcome.unwrap()
    assert "2000000" in told
    assert "50000" in told
    assert calls == ([5_000_000] if what in ("result", "transactional") else [])


@pytest.mark.parametrize("effect", ["read", "irreversible"])
async def test_a_run_that_fails_with_what_a_tool_raised_is_repeatable(effect: Any) -> None:
    """Where an error came from differs between a live call and a served one, and is no part of an end."""
    made: Agent[Any, Any, Any] = Agent("failing", state=dict, start=lambda goal: {"n": 1})

    @made.tool(effect=effect, raises=[ValueError])
    async def look(at: int) -> str:
        raise ValueError(f"no page {at}")

    @made.step
    async def step(run: Any) -> None:
        try:
            await look(7)
        except ValueError as error:
            run.fail(error)

    async with perdure.Runtime(MemoryStore(), [made]) as place:
        outcome = await place.run(made, "r", "goal", check=True)
    assert isinstance(outcome, perdure.Failed), outcome
    assert outcome.error == "no page 7"
