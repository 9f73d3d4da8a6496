"""The command `run`: one run, here, until it ends, waits or is held."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from shlex import quote
from typing import Any

import click

from perdure.agent import Agent, Budget, Cancelled, Failed, Finished, Held, Outcome, Retired, Waiting
from perdure.agent.blocking import run_blocking
from perdure.agent.placing import Placing, placement_of
from perdure.cli import exits
from perdure.cli.document import print_document
from perdure.cli.options import Options, stored
from perdure.cli.storage import path_of, url_of
from perdure.clock import SECOND, SYSTEM
from perdure.codec import plain
from perdure.errors import AmbiguousRun, BadGoal, NoSuchRun, NotServed, PerdureError, at_store
from perdure.host import PATIENCE, Runtime
from perdure.runtime.plain_loop import plain_loop
from perdure.runtime.vaults import apart
from perdure.store.protocol import Query, RunRow
from perdure.store.standing import check_id
from perdure.timeline.inbox import entries
from perdure.timeline.plain import brief, clean, jsonable

SILENT_SECONDS = 1.0
"""A wait that is shorter is not told."""

OPEN_SHOWN = 8
"""Open runs that are named when it is not clear which one is meant."""


@dataclass(slots=True)
class Order:
    """What `perdure run` was asked for; `run_id` is filled in as soon as it is known.

    `over`: the run had ended before; `asked`: what it asks people for, and how they answer.
    """

    app: str
    goal: str | None
    run_id: str | None
    check: bool
    detach: bool
    budget: Budget | None = None
    placing: Placing = field(default_factory=Placing)
    over: bool = False
    asked: list[tuple[str, str]] = field(default_factory=list)


@click.command(short_help="Start a run here, or carry one on.")
@click.argument("app", metavar="FILE[:AGENT]")
@click.argument("goal", required=False)
@click.option("--id", "run_id", help="The run's id. Default: the only open run of this agent, else a new id.")
@click.option("--check/--no-check", default=True, show_default=True, help="Replay each step from its record.")
@click.option("--detach", is_flag=True, help="Make the run durable and leave it to a worker.")
@click.option("--budget", metavar="KIND=AMOUNT,...", help="A new run's own limits, such as usd=0.5,steps=20.")
@click.option("--queue", help="The queue of a new run. Default: default.")
@click.option("--tag", "tags", multiple=True, help="What a new run's worker must offer; may be repeated.")
@click.option("--priority", type=int, help="Of a new run, -100 to 100; higher first.")
@click.option("--key", "limit_key", help="Of a new run: few of the runs that share it are at work at once.")
@click.option("--key-limit", type=click.IntRange(1), help="How many. Default: 1.")
@stored
def run(options: Options, /, app: str, goal: str | None, run_id: str | None, **how: Any) -> int:
    """Start a run here, or carry one on, until it ends, waits or is held.

    GOAL is text, or JSON for an agent with a goal type. Without GOAL the agent's open run is carried on.
    Ctrl-C leaves the run where it is; the same command goes on from there.
    """
    order = Order(app, goal, run_id, how["check"], how["detach"], _budget(how["budget"]), _placing(how))
    began = time.monotonic()
    try:
        with own_output(options):
            outcome = run_blocking(_run(options, order))
    except KeyboardInterrupt:
        return _left(options, order)
    if outcome is None:
        return _detached(options, order)
    with apart():  # the outcome is opened
        return _told(options, order, outcome, time.monotonic() - began)


def _placing(how: dict[str, Any]) -> Placing:
    """What was said of where a new run stands. Raises BadSetting."""
    names = ("queue", "tags", "priority", "limit_key", "key_limit")
    placing: dict[str, Any] = {name: how[name] for name in names if how[name] not in (None, ())}
    placement_of(placing)  # type: ignore[arg-type]
    return placing  # type: ignore[return-value]


def _budget(text: str | None) -> Budget | None:
    """The limits as typed. Raises UsageError, BadSetting."""
    if text is None:
        return None
    from perdure.cli.budget import limits

    return limits(text.split(","))


def own_output(options: Options) -> contextlib.AbstractContextManager[object]:
    """With --json standard output is for the document: what the user's code prints goes to standard error."""
    return contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext()


async def _run(options: Options, order: Order) -> Outcome[Any] | None:
    from perdure.cli.app import load

    agent = load(order.app)
    agent.validate()
    if agent.step_fn is None:
        plain_loop(agent)  # which refuses what it could not drive
    goal = goal_of(agent, order.goal) if order.goal is not None or _new_store(options) is not None else None
    if order.run_id is not None:
        check_id(order.run_id)
    say_new(options)
    async with Runtime(options.store, [agent], check=order.check) as runtime:
        row = await _meant(runtime, agent, order)
        if row is not None:
            order.run_id, order.over = row.run_id, row.terminal
        elif order.goal is None:
            goal = goal_of(agent, None)
        order.run_id = order.run_id or SYSTEM.new_id()
        if row is None or order.goal is not None:
            await runtime.start(agent, order.run_id, goal, budget=order.budget, **order.placing)
        elif order.budget is not None:
            raise click.UsageError(f"--budget is for a new run; {order.run_id} exists: perdure budget --add")
        say(options, _opening(row, order, agent, runtime.store.url))
        return None if order.detach else await _carried(runtime, options, order)


