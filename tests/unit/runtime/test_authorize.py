"""Is the principal permitted? Asked before every live call, never for a settled one; a no holds the run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import perdure
from perdure.agent import Call, Held, NotDone, Principal, current_call
from perdure.runtime import rights as asking
from perdure.state import events as e
from perdure.store.protocol import Query
from tests.unit.runtime.people import ANA, asked, decide, payer, paying
from tests.unit.runtime.stage import RUN, AnyAgent, Stage, World, agent

EVE = Principal("eve", frozenset({"clerk"}))


class Rights:
    """What an agent's authorize function goes by; `asked` is what it was asked of."""

    def __init__(self, *, slow: bool = False) -> None:
        self.refused: set[str] = set()
        self.asked: list[Call] = []
        self.who: list[Principal] = []
        self.slow = slow

    def on(self, made: AnyAgent) -> AnyAgent:
        """Let the agent go by these rights."""
        if self.slow:

            @made.authorize
            async def allowed(who: Principal, call: Call) -> bool:
                await asyncio.sleep(0)
                return self._answer(who, call)
        else:
            made.authorize(self._answer)
        return made

    def _answer(self, who: Principal, call: Call) -> bool:
        self.who.append(who)
        self.asked.append(call)
        return call.tool not in self.refused

    @property
    def tools(self) -> list[str]:
        """Of what it was asked, in order."""
        return [call.tool for call in self.asked]


def sender(world: World, effect: Any = "irreversible", name: str = "send", **options: Any) -> Any:
    """A tool that acts at once."""

    @perdure.tool(effect=effect, name=name, **options)
    async def send(to: str) -> str:
        return str(world.act(f"to {to}"))

    return send


async def begin(stage: Stage, made: AnyAgent) -> None:
    """Make the run durable, for EVE."""
    async with stage.runtime(made) as place:
        await place.start(made, RUN, "go", principal=EVE)


async def drive(stage: Stage, made: AnyAgent, who: Principal | None = EVE, *, check: bool = False) -> Any:
    """Start or carry on the run for this principal, in a process of its own."""
    async with stage.runtime(made, check=check) as place:
        return await place.run(made, RUN, "go", principal=who)


async def release(stage: Stage, made: AnyAgent) -> Any:
    """A person lets the run go on."""
    async with stage.runtime(made) as place:
        await place.release(RUN, by="ana")
        return await place.run(made, RUN, "go", principal=EVE)


def refused(outcome: Any) -> Held[Any]:
    """It is held for want of a right, with both ways out."""
    assert isinstance(outcome, Held), outcome
    assert outcome.reason == "not-permitted"
    assert [line.split()[1] for line in outcome.remedies[:2]] == ["release", "cancel"]
    return outcome


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("effect", ["read", "idempotent", "irreversible"])
async def test_what_is_not_permitted_is_not_called(stage: Stage, effect: Any, slow: bool) -> None:
    world, rights = World(), Rights(slow=slow)
    send = sender(world, effect)

    async def step(run: Any) -> None:
        run.finish(await send("ada"))

    made = rights.on(agent(step, send))
    rights.refused = {"send"}
    held = refused(await drive(stage, made))
    assert held.detail == "send (1:0) was not called: eve may not make this call"
    assert not world.acts
    assert await stage.bodies(e.CallIntended) == []
    (call,) = rights.asked
    assert rights.who == [EVE]
    assert (call.path, call.args, call.effect, call.attempt) == ("1:0", {"to": "ada"}, effect, 1)
    assert (call.run_id, call.principal, call.deadline) == (RUN, EVE, None)

    refused(await release(stage, made))  # asked again, and still a no
    rights.refused.clear()
    assert (await release(stage, made)).unwrap() == "to ada"
    assert [act.key for act in world.acts] == [call.key]
    await stage.blameless(world)


