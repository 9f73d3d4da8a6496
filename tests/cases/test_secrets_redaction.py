"""Field cases: keys in plain text in a store; a conversation that outlives its deletion."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from perdure import Agent, Secret
from perdure.codec.frame import body_of
from perdure.journal import read_all, verify
from perdure.store.protocol import Query
from perdure.store.sqlite import SQLiteStore
from tests.cases.field import Field
from tests.processes import said
from tests.unit.runtime.stage import Stage

CANARY = "sk-CANARY-123"

SECRETIVE = """
KEY = Secret("SHOP_KEY")
agent = Agent("agent", result=str)

@agent.tool(effect="irreversible", unknown="raise")
async def pay(key: Secret[str], cents: int) -> str:
    raise RuntimeError("refused by https://shop/?key=" + key.reveal())

@agent.tool(effect="read")
async def look() -> dict[str, str]:
    return dict(os.environ)

@agent.step
async def step(run):
    run.state["key"] = KEY
    run.log.warning("with %s", KEY.reveal())
    try:
        await pay(KEY, 5)
    except LeftUnknown:
        pass
    run.state["environment"] = (await look())["SHOP_KEY"]
    run.finish("over " + str(KEY))

if __name__ == "__main__":
    import logging
    logging.basicConfig(filename=HERE / "log")
    run_here(agent, principal=Principal("ada"))
"""

PERSONAL = """
agent = Agent("agent", state=dict, goal=Personal[str], result=Personal[str], start=lambda goal: {"who": goal})
child = Agent("child", state=dict, goal=Personal[str], result=Personal[str], start=lambda goal: {})

@child.step
async def inner(run):
    run.state["heard"] = run.goal
    run.finish(Personal("child of " + run.goal.reveal()))

@agent.tool(effect="idempotent")
async def write(to: Personal[str]) -> Personal[str]:
    return Personal(to.reveal() * 20_000)

@agent.step
async def step(run):
    run.state["letter"] = await write(run.state["who"])
    run.state["child"] = await run.spawn(child, run.state["who"])
    run.finish(run.state["who"])

if __name__ == "__main__":
    run_here(agent, goal=Personal("MARKER of Ada"))
"""


async def whole(path: Path) -> bytes:
    """Every byte of the files of a store, and what is in its frames and blobs."""
    found = [file.read_bytes() for file in path.parent.glob(path.name + "*") if file.is_file()]
    store = SQLiteStore(path)
    await store.open()
    for row in await store.list(Query()):
        for item in await read_all(store, row.run_id):
            found += [bytes(body_of(item.data))]
    await store.close()
    return b"\0".join(found)


async def test_a_key_is_nowhere_but_in_the_environment(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    """O-091: in context, arguments, an exception, a URL and the environment; then every place is searched."""
    monkeypatch.setenv("SHOP_KEY", CANARY)
    field.program(SECRETIVE)
    assert said(field.process("app.py")) == "succeeded"
    looks = [
        field.perdure(name, "r", "--store", str(field.store)) for name in ("show", "state", "audit", "why")
    ]
    looks += [field.perdure("show", "r", "--events", "--json", "--store", str(field.store))]
    looks += [field.perdure("export", "r", "r.perdure", "--store", str(field.store))]
    assert {code for code, _, _ in looks} == {0}
    shown = "".join(out + complaint for _, out, complaint in looks)
    assert "SHOP_KEY" in shown
    places = {
        "store": await whole(field.file),
        "log": (field.folder / "log").read_bytes(),
        "looks": shown.encode(),
        "export": (field.folder / "r.perdure").read_bytes(),
    }
    assert b"[secret SHOP_KEY]" in places["store"]
    assert b"with [secret SHOP_KEY]" in places["log"]
    for place, data in places.items():
        for form in (CANARY, quote(CANARY), "CANARY"):
            assert form.encode() not in data, place


async def test_what_was_erased_is_in_no_file(field: Field) -> None:
    """O-092: in state, a large value and a child; after the erasure nothing is left, and all verifies."""
    field.program(PERSONAL)
    assert said(field.process("app.py")) == "succeeded"
    assert b"MARKER" not in await whole(field.file)
    store = SQLiteStore(field.store)
    await store.open()
    keys = [await store.key(run_id) for run_id in ("r", "r.1:1")]
    await store.close()
    assert all(keys)
    at = ("--store", str(field.store))
    assert "MARKER of Ada" in field.perdure("state", "r", "--reveal", "--json", *at)[1]
    assert field.perdure("state", "r", *at)[1].count("[personal]") == 3
    assert field.perdure("erase", "r", "--dry-run", *at)[1].startswith(
        "would erase 2 runs; 2 with personal data"
    )
    code, out, complaint = field.perdure("erase", "r", *at)
    assert (code, "K605" in complaint) == (5, True), "nobody could be asked"
    for first in (True, False):  # twice is once
        code, out, complaint = field.perdure("erase", "r", "--yes", *at)
        assert (code, complaint) == (0, "")
        assert out.startswith("erased 2 runs; " + ("2 with" if first else "0 with"))
    assert field.perdure("export", "r", "r.perdure", *at)[0] == 0
    data = await whole(field.file) + (field.folder / "r.perdure").read_bytes()
    assert b"MARKER" not in data
    for key in keys:
        assert key is not None
        assert key not in data
        assert key[:12] not in data
    for command in ("state", "show"):
        code, out, _ = field.perdure(command, "r", "--reveal", *at)
        assert (code, "[erased]" in out, "MARKER" in out) == (0, True, False)
    code, out, _ = field.perdure("verify", *at)
    assert code == 0
    assert out.count("erased  ") == 2
    assert "2 of 2 runs whole" in out
    store = SQLiteStore(field.store)
    await store.open()
    assert (await verify(store, "r")).ok
    assert (await verify(store, "r.1:1")).ok
    await store.close()
    code, _, complaint = field.perdure("run", "app.py:agent", "MARKER of Ada", "--id", "r", *at)
    assert code != 0
    assert "K604" in complaint


def test_the_search_finds_what_is_there(field: Field) -> None:
    """Control: a store of a run that keeps it in the clear, in a large and compressed value too."""
    field.program(
        PERSONAL.replace("Personal[str]", "str").replace("Personal(", "str(").replace(".reveal()", "")
    )
    assert said(field.process("app.py")) == "succeeded"
    assert b"MARKER of Ada" in asyncio.run(whole(field.file))


async def test_a_secret_that_is_put_together_step_by_step_is_refused(
    sqlite: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a long text only what changed of it is written; each piece of a secret is harmless by itself."""
    monkeypatch.setenv("SHOP_KEY", CANARY)
    key: Secret[str] = Secret("SHOP_KEY")
    made: Agent[Any, Any, Any] = Agent("teller", state=dict, start=lambda goal: {"n": 0, "text": "x" * 1_000})

    @made.step
    async def step(run: Any) -> None:
        run.state["text"] += key.reveal()[run.state["n"]]
        run.state["n"] += 1
        if run.state["n"] == len(CANARY):
            run.finish(None)

    held: Any = await sqlite.run(made)
    assert (held.status, held.reason) == ("held", "secret-leaked")
    assert "['text']" in held.detail
    assert CANARY not in (await sqlite.state())["text"]
