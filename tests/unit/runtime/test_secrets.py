"""Secrets in runs: the journal has the name, the code the value, and a value that leaks is not written."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

import perdure
from perdure import Secret
from perdure.agent import Held, Waiting
from perdure.codec.secret import KNOWN
from perdure.errors import SecretLeaked, SecretMissing
from perdure.host import Runtime
from perdure.state import events as e
from tests.bytes_of import bytes_of
from tests.unit.runtime.stage import RUN, Stage, World, agent

VALUE = "sk-CANARY 123/é"
KEY: Secret[str] = Secret("BANK_KEY")


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The secret has its value in the environment, and this process has not seen it yet."""
    KNOWN.forget()
    monkeypatch.setenv("BANK_KEY", VALUE)
    yield
    KNOWN.forget()


async def clean(stage: Stage) -> None:
    """The value is nowhere in the store, in no form."""
    found = await bytes_of(stage.kept or stage.store)
    assert b"BANK_KEY" in found
    for form in (VALUE, quote(VALUE, safe=""), "CANARY"):
        assert form.encode() not in found, form


def payer(world: World, *, effect: Any = "irreversible", says: Any = lambda key: "paid") -> Any:
    """A tool that takes the key as an argument."""

    @perdure.tool(effect=effect)
    async def pay(key: Secret[str], cents: int) -> Any:
        return world.act(says(key.reveal()))

    return pay


async def test_the_journal_has_the_name_and_the_tool_the_value(stage: Stage) -> None:
    """In arguments, state and result; after a crash the tool has the value again."""
    world, seen = World(), list[str]()

    def says(value: str) -> str:
        seen.append(value)
        return "paid"

    pay = payer(world, effect="idempotent", says=says)

    async def step(run: Any) -> None:
        run.state["key"] = KEY
        await pay(KEY, 5)
        run.finish({"by": run.state["key"]})

    made = agent(step, pay)
    await stage.crash(made, "receipt.queued")
    assert (await stage.run(made, check=True)).unwrap() == {"by": KEY}
    assert set(seen) == {VALUE}
    assert (await stage.state())["key"] == KEY
    await clean(stage)
    await stage.blameless(world)


async def test_what_a_tool_returns_or_raises_is_redacted_live_and_replayed(stage: Stage) -> None:
    """In text, in a URL, in an exception of the tool's own: the step never sees the value either."""
    world = World()

    @perdure.tool(effect="read", raises=[ValueError])
    async def look(key: Secret[str]) -> dict[str, Any]:
        value = key.reveal()
        return {"url": f"https://bank/?key={quote(value, safe='')}", "raw": [value.encode(), (value,)]}

    @perdure.tool(effect="read", raises=[ValueError])
    async def fail(key: Secret[str]) -> None:
        error = ValueError(f"bad key {key.reveal()}")
        error.add_note(key.reveal())
        raise error

    @perdure.tool(effect="irreversible", unknown="raise")
    async def break_down(key: Secret[str]) -> None:
        raise RuntimeError(f"lost {key.reveal()}")

    async def step(run: Any) -> None:
        run.state["seen"] = await look(KEY)
        try:
            await fail(KEY)
        except ValueError as error:
            run.state["error"] = str(error)
        try:
            await break_down(KEY)
        except perdure.LeftUnknown:
            run.state["lost"] = True
        run.finish("over")

    made = agent(step, look, fail, break_down)
    assert (await stage.run(made, check=True)).unwrap() == "over"
    state = await stage.state()
    assert state["seen"]["url"] == "https://bank/?key=[secret BANK_KEY]"
    assert state["seen"]["raw"] == [b"[secret BANK_KEY]", ("[secret BANK_KEY]",)]
    assert state["error"] == "bad key [secret BANK_KEY]"
    [unknown] = await stage.bodies(e.CallUnknown)
    assert unknown.detail == "RuntimeError: lost [secret BANK_KEY]"
    await clean(stage)
    await stage.blameless(world)