async def test_a_transactional_call_is_asked_for_too(sqlite: Stage) -> None:
    ran, rights = [], Rights()

    @perdure.tool(effect="transactional")
    def book(seat: str) -> str:
        ran.append(seat)
        return seat

    async def step(run: Any) -> None:
        run.finish(await run.call(book, "12A"))

    made = rights.on(agent(step, book))
    rights.refused = {"book"}
    refused(await drive(sqlite, made))
    assert not ran
    rights.refused.clear()
    assert (await release(sqlite, made)).unwrap() == "12A"


async def test_models_are_asked_for_by_their_name(memory: Stage) -> None:
    rights = Rights()

    async def step(run: Any) -> None:
        run.finish(await chat("hello"))

    made = rights.on(agent(step))

    @made.model("small-1")
    async def chat(text: str) -> str:
        return text

    assert (await drive(memory, made)).unwrap() == "hello"
    assert [(call.model, call.effect) for call in rights.asked] == [("small-1", "read")]


async def test_a_run_without_a_principal_is_permitted_nothing(stage: Stage) -> None:
    world, rights = World(), Rights()
    send = sender(world)

    async def step(run: Any) -> None:
        run.finish(await send("ada"))

    made = rights.on(agent(step, send))
    held = refused(await drive(stage, made, None))
    assert "the run was started without a principal" in held.detail
    assert not rights.asked
    assert not world.acts


def _raises(who: Principal, call: Call) -> bool:
    raise LookupError("no directory")


async def _raises_later(who: Principal, call: Call) -> bool:
    raise LookupError("no directory")


async def _hangs(who: Principal, call: Call) -> bool:
    await asyncio.Event().wait()
    return True


@pytest.mark.parametrize(
    ("fn", "why"),
    [
        (_raises, "authorize failed for eve: LookupError: no directory"),
        (_raises_later, "authorize failed for eve: LookupError: no directory"),
        (_hangs, "authorize gave no answer for eve within 0.005 s"),
        (lambda who, call: "yes", "eve may not make this call (authorize gave 'yes', and only True permits)"),
        (lambda who, call: None, "eve may not make this call (authorize gave None, and only True permits)"),
    ],
)
async def test_whatever_is_no_clear_yes_is_a_no(
    memory: Stage, fn: Any, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "ANSWER_SECONDS", 0.005)
    world = World()
    send = sender(world)

    async def step(run: Any) -> None:
        run.finish(await send("ada"))

    made = agent(step, send)
    made.authorize(fn)
    assert refused(await drive(memory, made)).detail == f"send (1:0) was not called: {why}"
    assert not world.acts


async def test_what_is_settled_is_not_asked_for_again(stage: Stage) -> None:
    """A right that is revoked later takes back nothing that has happened; a check asks nothing either."""
    world, rights = World(), Rights()
    first, second = sender(world, name="first"), sender(world, "idempotent", "second")

    async def step(run: Any) -> None:
        run.finish([await first("ada"), await second("bob")])

    made = rights.on(agent(step, first, second))
    await begin(stage, made)
    await stage.crash(made, "intent.durable", 2)
    assert rights.tools == ["first", "second"]
    rights.refused = {"first"}
    assert (await drive(stage, made, check=True)).unwrap() == ["to ada", "to bob"]
    assert rights.tools == ["first", "second", "second"]
    assert len(world) == 2
    await stage.blameless(world)


async def test_a_right_revoked_between_a_crash_and_the_resume(stage: Stage) -> None:
    """The intent was durable and nothing was sent: the hook says so, and today's rights forbid the act."""
    world, rights = World(), Rights()
    send = sender(world)
    send.reconcile(lambda to: world.find(current_call().key) or NotDone())

    async def step(run: Any) -> None:
        run.finish(await send("ada"))

    made = rights.on(agent(step, send))
    await begin(stage, made)
    await stage.crash(made, "intent.durable")
    rights.refused = {"send"}
    refused(await drive(stage, made))
    assert not world.acts
    rights.refused.clear()
    assert (await release(stage, made)).unwrap() == "to ada"
    assert len(world) == 1
    await stage.blameless(world)


