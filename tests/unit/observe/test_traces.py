"""One run, one trace: whatever is killed, nothing twice, each below what it belongs to. Law 16."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased

import perdure
from perdure import Budget, Done, NotDone, Price, Retry
from perdure.agent import Approval, Principal
from perdure.errors import BadSetting
from perdure.host import Runtime
from perdure.observe import trace
from perdure.observe.ids import span_id
from perdure.runtime import birth
from perdure.timeline.change import Change
from tests.unit.observe.spans import Told, about, above, id_of, told, trace_of, whole
from tests.unit.runtime.forking import Desk, point
from tests.unit.runtime.stage import LEASE, RUN, Stage, World, agent

HOUR = timedelta(hours=1)
ANA = Principal("ana", frozenset({"finance"}))


class Shop:
    """An agent that reads, thinks, acts, waits and branches in two steps."""

    def __init__(self) -> None:
        self.world = World()

        @perdure.model("gpt-5-mini", price=Price(input=1, output=2), usage=lambda reply: reply["usage"])
        async def chat(text: str) -> dict[str, Any]:
            return {"text": text, "usage": perdure.Usage(1000, 500)}

        @perdure.tool(effect="irreversible")
        async def pay(who: str) -> str:
            return str(self.world.act(f"paid {who}"))

        @pay.reconcile
        async def paid(who: str) -> Done[str] | NotDone:
            found = self.world.find(perdure.current_call().key)
            return Done(found) if found else NotDone()

        @perdure.tool(effect="read")
        def look(at: int) -> int:
            return at

        async def step(run: Any) -> None:
            if not run.state["log"]:
                reply = await chat("hello")
                run.state["log"] += [reply["text"], await pay("ann"), str(run.now())]
            else:
                run.state["log"] += await run.map(look, [1, 2])
                await run.sleep(5)
                run.finish(await pay("bob"))

        self.agent = agent(step, chat, pay, look)


TREE = {
    "invoke_agent tester": "",
    "step 1": "invoke_agent tester",
    "step 2": "invoke_agent tester",
    "chat gpt-5-mini": "step 1",
    "wait sleep": "step 2",
}


async def test_a_run_is_told_as_a_tree(stage: Stage, tale: Told) -> None:
    """Root, steps, attempts, waits; the trace follows from the run's id, the ids from places."""
    shop = Shop()
    assert (await stage.run(shop.agent)).status == "succeeded"
    by_id = whole(tale.spans)
    assert {name: above(tale.one(name), by_id) for name in TREE} == TREE
    assert [above(span, by_id) for span in tale.all("execute_tool pay")] == ["step 1", "step 2"]
    assert [above(span, by_id) for span in tale.all("execute_tool look")] == ["step 2"] * 2
    assert len(tale.spans) == len(TREE) + 4
    assert {f"{trace_of(span):032x}" for span in tale.spans} == {birth.trace_of(RUN)}
    assert id_of(tale.one("invoke_agent tester")) == span_id(RUN, "root")
    assert id_of(tale.one("step 2")) == span_id(RUN, "step", 2)
    assert id_of(tale.one("chat gpt-5-mini")) == span_id(RUN, "call", "1:0", 1, 0)


async def test_what_spans_say(memory: Stage, tale: Told) -> None:
    """GenAI attributes, tokens and money as recorded; no value of the user's anywhere."""
    await memory.run(Shop().agent, "secret goal")
    chat = about(tale.one("chat gpt-5-mini"))
    assert chat["gen_ai.operation.name"] == "chat"
    assert chat["gen_ai.provider.name"] == "openai"
    assert chat["gen_ai.request.model"] == "gpt-5-mini"
    assert (chat["gen_ai.usage.input_tokens"], chat["gen_ai.usage.output_tokens"]) == (1000, 500)
    assert chat["perdure.cost.usd"] == pytest.approx(0.002)
    assert tale.one("chat gpt-5-mini").kind is otel.SpanKind.CLIENT
    pay = about(tale.all("execute_tool pay")[0])
    assert (pay["gen_ai.tool.name"], pay["gen_ai.tool.type"]) == ("pay", "function")
    assert (pay["perdure.call.effect"], pay["perdure.call.outcome"]) == ("irreversible", "done")
    root = about(tale.one("invoke_agent tester"))
    assert root["gen_ai.agent.name"] == "tester"
    assert root["gen_ai.conversation.id"] == RUN
    assert (root["perdure.run.status"], root["perdure.steps"]) == ("succeeded", 2)
    assert root["gen_ai.usage.input_tokens"] == 1000
    everything = "".join(span.to_json() for span in tale.spans)
    for value in ("secret goal", "hello", "paid ann", "bob"):
        assert value not in everything