async def test_what_the_step_itself_would_write_down_is_refused(stage: Stage) -> None:
    """As an argument, in the state, as a result, in an error: held, with the place; nothing is written."""

    @perdure.tool(effect="irreversible")
    async def send(text: str) -> str:
        return "sent"

    async def as_argument(run: Any) -> None:
        await send(f"key={KEY.reveal()}")

    async def in_the_state(run: Any) -> None:
        run.state["log"].append({"at": KEY.reveal()})

    async def as_a_result(run: Any) -> None:
        run.finish(KEY.reveal())

    async def in_an_error(run: Any) -> None:
        raise ValueError(KEY.reveal())

    told = {
        as_argument: ("secret-leaked", "the argument text"),
        in_the_state: ("secret-leaked", "$.state"),
        as_a_result: ("secret-leaked", "the run's result"),
        in_an_error: ("step-error", "ValueError: [secret BANK_KEY]"),
    }
    for number, (step, (reason, detail)) in enumerate(told.items()):
        held = await stage.run(agent(step, send), run_id=f"run-{number}")
        assert isinstance(held, Held), held
        assert held.reason == reason
        assert detail in held.detail
        assert VALUE not in held.detail
        assert await stage.bodies(e.CallIntended, f"run-{number}") == []
    await clean(stage)


async def test_a_goal_and_a_message_with_the_value_are_refused(memory: Stage) -> None:
    """Before anything is durable."""

    async def step(run: Any) -> None:
        run.finish(await run.wait("go", timeout=timedelta(hours=1)))

    made = agent(step)
    KEY.reveal()
    async with memory.runtime(made) as place:
        with pytest.raises(SecretLeaked, match="K602"):
            await place.start(made, RUN, {"key": VALUE})
        await place.start(made, RUN, {"key": KEY})
        with pytest.raises(SecretLeaked):
            await place.signal(RUN, "go", VALUE)
        with pytest.raises(SecretLeaked):
            await place.cancel(RUN, by="ops", note=VALUE)
    await clean(memory)


async def test_a_message_from_a_process_that_knows_no_secret_is_redacted(memory: Stage) -> None:
    """What lies in the inbox came in the clear; the journal and the step get it redacted."""

    async def step(run: Any) -> None:
        KEY.reveal()
        run.state["came"] = await run.wait("go", timeout=timedelta(hours=1))
        run.state["key"] = KEY
        run.finish(None)

    made = agent(step)
    assert isinstance(await memory.run(made), Waiting)
    KNOWN.forget()
    async with memory.runtime() as place:
        await place.signal(RUN, "go", {"text": f"use {VALUE}"})
    KEY.reveal()
    await memory.run(made)
    assert (await memory.bodies(e.SignalReceived))[0].value.count(b"[secret BANK_KEY]") == 1
    assert (await memory.state())["came"] == {"text": "use [secret BANK_KEY]"}
    await clean(memory)