async def test_an_idempotent_call_is_not_sent_again_without_the_right(stage: Stage) -> None:
    """Whether it happened stays open: a person may say so, and the run goes on with that."""
    world, rights = World(), Rights()
    send = sender(world, "idempotent")

    async def step(run: Any) -> None:
        run.finish(await send("ada"))

    made = rights.on(agent(step, send))
    await begin(stage, made)
    await stage.crash(made, "call.acted")
    rights.refused = {"send"}
    held = refused(await drive(stage, made))
    assert "may have happened and is not sent again" in held.detail
    assert any(way.startswith("perdure resolve") and way.endswith("1:0 --not-done") for way in held.remedies)
    assert len(world) == 1
    async with stage.runtime(made) as place:
        await place.resolve(RUN, "1:0", by="ana", done="to ada")
        assert (await place.run(made, RUN, "go", principal=EVE)).unwrap() == "to ada"
    assert len(world) == 1
    await stage.blameless(world)


async def test_a_right_revoked_while_a_person_is_asked(stage: Stage) -> None:
    world, rights = World(), Rights()
    pay = payer(world)
    made = rights.on(agent(paying(pay), pay))
    await begin(stage, made)
    request = await asked(stage, made)
    rights.refused = {"pay"}
    await decide(stage, "approve", request.id, by=ANA)
    refused(await drive(stage, made))
    assert not world.acts
    assert await stage.bodies(e.ApprovalUsed) == []
    rights.refused.clear()
    assert (await release(stage, made)).unwrap() == "ada has 1200"
    await stage.blameless(world)


async def test_nobody_is_asked_for_what_is_not_permitted(memory: Stage) -> None:
    rights = Rights()
    pay = payer(World())
    rights.refused = {"pay"}
    refused(await drive(memory, rights.on(agent(paying(pay), pay))))
    assert await memory.bodies(e.ApprovalRequested) == []


async def test_other_arguments_that_a_person_gave_are_asked_for(memory: Stage) -> None:
    world = World()
    pay = payer(world)
    made = agent(paying(pay, "ada", 10), pay)

    @made.authorize
    def small(who: Principal, call: Call) -> bool:
        return bool(call.args["cents"] <= 10)

    await begin(memory, made)
    request = await asked(memory, made)
    await decide(memory, "approve", request.id, made, by=ANA, edit={"cents": 11})
    refused(await drive(memory, made))
    assert not world.acts


async def test_in_a_gather_the_other_branches_end_first(stage: Stage) -> None:
    world, rights = World(), Rights()
    free, kept = sender(world, name="free"), sender(world, name="kept")

    async def step(run: Any) -> None:
        run.finish(await run.gather(kept("ada"), free("bob")))

    made = rights.on(agent(step, free, kept))
    rights.refused = {"kept"}
    refused(await drive(stage, made))
    assert [act.tool for act in world.acts] == ["free"]
    rights.refused.clear()
    assert (await release(stage, made)).unwrap() == ("to ada", "to bob")
    assert rights.tools.count("free") == 1
    await stage.blameless(world)


async def test_in_run_tools_it_holds_the_run_and_is_no_answer_to_the_model(stage: Stage) -> None:
    world, rights = World(), Rights()
    send = sender(world)

    async def step(run: Any) -> None:
        run.finish(await run.tools([{"id": "c1", "name": "send", "arguments": {"to": "ada"}}]))

    made = rights.on(agent(step, send))
    rights.refused = {"send"}
    refused(await drive(stage, made))
    assert not world.acts
    rights.refused.clear()
    (message,) = (await release(stage, made)).unwrap()
    assert "to ada" in str(message)


