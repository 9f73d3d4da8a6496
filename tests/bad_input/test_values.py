"""Values that cannot be stored, and odd ones that can: through the store and back to every face."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, Failed, Finished, Held, Run, Runtime
from perdure.errors import NotStorable, PerdureError
from tests.bad_input.bench import all_whole, perdure, refused, rows


def _socket() -> Any:
    made = socket.socket()
    made.close()
    return made


def _file() -> Any:
    with open(os.devnull) as made:
        return made


def _cycle() -> Any:
    made: list[Any] = []
    made.append({"again": made})
    return made


def _deep(levels: int) -> Any:
    made: Any = "end"
    for _ in range(levels):
        made = [made]
    return made


UNSTORABLE: dict[str, tuple[Callable[[], Any], str]] = {
    "a socket": (_socket, "socket"),
    "a lambda": (lambda: lambda: 1, "function"),
    "a generator": (lambda: (number for number in range(3)), "generator"),
    "a class": (lambda: int, "type"),
    "a file": (_file, "TextIOWrapper"),
    "a value inside itself": (_cycle, ""),
    "200 levels": (lambda: _deep(200), "128 levels"),
    "too deep a value": (lambda: _deep(5000), "128 levels"),
}


def agent_of(step: Any, name: str = "clerk", **more: Any) -> Agent[Any, Any, Any]:
    """An agent with this step, whose goal may be anything."""
    made: Agent[Any, Any, Any] = Agent(
        name, state=dict[str, Any], goal=Any, start=more.pop("start", lambda goal: {"log": []}), **more
    )
    made.step(step)
    return made


@pytest.mark.parametrize("what", UNSTORABLE)
async def test_a_goal_that_cannot_be_stored_starts_nothing(tmp_path: Path, what: str) -> None:
    make, kind = UNSTORABLE[what]

    async def step(run: Run[Any, Any, Any]) -> None:
        run.finish()

    agent, path = agent_of(step), tmp_path / "perdure.db"
    with refused(NotStorable, "$.goal", kind):
        await agent.run("r", {"deep": [make()]}, store=str(path))
    assert rows(path) == []


@pytest.mark.parametrize("what", UNSTORABLE)
async def test_a_first_state_that_cannot_be_stored_starts_nothing(tmp_path: Path, what: str) -> None:
    make, kind = UNSTORABLE[what]

    async def step(run: Run[Any, Any, Any]) -> None:
        run.finish()

    agent, path = agent_of(step, start=lambda goal: {"thing": make()}), tmp_path / "perdure.db"
    with refused(NotStorable, "$.state", kind):
        await agent.run("r", "go", store=str(path))
    assert rows(path) == []


@pytest.mark.parametrize("place", ["state", "result", "argument"])
@pytest.mark.parametrize("what", UNSTORABLE)
async def test_what_a_step_cannot_store_holds_the_run_and_commits_nothing(
    tmp_path: Path, what: str, place: str
) -> None:
    make, kind = UNSTORABLE[what]
    called: list[Any] = []

    async def step(run: Run[Any, Any, Any]) -> None:
        run.state["log"].append("begun")
        if place == "state":
            run.state["thing"] = make()
        elif place == "result":
            run.finish({"thing": make()})
        else:
            await keep(make())

    agent, path = agent_of(step), tmp_path / "perdure.db"

    @agent.tool(effect="irreversible")
    async def keep(thing: Any) -> None:
        """Takes anything."""
        called.append(thing)

    outcome = await agent.run("r", "go", store=str(path), check=False)
    assert isinstance(outcome, Held), outcome
    assert outcome.reason == "step-error"
    assert "T205" in outcome.detail
    assert {"state": "$.state", "result": "$.result", "argument": "$.thing"}[place] in outcome.detail, outcome
    assert kind in outcome.detail
    advice, again, _ = outcome.remedies
    assert (called, advice, again) == ([], NotStorable.default_remedy, f"perdure retry --store {path} r")
    assert rows(path) == [("r", "held", 2)]
    all_whole(path)


@pytest.mark.parametrize("effect", ["read", "irreversible"])
@pytest.mark.parametrize("what", UNSTORABLE)
async def test_a_tool_that_returns_what_cannot_be_stored(tmp_path: Path, what: str, effect: Any) -> None:
    """The call fails, with a reason; what acted has happened and is not made again, not even by a retry."""
    make, _ = UNSTORABLE[what]
    count: list[int] = []
    caught: list[PerdureError] = []

    async def step(run: Run[Any, Any, Any]) -> None:
        try:
            await thing()
        except PerdureError as error:
            caught.append(error)
            raise

    agent, path = agent_of(step), tmp_path / "perdure.db"

    @agent.tool(effect=effect)
    async def thing() -> Any:
        """Returns what nobody can keep."""
        count.append(1)
        return make()

    await agent.run("r", "go", store=str(path), check=False)
    outcome = await agent.run("r", "go", store=str(path), check=False)
    assert isinstance(outcome, Held), outcome
    assert outcome.reason == "step-error"
    assert "T205" in outcome.detail
    assert "$.result" in outcome.detail
    assert caught[0].remedy
    assert (len(count), len(caught)) == (1, 1)
    async with Runtime(str(path), [agent]) as runtime:
        await runtime.retry("r", by="a person")
        await runtime.resume("r", check=False)
    assert len(caught) == 2
    if effect == "irreversible":
        assert len(count) == 1, "an act that has happened was repeated"
    all_whole(path)


ODD: dict[str, Any] = {
    "more than 64 bits": 2**200,
    "a lone surrogate": "a\udc81b",
    "NUL": "a\0b",
    "not a number": math.nan,
    "infinity": -math.inf,
    "100 levels": _deep(100),
    "keys of many kinds": {1: "a", (1, 2): "b", None: "c", "\udc81": "d"},
    "bytes": b"\xff\x00",
    "a set": {1, "two"},
}


def same(one: Any, other: Any) -> bool:
    """Equal and of one type; NaN is equal to itself."""
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return type(one) is type(other) and bool(one == other)


@pytest.mark.parametrize("what", ODD)
async def test_odd_values_come_back_and_can_be_shown(tmp_path: Path, what: str) -> None:
    """Field case O-024, O-030."""
    value, path = ODD[what], tmp_path / "perdure.db"
    seen: list[Any] = []

    async def step(run: Run[Any, Any, Any]) -> None:
        if "kept" not in run.state:
            assert same(run.goal, value)
            run.state["kept"] = await echo(value)
            return
        seen.append(run.state["kept"])
        run.finish(run.state["kept"])

    agent = agent_of(step)

    @agent.tool(effect="irreversible")
    async def echo(thing: Any) -> Any:
        """The same again."""
        assert same(thing, value)
        return thing

    outcome = await agent.run("r", value, store=str(path))
    assert isinstance(outcome, Finished), outcome
    assert same(outcome.result, value)
    assert all(same(one, value) for one in seen)
    again = await agent.run("r", value, store=str(path))
    assert same(again.unwrap(), value)
    for command in ("show r", "show r --json", "show r --events"):
        answer = perdure(*command.split(), cwd=tmp_path)
        assert answer.code == 0, (command, answer)
        harmless(answer.out)
    all_whole(path)


def harmless(text: str) -> None:
    """No character of it can act on a terminal."""
    bad = [char for char in text if (ord(char) < 32 and char != "\n") or 0x7F <= ord(char) < 0xA0]
    bad += [char for char in text if char in "\u202e\u2066\u200b" or 0xD800 <= ord(char) < 0xE000]
    assert not bad, (bad, text)


HOSTILE = "\x1b[2J\x1b]0;gone\x07\x9b31m\r\u202e\u200bfdp.exe\ud800\0"


@pytest.mark.parametrize("end", ["finish", "fail", "raise", "declared"])
async def test_hostile_text_is_harmless_in_every_face(tmp_path: Path, end: str) -> None:
    path = tmp_path / "perdure.db"

    async def step(run: Run[Any, Any, Any]) -> None:
        run.state["log"].append(await echo(HOSTILE))
        if end == "fail":
            run.fail(HOSTILE)
        elif end == "raise":
            raise ValueError(HOSTILE)
        elif end == "declared":
            await broken(HOSTILE)
        else:
            run.finish({HOSTILE: HOSTILE})

    agent = agent_of(step)

    @agent.tool(effect="irreversible")
    async def echo(thing: str) -> str:
        """The same again."""
        return thing

    @agent.tool(effect="irreversible", raises=[ValueError])
    async def broken(thing: str) -> str:
        """Fails in the caller's words."""
        raise ValueError(thing)

    outcome = await agent.run("r", HOSTILE, store=str(path), check=False)
    assert outcome.status == {"finish": "succeeded", "fail": "failed"}.get(end, "held")
    if isinstance(outcome, Failed):
        assert outcome.error == HOSTILE
    for command in ("show r", "show r --events", "why r", "runs"):
        answer = perdure(*command.split(), cwd=tmp_path)
        assert answer.code == 0, (command, answer)
        harmless(answer.out + answer.err)
    all_whole(path)