async def test_a_missing_secret_holds_the_run_before_anything_is_sent(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an argument before the intent; in a read's body and in the step without a receipt. Retry goes on."""
    monkeypatch.delenv("BANK_KEY")
    world = World()
    pay = payer(world)

    @perdure.tool(effect="read")
    async def look() -> str:
        return KEY.reveal()[:2]

    async def by_argument(run: Any) -> None:
        run.finish(await pay(KEY, 5))

    async def in_a_body(run: Any) -> None:
        run.finish(await look())

    async def in_the_step(run: Any) -> None:
        run.finish(KEY.reveal()[:2])

    for step in (by_argument, in_a_body, in_the_step):
        made = agent(step, pay, look, retry=perdure.Retry(attempts=3))
        held = await stage.run(made, run_id=step.__name__)
        assert isinstance(held, Held), held
        assert held.reason == "secret-missing"
        assert (
            "[K601] the secret BANK_KEY is missing: the environment has no value of this name" in held.detail
        )
        assert held.remedies[0].startswith("perdure retry ")
        assert held.remedies[0].endswith(step.__name__)
        assert "call.intended" not in await stage.kinds(step.__name__)
        assert "call.settled" not in await stage.kinds(step.__name__)
        monkeypatch.setenv("BANK_KEY", VALUE)
        async with stage.runtime() as place:
            await place.retry(step.__name__, by="ops")
        assert (await stage.run(made, run_id=step.__name__)).unwrap() in ("paid", "sk")
        monkeypatch.delenv("BANK_KEY")
    assert len(world) == 1
    await clean(stage)


async def test_a_resolver_takes_the_place_of_the_environment(memory: Stage) -> None:
    """A mapping or a function, in steps, coroutines and threads; its errors name no value."""
    seen: list[str] = []

    @perdure.tool(effect="read")
    async def here() -> None:
        seen.append(KEY.reveal())

    @perdure.tool(effect="read")
    def in_a_thread() -> None:
        seen.append(KEY.reveal())

    async def step(run: Any) -> None:
        await here()
        await run.call(in_a_thread)
        run.finish(None)

    made = agent(step, here, in_a_thread)

    def broken(name: str) -> str:
        raise RuntimeError(f"{name} is {VALUE}")

    async def resolved_by(secrets: Any, run_id: str) -> Any:
        async with Runtime(memory.store, [made], clock=memory.clock, secrets=secrets) as place:
            return await place.run(made, run_id, "go")

    await resolved_by({"BANK_KEY": "from-a-mapping"}, "run-a")
    await resolved_by(lambda name: f"from-a-function-{name}", "run-b")
    assert seen == ["from-a-mapping"] * 2 + ["from-a-function-BANK_KEY"] * 2
    held = await resolved_by(broken, "run-c")
    assert "raised RuntimeError" in held.detail
    assert VALUE not in held.detail
    assert (await resolved_by({}, "run-d")).reason == "secret-missing"
    assert KEY.reveal() == VALUE  # outside a run it is the environment


async def test_a_model_can_name_no_secret(memory: Stage) -> None:
    """The parameter is in no schema, and what is given for it is refused; its default is used."""
    seen: list[str] = []

    @perdure.tool(effect="read")
    async def look(what: str, key: Secret[str] = KEY) -> str:
        seen.append(key.reveal())
        return f"looked at {what}"

    async def step(run: Any) -> None:
        call = {"id": "1", "type": "function", "function": {"name": "look"}}
        good = call | {"function": {"name": "look", "arguments": '{"what": "x"}'}}
        bad = call | {"function": {"name": "look", "arguments": '{"what": "x", "key": "PATH"}'}}
        run.finish([message["content"] for message in await run.tools([good, bad])])

    good, bad = (await memory.run(agent(step, look))).unwrap()
    assert good == "looked at x"
    assert "a Secret, which only code can give" in bad
    assert seen == [VALUE]
    assert list(look.schema["properties"]) == ["what"]
    assert look.schema["required"] == ["what"]


async def test_logs_and_chunks_do_not_show_it(memory: Stage, caplog: pytest.LogCaptureFixture) -> None:
    @perdure.tool(effect="read")
    async def look() -> None:
        perdure.publish({"text": KEY.reveal()})

    async def step(run: Any) -> None:
        value = KEY.reveal()
        run.log.warning("with %s and %s", value, 1)
        text = f"in it: {value}"
        run.log.warning(text)
        await look()
        run.finish(None)

    made = agent(step, look)
    with caplog.at_level(logging.WARNING):
        async with memory.runtime(made) as place:
            await place.start(made, RUN, "go")
            listening = place.listen(RUN)
            await place.run(made, RUN, "go")
            heard = [item async for item in listening]
    assert "with [secret BANK_KEY] and 1" in caplog.text
    assert "in it: [secret BANK_KEY]" in caplog.text
    assert "CANARY" not in caplog.text
    assert "CANARY" not in repr(heard)


def test_missing_outside_a_run_is_an_error_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BANK_KEY")
    with pytest.raises(SecretMissing, match=r"K601.*BANK_KEY") as caught:
        KEY.reveal()
    assert "environment variable" in caught.value.remedy
