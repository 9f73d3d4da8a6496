"""Log records say where they come from, say nothing twice, and nothing of the user's."""

from __future__ import annotations

import json
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import perdure
from perdure import Done, NotDone
from perdure.observe import JsonFormatter, Placed, QuietInReplay, TextFormatter, tell
from tests.cases.field import Field
from tests.processes import ended_by
from tests.unit.runtime.stage import RUN, Stage, World, agent


class Kept(logging.Handler):
    """Keeps the records that it is given, and how they look."""

    def __init__(self, *filters: logging.Filter) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.lines: list[str] = []
        self.addFilter(Placed())
        for one in filters:
            self.addFilter(one)
        self.setFormatter(JsonFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.records.append(record)
        self.lines.append(self.format(record))

    @property
    def said(self) -> list[str]:
        """The messages."""
        return [record.getMessage() for record in self.records]


@contextmanager
def kept(name: str, *filters: logging.Filter, level: int = logging.DEBUG) -> Iterator[Kept]:
    """Within the block a logger's records are kept."""
    logger, handler = logging.getLogger(name), Kept(*filters)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


@contextmanager
def life(level: int = logging.DEBUG) -> Iterator[Kept]:
    """Within the block runs are told as records, which are kept."""
    end = tell()
    try:
        with kept("perdure", level=level) as handler:
            yield handler
    finally:
        end()


def seller(world: World) -> Any:
    """Pays with canaries in its goal, arguments, results and exceptions; sleeps; loses an answer."""

    @perdure.tool()
    async def pay(who: str) -> str:
        logging.getLogger("shop").info("paying")
        return str(world.act(f"canary-result {who}"))

    @pay.reconcile
    async def paid(who: str) -> Done[str] | NotDone:
        found = world.find(perdure.current_call().key)
        return Done(found) if found else NotDone()

    @perdure.tool(effect="read", retry=perdure.Retry(attempts=2, backoff=0.01))
    async def look() -> int:
        if perdure.current_call().attempt == 1:
            raise ValueError("canary-error")
        return 1

    async def step(run: Any) -> None:
        logging.getLogger("shop").info("begins")
        run.log.info("begins")
        await look()
        await pay("canary-argument")
        logging.getLogger("shop").info("paid")
        run.log.info("paid")
        await run.sleep(3600)
        run.log.info("slept")
        logging.getLogger("shop").info("slept")
        run.finish(await pay("canary-argument"))

    return agent(step, pay, look)


async def _lived(stage: Stage, made: Any) -> None:
    async with stage.runtime(made) as place:
        assert (await place.run(made, RUN, "canary-goal", patience=timedelta(0))).status == "waiting"
    stage.clock.advance(3601)
    assert (await stage.run(made, "canary-goal")).status == "succeeded"


async def test_the_life_of_a_run_is_said_once(stage: Stage) -> None:
    """Over two processes and a lost answer; each record says where it comes from."""
    with life(logging.INFO) as handler:
        await _lived(stage, seller(World(lose=1)))
    mine = [record for record in handler.records if record.name == "perdure.life"]
    assert [record.getMessage() for record in mine] == [
        "run started",
        "outcome unknown: connection",
        "outcome found out by hook: done",
        "waits: sleep",
        "run resumed",
        "wait over: due",
        "run succeeded",
    ]
    for record in mine:
        told: Any = record
        assert (told.run, told.agent) == (RUN, "tester")
        assert told.step == 1
        assert told.worker.startswith("w-")
        assert told.epoch in (1, 2)
    assert "canary" not in "".join(handler.lines)


async def test_calls_are_said_for_who_debugs_and_never_their_values(stage: Stage) -> None:
    """At DEBUG: calls and steps, with path and attempt."""
    with life() as handler:
        await _lived(stage, seller(World()))
    told: list[Any] = [record for record in handler.records if record.name == "perdure.life"]
    calls = [(one.call, one.attempt) for one in told if one.getMessage().startswith("call ")]
    assert calls.count(("1:0", 1)) == 1
    assert ("1:0", 2) in calls
    assert "canary" not in "".join(handler.lines)


async def test_own_loggers_are_placed_and_quiet_in_a_replay(stage: Stage) -> None:
    """What the step says before its wait is said once, though the step is executed twice; so is run.log."""
    with kept("shop", QuietInReplay()) as shop, kept("perdure.run") as ours:
        await _lived(stage, seller(World()))
    assert shop.said == ["begins", "paying", "paid", "slept", "paying"]
    said = [text for text in ours.said if text.startswith(f"{RUN} step 1: ")]
    assert said == [f"{RUN} step 1: {word}" for word in ("begins", "paid", "slept")]
    body = [json.loads(line) for line in shop.lines if "paying" in line]
    assert [(one["run"], one["call"], one["attempt"], one["tool"]) for one in body] == [
        (RUN, "1:1", 1, "pay"),
        (RUN, "1:3", 1, "pay"),
    ]
    assert all(json.loads(line)["step"] == 1 for line in shop.lines)


async def test_without_the_filter_a_replay_says_it_again(memory: Stage) -> None:
    """The control of the test above."""
    with kept("shop") as shop:
        await _lived(memory, seller(World()))
    assert shop.said.count("begins") == 2


async def test_a_retried_step_is_warned_of_without_its_values(memory: Stage) -> None:
    """Also where a step raises: its type and place are said, what it said is in the journal."""
    tries: list[int] = []

    async def step(run: Any) -> None:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("canary-error")
        run.finish("done")

    made = agent(step, retry=perdure.Retry(attempts=2, backoff=0))
    with life(logging.INFO) as handler:
        assert (await memory.run(made)).status == "succeeded"
    assert any("ValueError" in text for text in handler.said)
    assert "canary" not in "".join(handler.lines)


async def test_a_worker_writes_them(field: Field) -> None:
    """`perdure worker --log json --log-level debug`: each line is a document, ours and the user's alike."""
    field.program(PROGRAM)
    begin = ("run", "app.py:agent", "canary", "--id", "r", "--detach", "--store", str(field.store))
    code, _, complaint = field.perdure(*begin)
    assert code == 0, complaint
    argv = ("-m", "perdure", "worker", "app.py:agent", "--store", str(field.store))
    worker = field.process(*argv, "--log", "json", "--log-level", "debug")
    await field.until_ended("r")
    lines = ended_by(worker, signal.SIGTERM).splitlines()
    told = [json.loads(line) for line in lines]
    mine = [one for one in told if one["logger"].startswith("perdure.") or one["logger"] == "shop"]
    assert {one["run"] for one in mine if "run" in one} == {"r"}
    assert [one["message"] for one in mine if one["logger"] == "perdure.life"] == [
        "run started",
        "call intended",
        "call done",
        "step committed",
        "run succeeded",
    ]
    (own,) = [one for one in mine if one["logger"] == "shop"]
    assert (own["message"], own["run"], own["tool"], own["attempt"]) == ("paying", "r", "pay", 1)
    assert "canary" not in "".join(lines)


PROGRAM = """
import logging
agent = Agent("desk", state=dict, start=lambda goal: {})


@agent.tool()
async def pay(who: str) -> str:
    logging.getLogger("shop").warning("paying")
    return who


@agent.step
async def step(run):
    run.finish(await pay("canary"))
"""


def test_a_record_is_one_line_whatever_is_in_it() -> None:
    """JSON escapes; text writes control characters out."""
    record = logging.makeLogRecord(
        {"name": "shop", "msg": "a\nb \x1b[31mred", "levelno": 20, "levelname": "INFO"}
    )
    Placed().filter(record)
    told = json.loads(JsonFormatter().format(record))
    assert told["message"] == "a\nb \x1b[31mred"
    assert "\n" not in JsonFormatter().format(record)
    line = TextFormatter().format(record)
    assert "\n" not in line
    assert "\x1b" not in line
    assert line.endswith("a\\nb \\x1b[31mred")