BOUNDARIES = (
    ("run.loaded", 1),
    ("call.acted", 1),
    ("receipt.queued", 1),
    ("intent.write", 1),
    ("intent.durable", 1),
    ("call.acted", 2),
    ("receipt.queued", 2),
    ("step.queued", 1),
    ("step.committed", 1),
    ("wait.opened", 1),
    ("run.suspended", 1),
    ("wait.closed", 1),
    ("intent.durable", 2),
    ("run.finish", 1),
)


@pytest.mark.parametrize(("boundary", "hit"), BOUNDARIES)
async def test_killed_anywhere_it_is_one_trace(boundary: str, hit: int, stage: Stage, tale: Told) -> None:
    """Both halves are in it, no span twice, each below its parent; an attempt without reply says so."""
    shop = Shop()
    await stage.crash(shop.agent, boundary, hit)
    first = len(tale.spans)
    assert (await stage.run(shop.agent)).status == "succeeded"
    by_id = whole(tale.spans)
    assert len(tale.spans) > first
    assert {name: above(tale.one(name), by_id) for name in TREE} == TREE
    lost = [span for span in tale.spans if about(span).get("perdure.call.outcome") == "unknown"]
    assert len(lost) == len([body for body in await stage.kinds() if body == "call.unknown"])
    looks = [span for span in tale.spans if span.name == "reconcile pay"]
    assert len(looks) == len(lost)
    for look, span in zip(looks, lost, strict=True):
        assert [link.context.span_id for link in look.links] == [id_of(span)]
    for span in tale.all("execute_tool pay"):
        attempt = about(span)["perdure.call.attempt"]
        assert len(span.links) == (attempt > 1)


async def test_every_attempt_is_linked_to_the_one_before(memory: Stage, tale: Told) -> None:
    """Failures are errors by their type, without what they said."""
    tries: list[int] = []

    class Busy(Exception):
        """Not now."""

    @perdure.tool(effect="read", retry=Retry(attempts=3, backoff=0.01))
    async def send() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise Busy("canary-7")
        return "sent"

    async def step(run: Any) -> None:
        run.finish(await send())

    outcome = await memory.run(agent(step, send))
    assert outcome.status == "succeeded", outcome
    whole(tale.spans)
    one, two, three = tale.all("execute_tool send")
    assert [span.status.status_code.name for span in (one, two, three)] == ["ERROR", "ERROR", "UNSET"]
    assert about(one)["error.type"].endswith("Busy")
    assert [[link.context.span_id for link in span.links] for span in (one, two, three)] == [
        [],
        [id_of(one)],
        [id_of(two)],
    ]
    assert "canary-7" not in "".join(span.to_json() for span in tale.spans)


async def test_a_replay_tells_nothing(stage: Stage, tale: Told) -> None:
    """A step that is executed again, checked, or rehearsed makes no span of a call that it made before."""
    world = World()

    @perdure.tool(effect="irreversible")
    async def pay(who: str) -> str:
        return str(world.act(who))

    async def step(run: Any) -> None:
        for number in range(3):
            await pay(str(number))
            await run.sleep(3600)
        run.finish(await pay("last"))

    made = agent(step, pay)
    async with stage.runtime(made, check=True) as place:
        for _ in range(3):
            await place.run(made, RUN, "go", patience=timedelta(0))
            await place.preflight()
            stage.clock.advance(3601)
        assert (await place.run(made, RUN, "go", patience=timedelta(0))).status == "succeeded"
        for _ in range(3):
            await place.run(made, RUN, "go")
    whole(tale.spans)
    assert len(world) == 4
    assert sorted(tale.names) == sorted(
        ["execute_tool pay"] * 4 + ["wait sleep"] * 3 + ["step 1", "invoke_agent tester"]
    )
    for span in tale.all("wait sleep"):
        assert (span.end_time or 0) - (span.start_time or 0) >= 3600 * 10**9