async def test_what_stored_bytes_name_is_never_imported_or_called(tmp_path: Path) -> None:
    """An error class that is recorded by its name comes back as a stand-in, whatever it names (O-096)."""
    marker, path = tmp_path / "imported", tmp_path / "perdure.db"
    (tmp_path / "hostile_module.py").write_text(
        f"open({str(marker)!r}, 'w').close()\nclass Broken(Exception):\n    pass\n"
    )
    forged = type("system", (Exception,), {"__module__": "os", "__qualname__": "system"})
    trap = type("Broken", (Exception,), {"__module__": "hostile_module", "__qualname__": "Broken"})
    ran = tmp_path / "ran"
    caught: list[tuple[str, Any]] = []

    async def step(run: Run[Any, Any, Any]) -> None:
        for number in range(2):
            try:
                await broken(number)
            except Exception as error:  # noqa: BLE001 - whatever comes back is looked at
                caught.append((type(error).__name__, getattr(error, "type_name", "")))
        run.fail(forged(f"touch {ran}"))

    agent = agent_of(step)

    @agent.tool(effect="read")
    async def broken(number: int) -> str:
        """Fails with a class that claims to be another."""
        raise (forged if number == 0 else trap)(f"touch {ran}")

    outcome = await agent.run("r", "go", store=str(path))
    assert isinstance(outcome, Failed), outcome
    assert [name for name, _ in caught] == ["CallFailed"] * len(caught)
    assert {kind for _, kind in caught} == {"os.system", "hostile_module.Broken"} or {
        kind for _, kind in caught
    } == {"system", "Broken"}, caught
    for command in ("show r", "show r --json", "show r --events", "why r"):
        assert perdure(*command.split(), cwd=tmp_path, PYTHONPATH=str(tmp_path)).code == 0
    assert not marker.exists()
    assert not ran.exists()