async def _carried(runtime: Runtime, options: Options, order: Order) -> Outcome[Any]:
    """Carry the run on; while it waits for less than a minute, say what for."""
    assert order.run_id is not None
    until, patience = time.monotonic() + PATIENCE.total_seconds(), SILENT_SECONDS
    while True:
        outcome = await runtime.resume(order.run_id, patience=timedelta(seconds=patience))
        if not isinstance(outcome, Waiting):
            return outcome
        order.asked = _deciding(await runtime.store.row(order.run_id))
        if outcome.until is None:
            return outcome
        left = (outcome.until.timestamp() * SECOND - runtime.store.now()) / SECOND
        if left > until - time.monotonic():
            return outcome
        if left > SILENT_SECONDS:
            say(options, f"waiting{_said(outcome)}")
            for label, text in order.asked:
                say(options, f"  {label:<7} {at_store(text, options.store)}")
        patience = max(left, 0.0) + SILENT_SECONDS


async def _meant(runtime: Runtime, agent: Agent[Any, Any, Any], order: Order) -> RunRow | None:
    """The run that is there already, if one is meant: by id, or because it is the agent's only open one."""
    if order.run_id is not None:
        try:
            row = await runtime.store.row(order.run_id)
        except NoSuchRun:
            return None
        if row.agent != agent.name:
            raise NotServed(f"run {row.run_id} belongs to agent {clean(row.agent)}, not to {agent.name}")
        return row
    if order.goal is not None:
        return None
    rows = await runtime.store.list(Query(agent=agent.name, open_only=True, limit=OPEN_SHOWN + 1))
    if len(rows) > 1:
        names = [row.run_id for row in rows[:OPEN_SHOWN]]
        raise AmbiguousRun(
            f"agent {agent.name} has several open runs: {', '.join(map(clean, names))}",
            remedy=f"perdure run {order.app} --id {clean(names[0])}, or give a GOAL for a new one",
            matches=names,
        )
    return rows[0] if rows else None


def goal_of(agent: Agent[Any, Any, Any], text: str | None) -> Any:
    """The goal as the agent's goal type has it: text where it takes text, else JSON; its defaults if none is
    given.
    """
    candidates: list[Any] = [{}] if text is None else [text]
    not_json = ""
    if text is not None:
        try:
            candidates.append(json.loads(text))
        except (RecursionError, ValueError) as error:  # only the text itself is a candidate
            not_json = f"; as JSON it cannot be read: {error}"
    refusal: PerdureError | None = None
    for candidate in candidates:
        try:
            return agent.goal_shape.restore(plain(candidate), where="$.goal")
        except PerdureError as error:
            refusal = error
    for candidate in candidates:  # what stored data does not have and JSON does: personal data in the clear
        with contextlib.suppress(PerdureError):
            return agent.goal_shape.parse(candidate, where="$.goal")
    if text is None:
        raise BadGoal(f"agent {agent.name} needs a goal, and has no open run to carry on") from refusal
    why = refusal.what if refusal is not None else ""
    raise BadGoal(f"the goal does not fit agent {agent.name}: {why}{not_json}") from refusal


# ---------------------------------------------------------------------------------------------- what is said


def say(options: Options, text: str) -> None:
    """Say something to a person; a program that reads JSON is not told."""
    if not options.json:
        click.echo(text)


def say_new(options: Options) -> None:
    """Say that there is no such store yet: a name that was mistyped would else go unnoticed."""
    path = _new_store(options)
    if path is not None and path.absolute().parent.is_dir():
        click.echo(f"new store {clean(str(path.absolute()))}", err=True)


def _new_store(options: Options) -> Path | None:
    """The store's file if it is not there yet: no run can be meant."""
    path = path_of(url_of(options))
    return path if path is not None and not path.exists() else None


def _opening(row: RunRow | None, order: Order, agent: Agent[Any, Any, Any], store: str) -> str:
    verb = "start" if row is None else "look at" if row.terminal else "carry on"
    return f"{verb} {click.style(clean(order.run_id or ''), bold=True)}  agent {agent.name}, store {store}"


def _left(options: Options, order: Order) -> int:
    name = order.run_id
    if options.json:
        print_document({"run_id": jsonable(name), "status": "interrupted", "exit": exits.INTERRUPTED})
    elif name is None:
        click.echo("stopped; no run was started", err=True)
    else:
        click.echo(f"\nstopped. Run {clean(name)} is kept where it was.", err=True)
        way = f"perdure run {order.app} --id {clean(name)}"
        click.echo(f"carry it on   {at_store(way, options.store)}", err=True)
    return exits.INTERRUPTED