async def test_what_it_calls_itself_is_no_call_of_the_run(memory: Stage) -> None:
    """It may read through declared functions, which record nothing then; it may not act through them."""
    world = World()
    acts: list[str] = []
    send = sender(world)

    @perdure.tool(effect="read")
    async def roles(of: str) -> list[str]:
        return ["sender"]

    async def step(run: Any) -> None:
        run.finish(await send("ada"))

    made = agent(step, send, roles)

    @made.authorize
    async def allowed(who: Principal, call: Call) -> bool:
        if acts:
            await send("eve")
        return "sender" in await roles(who.id)

    acts.append("no")
    held = refused(await drive(memory, made))
    assert "StricterInside" in held.detail
    assert not world.acts
    acts.clear()
    assert (await release(memory, made)).unwrap() == "to ada"
    assert [body.path for body in await memory.bodies(e.CallSettled)] == ["1:0"]


@pytest.mark.parametrize("answer", [True, False])
async def test_cancelled_while_it_is_asked(stage: Stage, answer: bool) -> None:
    """Whatever it says: nothing is called, and the run ends."""
    world = World()
    send = sender(world)

    async def step(run: Any) -> None:
        run.finish(await send("ada"))

    made = agent(step, send)
    async with stage.runtime(made) as place:

        @made.authorize
        async def late(who: Principal, call: Call) -> bool:
            await place.cancel(RUN, by="ana")
            return answer

        outcome = await place.run(made, RUN, "go", principal=EVE)
    assert outcome.status == "cancelled"
    assert not world.acts


# ------------------------------------------------------------------------------------------------- children


def _family(world: World, *, as_tool: bool) -> tuple[AnyAgent, Rights]:
    """A parent that sets one child going, which sends; only the parent goes by rights."""
    send, rights = sender(world), Rights()

    async def work(run: Any) -> None:
        run.finish(await send(run.goal))

    child = agent(work, send, name="helper")
    ask = child.as_tool("ask_helper", "Let the helper send something.")

    async def step(run: Any) -> None:
        run.finish(await (ask("ada") if as_tool else run.spawn(child, "ada")))

    made = agent(step, *([ask] if as_tool else []), spawns=[] if as_tool else [child])
    return rights.on(made), rights


@pytest.mark.parametrize("as_tool", [False, True])
async def test_a_child_is_asked_for_before_it_is_created(stage: Stage, as_tool: bool) -> None:
    world = World()
    made, rights = _family(world, as_tool=as_tool)
    name = "ask_helper" if as_tool else "run.spawn"
    rights.refused = {name}
    held = refused(await drive(stage, made))
    assert held.detail == f"{name} (1:0) did not set helper going: eve may not make this call"
    assert [row.run_id for row in await stage.store.list(Query())] == [RUN]
    assert await stage.bodies(e.WaitOpened) == []
    (call,) = rights.asked
    assert (call.path, call.effect, call.key, call.principal) == ("1:0", "idempotent", f"{RUN}.1:0", EVE)
    assert call.args == ({"goal": "ada"} if as_tool else {"agent": "helper", "goal": "ada"})
    rights.refused.clear()
    assert (await release(stage, made)).unwrap() == "to ada"
    assert rights.tools == [name, name]  # a child that is there is not asked for again


@pytest.mark.parametrize("boundary", ["child.create", "child.created"])
@pytest.mark.parametrize("as_tool", [False, True])
async def test_a_right_revoked_while_a_child_is_launched(stage: Stage, boundary: str, as_tool: bool) -> None:
    """A crash between its wait and its creation: it is asked for anew. One that is there goes on."""
    world = World()
    made, rights = _family(world, as_tool=as_tool)
    name = "ask_helper" if as_tool else "run.spawn"
    await begin(stage, made)
    await stage.crash(made, boundary)
    rights.refused = {name}
    outcome = await drive(stage, made)
    if boundary == "child.created":
        assert outcome.unwrap() == "to ada"
        assert rights.tools == [name]
        return
    refused(outcome)
    assert [row.run_id for row in await stage.store.list(Query())] == [RUN]
    rights.refused.clear()
    assert (await release(stage, made)).unwrap() == "to ada"
    assert len(world) == 1
    await stage.blameless(world, run_id=f"{RUN}.1:0")
