"""What is counted: from durable events, once, and with bounded attributes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import perdure
from perdure import Done, Price
from perdure.observe import measure, watch
from tests.unit.runtime.stage import Stage, World, agent


def _points(reader: InMemoryMetricReader) -> dict[str, list[tuple[dict[str, Any], Any]]]:
    """What was measured: by name, attributes and value (of a histogram how many)."""
    found: dict[str, list[tuple[dict[str, Any], Any]]] = {}
    data = reader.get_metrics_data()
    for resource in data.resource_metrics if data else ():
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                points = found.setdefault(metric.name, [])
                for point in metric.data.data_points:
                    told: Any = point
                    value = getattr(told, "value", None)
                    points.append((dict(told.attributes or {}), told.count if value is None else value))
    return found


async def test_a_run_is_counted(stage: Stage) -> None:
    """Attempts, retries, unknown outcomes, tokens, money, claims, ends, holds, commits."""
    world = World(lose=1)

    @perdure.model("gpt-5-mini", price=Price(input=1, output=2), usage=lambda _: perdure.Usage(1000, 500))
    async def chat() -> str:
        return "hi"

    @perdure.tool()
    async def pay() -> str:
        return str(world.act("paid"))

    @pay.reconcile
    async def paid() -> Done[str]:
        return Done("paid")

    @perdure.tool(effect="read", retry=perdure.Retry(attempts=2, backoff=0.01))
    async def look() -> int:
        if perdure.current_call().attempt == 1:
            raise ValueError("no")
        return 1

    async def step(run: Any) -> None:
        run.now()
        await chat()
        await look()
        await pay()
        if run.goal == "fail":
            raise RuntimeError("no")
        run.finish("done")

    made = agent(step, chat, pay, look)
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    stop = measure(provider)
    try:
        await stage.run(made)
        await stage.run(made, "fail", run_id="r2")
        async with watch(stage.store, seconds=60):
            await asyncio.sleep(0.1)
            found = _points(reader)
    finally:
        stop()
        provider.shutdown()
    attempts = found["perdure.call.attempts"]
    failed = [v for a, v in attempts if a["perdure.call.outcome"] == "failed"]
    assert sum(failed) == 2
    assert sum(v for a, v in attempts if a["gen_ai.tool.name"] == "look") == 4
    assert sum(v for a, v in attempts if a["gen_ai.tool.name"] == "chat") == 2
    assert not [a for a, _ in attempts if a["gen_ai.tool.name"].startswith("run.")]
    assert sum(v for _, v in found["perdure.call.retries"]) == 2
    (lost,) = found["perdure.call.unknown"]
    assert lost[0]["gen_ai.tool.name"] == "pay"
    assert (lost[0]["perdure.call.unknown.cause"], lost[1]) == ("connection", 1)
    assert sum(v for _, v in found["perdure.spend"]) == pytest.approx(0.004)
    assert sum(v for a, v in found["gen_ai.client.token.usage"]) == 4
    assert sum(v for a, v in found["gen_ai.client.operation.duration"]) == 2
    assert sum(v for _, v in found["perdure.claims"]) == 2
    assert [(a["perdure.run.status"], v) for a, v in found["perdure.runs.ended"]] == [("succeeded", 1)]
    assert [(a["perdure.hold.reason"], v) for a, v in found["perdure.runs.held"]] == [("step-error", 1)]
    assert sum(v for _, v in found["perdure.commit.duration"]) > 4
    assert [(a, v) for a, v in found["perdure.runs.open"]] == [
        ({"perdure.run.status": "held", "perdure.hold.reason": "step-error"}, 1)
    ]
    told = {name for points in found.values() for attributes, _ in points for name in attributes}
    assert "perdure.run.id" not in told


async def test_without_measure_nothing_is_counted(memory: Stage) -> None:
    """`watch` is free where nobody measures."""
    async with watch(memory.store):
        pass