def _detached(options: Options, order: Order) -> int:
    name = clean(order.run_id or "")
    if options.json:
        print_document({"run_id": jsonable(order.run_id), "status": "ready", "exit": exits.OK})
    else:
        tags = "".join(f" --tag {quote(clean(tag))}" for tag in order.placing.get("tags", ()))
        way = at_store(f"perdure worker {order.app}{tags}", options.store)
        click.echo(f"the run is durable; a worker drives it: {way}")
        click.echo(f"look   {at_store(f'perdure show {name}', options.store)}")
    return exits.OK


def _told(options: Options, order: Order, outcome: Outcome[Any], seconds: float) -> int:
    code = exits.OUTCOMES[outcome.status]
    if isinstance(outcome, Waiting) and outcome.approvals:
        code = exits.NEEDS_PERSON
    if options.json:
        print_document(_document(order, outcome, code))
        return code
    colour = {"succeeded": "green", "held": "magenta", "waiting": "blue"}.get(outcome.status, "red")
    when = "already" if order.over else f"after {seconds:.2f} s"
    click.echo(f"{click.style(outcome.status, fg=colour, bold=True)} {when}{_said(outcome)}")
    for label, text in _next(order, outcome):
        click.echo(f"  {label:<7} {at_store(text, options.store)}")
    return code


def _said(outcome: Outcome[Any]) -> str:
    match outcome:
        case Finished(result=result):
            return f": {brief(plain(result), 400)}"
        case Held(reason=reason, detail=detail):
            return f", {clean(reason)}" + (f": {clean(detail)}" if detail else "")
        case Waiting(reasons=reasons, until=until):
            end = f", until {until:%Y-%m-%d %H:%M:%SZ} at the latest" if until else ""
            return f", for {clean('; '.join(reasons))}{end}"
        case Failed(error=error, type_name=kind):
            return f": {clean(kind)}: {clean(error)}" if kind else f": {clean(error)}"
        case Cancelled(by=by, note=note, undone=undone, left=left):
            said = f" by {clean(by)}" + (f": {clean(note)}" if note else "")
            told = [f"; {word}: {', '.join(paths)}" for word, paths in _undone(undone, left) if paths]
            return said + "".join(told)
        case Retired(by=by, note=note):
            return f" by {clean(by)}" + (f": {clean(note)}" if note else "")


def _undone(undone: tuple[str, ...], left: tuple[str, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return (("undone", undone), ("not undone", left))


def _next(order: Order, outcome: Outcome[Any]) -> list[tuple[str, str]]:
    name = clean(order.run_id or "")
    steps = [("look", f"perdure show {name}")]
    if isinstance(outcome, Held):
        steps += [("remedy", clean(remedy)) for remedy in outcome.remedies]
        steps += [("then", f"perdure run {order.app} --id {name}")]
    elif isinstance(outcome, Waiting):
        steps += order.asked
        steps += [
            ("then", f"perdure run {order.app} --id {name}, or leave it to: perdure worker {order.app}")
        ]
    return steps


def _deciding(row: RunRow) -> list[tuple[str, str]]:
    """How what the run asks people for is permitted, forbidden or answered."""
    labels = {"approval": "permit", "answer": "answer"}
    asked = [entry for entry in entries([row]) if entry.kind in labels and not entry.taken]
    return [(labels[entry.kind], ", or ".join(entry.commands)) for entry in asked]


def _document(order: Order, outcome: Outcome[Any], code: int) -> dict[str, Any]:
    document: dict[str, Any] = {"run_id": jsonable(order.run_id), "status": outcome.status, "exit": code}
    match outcome:
        case Finished(result=result):
            document["result"] = jsonable(plain(result))
        case Held(reason=reason, remedies=remedies, detail=detail):
            document |= {
                "reason": jsonable(reason),
                "detail": jsonable(detail),
                "remedies": jsonable(remedies),
            }
        case Waiting(reasons=reasons, until=until):
            asked = [
                {"id": jsonable(one.id), "tool": jsonable(one.tool), "args": jsonable(one.args)}
                for one in outcome.approvals
            ]
            document |= {"reasons": jsonable(reasons), "until": until.isoformat() if until else None}
            document |= {"approvals": asked} if asked else {}
        case Failed(error=error, type_name=kind):
            document["error"] = {"type": jsonable(kind), "message": jsonable(error)}
        case Cancelled(by=by, note=note, undone=undone, left=left):
            document |= {"by": jsonable(by), "note": jsonable(note), "undone": undone, "left": left}
        case Retired(by=by, note=note):
            document |= {"by": jsonable(by), "note": jsonable(note)}
    return document
