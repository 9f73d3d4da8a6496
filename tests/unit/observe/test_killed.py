"""A real worker is killed in the middle of a run and another one carries it on: one trace, nothing twice."""

from __future__ import annotations

import json
import signal
from collections import Counter
from typing import Any

import pytest

from perdure.observe.ids import span_id
from perdure.runtime import birth
from tests.cases.field import Field
from tests.processes import ended_by, until

pytestmark = pytest.mark.slow

PROGRAM = """
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from perdure.observe import trace

book("workers")
provider = TracerProvider()
exporter = ConsoleSpanExporter(
    out=open(HERE / "spans", "a", buffering=1), formatter=lambda span: span.to_json(indent=None) + "\\n"
)
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace(provider)
agent = Agent("desk", state=dict, start=lambda goal: {"paid": []})


@agent.tool(effect="read")
async def look(at: int) -> int:
    return at


@agent.tool()
async def pay(who: str) -> str:
    book("acts", who)
    if who == "bob":
        await opened("go")
    return who


@pay.reconcile
async def paid(who: str) -> Done[str] | NotDone:
    return Done(who) if who in (HERE / "acts").read_text() else NotDone()


@agent.step
async def step(run):
    if not run.state["paid"]:
        await look(1)
        run.state["paid"].append(await pay("ann"))
    else:
        await run.sleep(0.05)
        await look(2)
        await pay("bob")
        run.finish(await pay("cleo"))
"""


def _spans(field: Field) -> list[dict[str, Any]]:
    return [json.loads(line) for line in field.lines("spans")]


async def test_both_halves_are_in_one_trace(field: Field) -> None:
    """SIGKILL in an act; the second worker finds out what became of it and tells the rest."""
    field.program(PROGRAM)
    code, _, complaint = field.perdure(
        "run", "app.py:agent", "go", "--id", "r", "--detach", "--store", str(field.store)
    )
    assert code == 0, complaint
    first = field.worker()
    until(lambda: "bob" in field.lines("acts"), first)
    ended_by(first, signal.SIGKILL)
    half = _spans(field)
    assert Counter(span["name"] for span in half) == {
        "execute_tool look": 2,
        "execute_tool pay": 1,
        "step 1": 1,
        "wait sleep": 1,
    }
    field.open("go")
    second = field.worker()
    await field.until_ended("r")
    ended_by(second, signal.SIGTERM)
    assert field.lines("acts") == ["ann", "bob", "cleo"]
    spans = _spans(field)
    by_id = {int(span["context"]["span_id"], 16): span for span in spans}
    assert len(by_id) == len(spans)
    assert {span["context"]["trace_id"] for span in spans} == {f"0x{birth.trace_of('r')}"}
    parents = {
        span["name"]: by_id[int(span["parent_id"], 16)]["name"]
        for span in spans
        if span["parent_id"] is not None
    }
    root = by_id[span_id("r", "root")]
    assert [span["name"] for span in spans if span["parent_id"] is None] == [root["name"]]
    assert parents["step 1"] == parents["step 2"] == root["name"] == "invoke_agent desk"
    assert parents["reconcile pay"] == parents["wait sleep"] == "step 2"
    assert Counter(span["name"] for span in spans) == {
        "execute_tool look": 2,
        "execute_tool pay": 3,
        "reconcile pay": 1,
        "wait sleep": 1,
        "step 1": 1,
        "step 2": 1,
        "invoke_agent desk": 1,
    }
    lost = [span for span in spans if span["attributes"].get("perdure.call.outcome") == "unknown"]
    assert len(lost) == 1
    assert [event["name"] for event in lost[0]["events"]] == ["perdure.call.unknown"]
    resumed = [
        event for event in by_id[span_id("r", "step", 2)]["events"] if event["name"] == "perdure.run.resumed"
    ]
    assert len({event["attributes"]["perdure.worker"] for event in resumed}) == 2