async def test_reads_that_are_forgotten_and_made_again_have_spans_of_their_own(
    memory: Stage, tale: Told
) -> None:
    """The same place and attempt, but another execution: another id."""

    @perdure.tool(effect="read")
    async def look(at: int) -> int:
        return at

    def code(*places: int) -> Any:
        async def step(run: Any) -> None:
            for place in places:
                await look(place)
            await run.sleep(3600)
            run.finish("seen")

        return agent(step, look)

    for places in ((1, 2), (3, 2), (4, 2)):
        async with memory.runtime(code(*places)) as place:
            await place.run(code(*places), RUN, "go", patience=timedelta(0))
        memory.clock.advance(3601)
    outcome = await memory.run(code(4, 2))
    assert outcome.status == "succeeded", outcome
    by_id = whole(tale.spans)
    assert len(tale.all("execute_tool look")) == 6
    assert {above(span, by_id) for span in tale.all("execute_tool look")} == {"step 1"}
    assert [about(span).get("perdure.epoch") for span in tale.all("execute_tool look")] == [1, 1, 2, 2, 3, 3]
    events = [event.name for event in tale.one("step 1").events]
    assert events.count("perdure.step.restarted") == 2


async def test_holds_permissions_and_answers_are_in_the_trace(stage: Stage, tale: Told) -> None:
    """Over hours and processes: what was asked for, how long it took, what a person did."""
    world = World()

    @perdure.tool(approval=Approval(expires=HOUR))
    async def pay(who: str) -> str:
        return str(world.act(who))

    async def step(run: Any) -> None:
        if world.lose < 0:
            raise RuntimeError("canary-8")
        answer = await run.ask("how much, Mrs canary-9?", int)
        run.finish([answer, await pay("ann")])

    made = agent(step, pay, retry=None)
    world.lose = -1
    held = await stage.run(made)
    assert held.status == "held"
    world.lose = 0
    stage.clock.advance(60)
    async with stage.runtime(made) as place:
        await place.retry(RUN, by="ana")
    waiting = await stage.run(made)
    async with stage.runtime(made) as place:
        stage.clock.advance(60)
        await place.answer(RUN, 12, by=ANA)
    waiting = await stage.run(made)
    stage.clock.advance(60)
    async with stage.runtime(made) as place:
        await place.approve(waiting.approvals[0].id, by=ANA)
    assert (await stage.run(made)).unwrap() == [12, "ann"]
    by_id = whole(tale.spans)
    assert tale.one("hold step-error").status.status_code.name == "ERROR"
    for name in ("held step-error", "wait answer", "approval pay"):
        span = tale.one(name)
        assert above(span, by_id) == "step 1"
        assert (span.end_time or 0) - (span.start_time or 0) >= 60 * 10**9, name
    assert about(tale.one("approval pay"))["perdure.approval.ended"] == "granted"
    everything = "".join(span.to_json() for span in tale.spans)
    assert "canary" not in everything
    assert "ana" not in everything


async def test_children_are_in_the_trace_of_their_parent(stage: Stage, tale: Told) -> None:
    """The root of a child lies below its parent's wait for it."""
    world = World()

    @perdure.tool()
    async def post(what: str) -> str:
        return str(world.act(what))

    async def write(run: Any) -> None:
        run.finish(await post(str(run.goal)))

    child = agent(write, post, name="poster")

    async def step(run: Any) -> None:
        run.finish(list(await run.gather(run.spawn(child, "one"), run.spawn(child, "two"))))

    made = agent(step, name="parent", spawns=[child])
    async with stage.runtime(made, child) as place:
        assert (await place.run(made, RUN, "go")).unwrap() == ["one", "two"]
    by_id = whole(tale.spans)
    roots = tale.all("invoke_agent poster")
    assert [above(span, by_id) for span in roots] == ["wait child"] * 2
    waits = {about(span)["perdure.wait.name"]: id_of(span) for span in tale.all("wait child")}
    for root in roots:
        assert root.parent is not None
        assert root.parent.span_id == waits[about(root)["perdure.run.id"]]


