"""Random agents: a program is data, one agent interprets it, and a pure function tells how it must end.

A program is a list of steps, a step a list of statements. Results depend on the statements alone, never on
time, chance or crashes, so that whatever happens to a run, its log must be the expected one.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

from perdure.agent import Agent, Budget, Done, Hybrid, NotDone, Price, Retry, Usage, current_call
from perdure.agent.policy import Durability, Storage
from perdure.errors import ChildFailed

Statement = list[Any]
Program = list[list[Statement]]

CALLS = ("look", "think", "book", "pay", "send", "move", "refuse", "reserve")
"""The tools: two reads (one of them a model), one of every class, and two that fail definitely."""

TIMEOUT = timedelta(seconds=5)
"""How long a call may take."""


class Refused(Exception):
    """A definite failure."""


Request = Callable[[object], Awaitable[Any]]
"""Ask the outside to act for the running call, and get what was given if the answer arrives."""

Find = Callable[[str], Any]
"""What the outside answered to the act with this key; None if there was none."""


def told_usage(reply: str) -> Usage | None:
    """What a reply says that it used: less than what was reserved, and of some nothing is known."""
    return Usage(len(reply), len(reply) * 2) if len(reply) % 4 else None


def draw_budget(chance: random.Random) -> Budget | None:
    """Limits that a program is likely to reach, or none."""
    if chance.random() < 0.5:
        return None
    drawn = {
        "usd": round(chance.uniform(0, 0.0005), 7),
        "tokens": chance.randint(0, 200),
        "calls": chance.randint(0, 8),
        "steps": chance.randint(0, 3),
        "seconds": chance.choice((1.0, 30.0)),
    }
    kinds = [kind for kind in drawn if chance.random() < 0.5]
    return Budget(**{kind: drawn[kind] for kind in kinds})  # type: ignore[arg-type]


def answer(tool: str, value: int) -> str:
    """What each tool answers, always."""
    return f"{tool}({value})"


_STYLES: tuple[tuple[Storage, Durability], ...] = tuple(
    (storage, durability)
    for storage in ("log", "snapshot", Hybrid(every=3))
    for durability in ("effects", "effects", "step", "strict")
)

STYLES = len(_STYLES)
"""How many ways there are to keep a run and to wait for the disk."""


def interpreter(request: Request, find: Find, style: int) -> Agent[Any, Any, Any]:
    """The one agent, kept in one of the styles."""
    storage, durability = _STYLES[style]
    agent: Agent[Any, Any, Any] = Agent(
        "interpreter",
        state=dict,
        goal=list,
        start=lambda program: {"at": 0, "log": []},
        storage=storage,
        durability=durability,
    )
    _reads(agent, request)
    _acts(agent, request, find)
    _failing(agent, request)

    @agent.step
    async def step(run: Any) -> None:
        program = run.goal
        run.state["log"].append(await _block(agent, run, program[run.state["at"]]))
        run.state["at"] += 1
        if run.state["at"] == len(program) and not fails(program):
            run.finish(len(run.state["log"]))

    return agent


def _reads(agent: Agent[Any, Any, Any], request: Request) -> None:
    @agent.tool(effect="read", retry=Retry(attempts=12, backoff=0.1))
    async def look(value: int) -> str:
        return str(await request(answer("look", value)))

    @agent.model(
        "thinker",
        retry=Retry(attempts=12, backoff=0.1),
        price=Price(input=1.0, output=3.0),
        reserve=Usage(20, 40),
        usage=told_usage,
    )
    async def think(value: int) -> str:
        return str(await request(answer("think", value)))


def _acts(agent: Agent[Any, Any, Any], request: Request, find: Find) -> None:
    @agent.tool(effect="idempotent", timeout=TIMEOUT)
    async def book(value: int) -> str:
        return str(await request(answer("book", value)))

    @agent.tool(effect="irreversible", timeout=TIMEOUT)
    async def pay(value: int) -> str:
        return str(await request(answer("pay", value)))

    @pay.reconcile
    async def paid(value: int) -> Done[str] | NotDone:
        found = find(current_call().key)
        return NotDone() if found is None else Done(str(found))

    @agent.tool(effect="irreversible", timeout=TIMEOUT)
    async def send(value: int) -> str:
        return str(await request(answer("send", value)))

    @agent.tool(effect="transactional")
    def move(value: int) -> str:
        call = current_call()
        call.tx.execute("CREATE TABLE IF NOT EXISTS moved (run TEXT, path TEXT, value INTEGER)")
        call.tx.execute("INSERT INTO moved VALUES (?, ?, ?)", (call.run_id, call.path, value))
        return answer("move", value)


def _failing(agent: Agent[Any, Any, Any], request: Request) -> None:
    @agent.tool(effect="irreversible", raises=[Refused], timeout=TIMEOUT)
    async def refuse(value: int) -> str:
        raise Refused(answer("refuse", value))

    @agent.tool(effect="irreversible", retry=Retry(attempts=3, backoff=0.2), timeout=TIMEOUT)
    async def reserve(value: int) -> str:
        if current_call().attempt < 2:
            raise NotDone("not yet")
        return str(await request(answer("reserve", value)))


def fails(program: Program) -> bool:
    """Whether its last step asks to fail."""
    return ["fail"] in program[-1]


async def _block(agent: Agent[Any, Any, Any], run: Any, statements: list[Statement]) -> list[Any]:
    return [await _do(agent, run, statement) for statement in statements]


async def _do(agent: Agent[Any, Any, Any], run: Any, statement: Statement) -> Any:
    match statement:
        case ["call", tool, value]:
            return await _call(agent, run, tool, value)
        case ["gather", blocks]:
            return list(await run.gather(*(_block(agent, run, block) for block in blocks)))
        case ["map", tool, values]:
            return await run.map(lambda value: _call(agent, run, tool, value), values, limit=2)
        case ["tools", calls]:
            asked = [
                {"id": f"c{n}", "function": {"name": tool, "arguments": {"value": value}}}
                for n, (tool, value) in enumerate(calls)
            ]
            return [message["content"] for message in await run.tools(asked)]
        case ["sleep", seconds]:
            await run.sleep(seconds)
            return "slept"
        case ["draw"]:
            run.now(), run.random(), run.new_id()
            return "drawn"
        case ["spawn", program, on_cancel]:
            try:
                return await run.spawn(agent, program, on_cancel=on_cancel)
            except ChildFailed as error:
                return f"child {error.status}"
        case ["fail"]:
            run.fail("as it was asked to")
            return "failing"
        case _:
            raise AssertionError(statement)


async def _call(agent: Agent[Any, Any, Any], run: Any, tool: str, value: int) -> str:
    try:
        return str(await run.call(agent.tool_named(tool), value))
    except Refused as error:
        return f"refused: {error}"


# --------------------------------------------------------------------------------------------- what must come


def expected(program: Program) -> list[Any]:
    """The log that a run of this program must end with."""
    return [_expected_block(step) for step in program]


def _expected_block(statements: list[Statement]) -> list[Any]:
    return [_expected(statement) for statement in statements]


def _expected(statement: Statement) -> Any:
    match statement:
        case ["call", "refuse", value]:
            return f"refused: {answer('refuse', value)}"
        case ["call", tool, value]:
            return answer(tool, value)
        case ["gather", blocks]:
            return [_expected_block(block) for block in blocks]
        case ["map", tool, values]:
            return [_expected(["call", tool, value]) for value in values]
        case ["tools", calls]:
            return [answer(tool, value) for tool, value in calls]
        case ["sleep", _]:
            return "slept"
        case ["spawn", program, _]:
            return "child failed" if fails(program) else len(program)
        case ["fail"]:
            return "failing"
        case _:
            return "drawn"


# ---------------------------------------------------------------------------------------------------- drawing

_DEEP: Mapping[int, tuple[str, ...]] = {
    0: ("call", "call", "call", "gather", "map", "tools", "sleep", "draw"),
    1: ("call", "call", "call", "sleep", "gather"),
    2: ("call",),
}


def draw_program(chance: random.Random, *, steps: int = 3) -> Program:
    """One to `steps` steps of one to three statements."""
    return [[_draw(chance, 0) for _ in range(chance.randint(1, 3))] for _ in range(chance.randint(1, steps))]


def draw_family(chance: random.Random, generations: int = 2) -> Program:
    """The same, with children among the statements, side by side too; some of them fail in the end."""
    program = draw_program(chance, steps=2)
    for step in program:
        for _ in range(chance.randint(0, 2) if generations else 0):
            step.insert(chance.randint(0, len(step)), _draw_spawn(chance, generations))
        if generations and chance.random() < 0.5:
            blocks = [[_draw_spawn(chance, generations)] for _ in range(chance.randint(1, 3))]
            step.append(["gather", [*blocks, [_draw(chance, 2)]]])
    if generations < 2 and chance.random() < 0.25:
        program[-1].append(["fail"])
    return program


def _draw_spawn(chance: random.Random, generations: int) -> Statement:
    return ["spawn", draw_family(chance, generations - 1), chance.choice(("cancel", "cancel", "wait"))]


def _draw(chance: random.Random, depth: int) -> Statement:
    kind = chance.choice(_DEEP[depth])
    value = chance.randint(0, 99)
    match kind:
        case "gather":
            blocks = [
                [_draw(chance, depth + 1) for _ in range(chance.randint(1, 2))]
                for _ in range(chance.randint(1, 3))
            ]
            return ["gather", blocks]
        case "map":
            tool = chance.choice(CALLS)
            return ["map", tool, [value + n for n in range(chance.randint(0, 3))]]
        case "tools":
            names = ("look", "book", "pay", "send", "reserve")
            return ["tools", [[chance.choice(names), value + n] for n in range(chance.randint(1, 3))]]
        case "sleep":
            return ["sleep", chance.choice((0, 0.5, 3, 20))]
        case "draw":
            return ["draw"]
        case _:
            return ["call", chance.choice(CALLS), value]
