"""The value of a secret is in nothing that leaves, however it got there."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import quote

import pytest

import perdure
from perdure import Personal, Secret
from perdure.observe import TextFormatter
from tests.unit.observe.spans import about, told
from tests.unit.observe.test_logs import kept, life
from tests.unit.runtime.stage import Stage, agent

CANARY = "sk-CANARY-0123/456789"
KEY: Secret[str] = Secret("OBSERVE_TEST_KEY")


async def test_the_value_of_a_secret_is_in_no_span_and_no_record(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In arguments, a result, an exception, an address and the user's own records: all content is told, every
    level is logged, and only marks are there. Field case O-091.
    """
    monkeypatch.setenv("OBSERVE_TEST_KEY", CANARY)

    @perdure.tool(effect="read")
    async def fetch(key: Secret[str] = KEY) -> dict[str, str]:
        value = key.reveal()
        logging.getLogger("shop").warning("asking https://bank.test/?key=%s", quote(value))
        return {"echo": f"you sent {value}", "address": f"https://bank.test/?key={quote(value)}"}

    @perdure.tool(effect="read", retry=perdure.Retry(attempts=2, backoff=0.01))
    async def fails(key: Secret[str] = KEY) -> str:
        if perdure.current_call().attempt == 1:
            raise ValueError(f"401 for {key.reveal()}")
        return key.reveal()

    async def step(run: Any) -> None:
        run.log.warning("have %s", await fetch())
        await fails()
        if run.state["log"] == []:
            run.state["log"].append(1)
            raise RuntimeError(f"no {KEY.reveal()}")
        run.finish("done")

    made = agent(step, fetch, fails, retry=perdure.Retry(attempts=2, backoff=0))
    with (
        told(content=lambda where, value: value) as tale,
        life() as records,
        kept("shop") as own,
    ):
        assert (await stage.run(made)).status == "held"
    text = TextFormatter()
    said = "".join(
        [
            *(span.to_json() for span in tale.spans),
            *records.lines,
            *own.lines,
            *map(text.format, [*records.records, *own.records]),
        ]
    )
    assert "[secret OBSERVE_TEST_KEY]" in said
    for form in (CANARY, quote(CANARY), quote(CANARY, safe="")):
        assert form not in said


async def test_personal_data_is_in_no_span_and_no_record(stage: Stage) -> None:
    """Neither in arguments nor in results, though all content is told; a wait for it, too."""

    @perdure.tool(effect="idempotent")
    async def write(to: Personal[str]) -> Personal[str]:
        return Personal(f"Dear {to.reveal()}")

    async def step(run: Any) -> None:
        letter = await write(Personal(CANARY))
        run.finish(len(letter.reveal()))

    with told(content=lambda where, value: value) as tale, life() as records:
        assert (await stage.run(agent(step, write))).status == "succeeded"
    span = about(tale.one("execute_tool write"))
    assert "[personal]" in span["gen_ai.tool.call.arguments"]
    assert "[personal]" in span["gen_ai.tool.call.result"]
    said = "".join([*(one.to_json() for one in tale.spans), *records.lines])
    assert CANARY not in said