async def test_spans_of_bodies_lie_below_their_call(sqlite: Stage, tale: Told) -> None:
    """Of an async body, a plain one in a thread, a transactional one, a hook, and of the step itself."""
    world = World(lose=1)
    tracer = tale.provider.get_tracer("shop")

    def note(name: str) -> None:
        with tracer.start_as_current_span(name):
            pass

    @perdure.tool(effect="read")
    async def quick() -> None:
        await asyncio.sleep(0)
        note("in quick")
        otel.get_current_span().set_attribute("shop.size", 3)

    @perdure.tool(effect="read", timeout=HOUR)
    def plain() -> None:
        note("in plain")

    @perdure.tool(effect="transactional")
    def book() -> None:
        note("in book")

    @perdure.tool()
    async def pay() -> str:
        return str(world.act("paid"))

    @pay.reconcile
    async def paid() -> Done[str]:
        note("in hook")
        return Done("paid")

    async def step(run: Any) -> None:
        note("in step")
        await quick()
        await run.call(plain)
        await run.call(book)
        run.finish(await pay())

    assert (await sqlite.run(agent(step, quick, plain, book, pay))).status == "succeeded"
    by_id = whole(tale.spans)
    assert {name: above(tale.one(name), by_id) for name in tale.names if name.startswith("in ")} == {
        "in step": "step 1",
        "in quick": "execute_tool quick",
        "in plain": "execute_tool plain",
        "in book": "execute_tool book",
        "in hook": "reconcile pay",
    }
    assert about(tale.one("execute_tool quick"))["shop.size"] == 3


async def test_what_the_store_refuses_is_not_told(memory: Stage, tale: Told) -> None:
    """A driver that was overtaken tells nothing of what it could not write."""
    inside = asyncio.Event()
    go_on = asyncio.Event()
    slow: list[bool] = [True]

    @perdure.tool(effect="read")
    async def look() -> str:
        if slow.pop():
            inside.set()
            await go_on.wait()
            return "late"
        return "seen"

    async def step(run: Any) -> None:
        run.finish(await look())

    made = agent(step, look)
    slow[:] = [False, True]
    async with memory.runtime(made) as old, memory.runtime(made) as new:
        first = asyncio.create_task(old.run(made, RUN, "go"))
        await inside.wait()
        memory.clock.advance(LEASE + 1)
        assert (await new.run(made, RUN, "go")).unwrap() == "seen"
        go_on.set()
        assert (await first).unwrap() == "seen"
    whole(tale.spans)
    assert len(tale.all("execute_tool look")) == 1


class Broken(SpanExporter):
    """Cannot export."""

    def export(self, spans: Any) -> SpanExportResult:
        """Fail."""
        raise ConnectionError("no collector")


async def test_nobody_who_listens_harms_a_run(memory: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """A processor that raises at every span: the run is as it would be, and it is said once."""

    class Raises:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("no")

    provider = TracerProvider()
    provider.add_span_processor(Raises())  # type: ignore[arg-type]
    end = trace(provider)
    try:
        shop = Shop()
        assert (await memory.run(shop.agent)).status == "succeeded"
    finally:
        end()
    await memory.blameless(shop.world)
    said = [record for record in caplog.records if record.name == "perdure.observe"]
    assert len(said) == 1
    assert said[0].levelname == "ERROR"


async def test_content_is_told_only_as_asked(memory: Stage) -> None:
    """Arguments and results, through the function that may leave things out."""
    seen: list[str] = []

    def content(where: str, value: Any) -> Any:
        seen.append(where)
        if where == "pay.arguments":
            return dict.fromkeys(value, "***")
        return None if where == "pay.result" else value

    with told(content=content) as tale:
        await memory.run(Shop().agent)
    pay = about(tale.all("execute_tool pay")[0])
    assert pay["gen_ai.tool.call.arguments"] == '{"who": "***"}'
    assert "gen_ai.tool.call.result" not in pay
    chat = about(tale.one("chat gpt-5-mini"))
    assert chat["gen_ai.input.messages"] == '{"text": "hello"}'
    assert '"text": "hello"' in chat["gen_ai.output.messages"]
    assert {"pay.arguments", "pay.result", "chat.arguments", "chat.result"} <= set(seen)


async def test_the_sampler_decides_for_the_whole_trace(memory: Stage) -> None:
    """By the trace's id: all of a run, or nothing, and what bodies tell with it."""
    with told(provider=TracerProvider(sampler=ALWAYS_OFF)) as none:
        tracer = none.provider.get_tracer("shop")

        @perdure.tool(effect="read")
        async def look() -> int:
            with tracer.start_as_current_span("in look"):
                return 1

        async def step(run: Any) -> None:
            run.finish(await look())

        await memory.run(agent(step, look), run_id="off")
    assert none.spans == ()
    with told(provider=TracerProvider(sampler=ParentBased(TraceIdRatioBased(0.5)))) as half:
        for number in range(16):
            await memory.run(agent(step, look, name="half"), run_id=f"half-{number}")
    kept = {about(span)["perdure.run.id"] for span in half.spans if span.name == "invoke_agent half"}
    assert 0 < len(kept) < 16
    for run_id in kept:
        mine = [span for span in half.spans if about(span).get("perdure.run.id") == run_id]
        assert len(mine) == 3


async def test_a_read_under_a_budget_that_was_lost_is_told(stage: Stage, tale: Told) -> None:
    """Its intent is durable, its reply is not: the attempt is in the trace, and linked to."""

    @perdure.model("m", price=Price(input=1, output=1), max_output=10, usage=lambda _: perdure.Usage(1, 1))
    async def chat() -> str:
        return "hi"

    async def step(run: Any) -> None:
        run.finish(await chat())

    made = agent(step, chat, budget=Budget(usd=1.0))
    await stage.crash(made, "receipt.queued")
    assert (await stage.run(made)).status == "succeeded"
    whole(tale.spans)
    spans = tale.all("chat m")
    assert [about(span)["perdure.call.outcome"] for span in spans][-1] == "done"
    assert [len(span.links) for span in spans] == [0, 1][: len(spans)]


def test_a_provider_that_records_nothing_is_refused() -> None:
    """Silence would be taken for runs that do nothing."""
    with pytest.raises(BadSetting, match="opentelemetry-sdk"):
        trace(otel.NoOpTracerProvider())


async def test_a_second_runtime_of_the_process_is_heard_as_well(tale: Told) -> None:
    """Listeners are the process's, so that `agent.run` is told of, too."""

    async def step(run: Any) -> None:
        run.finish("done")

    made = agent(step)
    for name in ("a", "b"):
        async with Runtime("memory:", [made]) as place:
            await place.run(made, name, "go")
    assert len(tale.all("invoke_agent tester")) == 2


async def test_a_fork_is_a_trace_of_its_own_linked_to_its_origin(stage: Stage, tale: Told) -> None:
    """Only what the fork does itself is in it; a call that its origin's result stands in for says so. A fork
    of a fork is linked to the one that it was made from.
    """
    desk = Desk()
    async with stage.runtime(desk.agent) as place:
        await place.run(desk.agent, RUN, "cup")
        at = await point(stage, 2)
        before = len(tale.spans)
        for origin, fork in ((RUN, "fork-1"), ("fork-1", "fork-2")):
            await place.fork(origin, at, Change(state={"plan": fork}), effects="simulate", id=fork)
            await place.resume(fork)
    origin_spans, rest = tale.spans[:before], tale.spans[before:]
    whole(origin_spans)
    traces = {birth.trace_of(name): name for name in (RUN, "fork-1", "fork-2")}
    above_it = {"fork-1": RUN, "fork-2": "fork-1"}
    for fork, origin in above_it.items():
        mine = [span for span in rest if about(span).get("perdure.run.id") == fork]
        whole(mine)
        assert traces[f"{trace_of(mine[0]):032x}"] == fork
        (root,) = [span for span in mine if span.parent is None]
        (link,) = root.links
        assert link.context.span_id == span_id(origin, "root")
        assert f"{link.context.trace_id:032x}" == birth.trace_of(origin)
        assert {span.name for span in mine} == {
            "invoke_agent tester",
            "step 3",
            "step 4",
            "execute_tool pay",
            "execute_tool mail",
        }
        stands = [about(span).get("perdure.call.stand_in") for span in mine if "execute" in span.name]
        assert stands == ["reuse", "reuse"]
    assert desk.acts("fork-1") == desk.acts("fork-2") == []
