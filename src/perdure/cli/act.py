"""Commands with which a person answers a run: resolve, release, retry, cancel, retire.

Each puts one message into the run's inbox, durably and without a lease; whoever drives the run applies it
once. Only `resolve --app` loads a user's code. An answer that the run cannot take is refused before anything
is written.
"""

from __future__ import annotations

import asyncio
import getpass
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import click

from perdure import journal
from perdure.agent import Agent
from perdure.cli import exits
from perdure.cli.app import load
from perdure.cli.document import print_document
from perdure.cli.options import Options, stored
from perdure.cli.storage import find, there
from perdure.errors import NothingToResolve, NotServed, at_store
from perdure.host import Runtime
from perdure.store.protocol import RunRow
from perdure.timeline.plain import clean, jsonable


def user() -> str:
    """Who types: the name of the operating system's user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def answering(command: Any) -> Any:
    """The options that every answer takes."""
    by = click.option(
        "--by", default=user, show_default="the user's name", help="Who answers; it is recorded."
    )
    note = click.option("--note", default="", help="Why; it is recorded.")
    return by(note(stored(command)))


@click.command(short_help="Say what became of a call whose reply never came.")
@click.argument("run")
@click.argument("call", required=False)
@click.option("--done", metavar="RESULT", help="It happened, with this result: JSON, or else text.")
@click.option("--not-done", is_flag=True, help="It did not happen; it may be made again.")
@click.option("--failed", metavar="MESSAGE", help="It failed for good; the step gets this error.")
@click.option(
    "--app", "--agent", "app", metavar="MODULE:AGENT", help="Check RESULT by the type that the tool declares."
)
@answering
def resolve(options: Options, run: str, call: str | None, app: str | None, **answer: Any) -> int:
    """Say what became of a call whose reply never came. CALL may be left out if only one is unknown."""
    given = {name: value for name, value in answer.items() if value not in (None, False)}
    verdict = {name: given[name] for name in ("done", "not_done", "failed") if name in given}
    who = {"by": answer["by"], "note": answer["note"]}
    if len(verdict) != 1:
        raise click.UsageError("give exactly one of --done RESULT, --not-done, --failed MESSAGE")
    if "done" in verdict:
        verdict["done"] = value_of(verdict["done"])

    agents = () if app is None else (load(app),)

    async def act(runtime: Runtime, row: RunRow) -> dict[str, Any]:
        path = call or await _only_unknown(runtime, row.run_id)
        if agents and row.agent not in runtime.agents:
            names = f"agent {clean(row.agent)}, not to {agents[0].name}"
            raise NotServed(
                f"run {clean(row.run_id)} belongs to {names}",
                safe="Nothing was sent to the run.",
                remedy=f"name where agent {clean(row.agent)} is: --app MODULE:AGENT",
            )
        await runtime.resolve(row.run_id, path, **verdict, **who)
        return {"call": path, "checked": bool(agents)} if "done" in verdict else {"call": path}

    return send(options, run, "resolve", who, act, agents)


def value_of(text: str) -> Any:
    """What was typed: JSON, or else text. Raises UsageError for JSON that Python does not read."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
    except (RecursionError, ValueError) as error:  # nested too deeply; a number of too many digits
        raise click.UsageError(f"{text[:40]}… cannot be read: {error}") from None


async def _only_unknown(runtime: Runtime, run_id: str) -> str:
    calls = (await journal.load(runtime.store, run_id)).record.calls.values()
    unknown = [call for call in calls if call.standing in ("open", "unknown")]
    if len(unknown) == 1:
        return unknown[0].path
    if not unknown:
        raise NothingToResolve(f"run {clean(run_id)} has no call whose outcome is open", run_id=run_id)
    names = ", ".join(f"{call.path} ({clean(call.name)})" for call in unknown)
    raise NothingToResolve(f"run {clean(run_id)} has several: {names}", remedy="name the CALL", run_id=run_id)


@click.command(short_help="Let a held run go on as it is.")
@click.argument("run")
@click.option("--sure", is_flag=True, help="Of a restored or imported run: nothing else was done.")
@answering
def release(options: Options, run: str, sure: bool, **who: str) -> int:
    """Let a held run go on as it is.

    One that was restored or imported looks up each act before it makes it, by the reconcile hook of its tool,
    and where there is none it is held again to ask; with --sure it acts without asking.
    """

    async def act(runtime: Runtime, row: RunRow) -> dict[str, Any]:
        await runtime.release(row.run_id, sure=sure, **who)
        return {"sure": True} if sure else {}

    return send(options, run, "release", who, act)


@click.command(short_help="Execute a held run's open step again.")
@click.argument("run")
@click.option("--restart", is_flag=True, help="Without the step's records; only if nothing in it acts.")
@answering
def retry(options: Options, run: str, restart: bool, **who: str) -> int:
    """Execute a held run's open step again, after you have mended it."""

    async def act(runtime: Runtime, row: RunRow) -> dict[str, Any]:
        await runtime.retry(row.run_id, restart=restart, **who)
        return {"restart": restart}

    return send(options, run, "retry", who, act)


@click.command(short_help="End a run.")
@click.argument("run")
@click.option(
    "--compensate", is_flag=True, help="Undo what it has done first, newest first, by its tools' undo hooks."
)
@answering
def cancel(options: Options, run: str, compensate: bool, by: str, note: str) -> int:
    """End a run: no new act is begun, and it is cancelled once every open call has a verdict."""
    who = {"by": by, "note": note}

    async def act(runtime: Runtime, row: RunRow) -> dict[str, Any]:
        ended = await runtime.cancel(row.run_id, by=by, note=note, compensate=compensate)
        return {"ended": ended, "compensate": compensate}

    return send(options, run, "cancel", who, act)


@click.command(short_help="End a run that no code can carry on.")
@click.argument("run")
@answering
def retire(options: Options, run: str, **who: str) -> int:
    """End a run for good because no code can carry it on; its agent is not needed, and nothing is undone.

    Refused while the outcome of a call is not known, a child goes on, or a worker drives the run.
    """

    async def act(runtime: Runtime, row: RunRow) -> dict[str, Any]:
        await runtime.retire(row.run_id, **who)
        return {"ended": True}

    return send(options, run, "retire", who, act)


ENDS = frozenset({"cancel", "retire"})
"""What ends a run takes its whole id: a slip, or a shell's empty variable, must not end another one."""

UNCHECKED = (
    "the result was not checked by the tool's declared type (--app MODULE:AGENT does that); the worker checks"
    " it, and keeps the run held if it does not fit"
)
"""Said of a result that was taken while its tool was not at hand."""


Act = Callable[[Runtime, RunRow], Awaitable[dict[str, Any]]]
"""Sends one answer to the run of a row, and tells what more there is to say of it."""


def send(
    options: Options,
    text: str,
    verb: str,
    who: dict[str, str],
    act: Act,
    agents: Sequence[Agent[Any, Any, Any]] = (),
) -> int:
    """Carry an answer to the run that `text` means, and say that it is durable."""

    async def sent() -> tuple[RunRow, dict[str, Any]]:
        async with there(options, look=False) as store, Runtime(store, agents) as runtime:
            row = await find(store, text, whole=verb in ENDS)
            return row, await act(runtime, row)

    row, more = asyncio.run(sent())
    if options.json:
        print_document({"run_id": jsonable(row.run_id), "accepted": verb, "by": who["by"], **more})
        return exits.OK
    call = f" call {more['call']}" if "call" in more else ""
    if more.get("fresh") is False:
        click.echo(f"known already: this very {verb} came before; nothing was changed")
        return exits.OK
    click.echo(f"recorded: {verb} {clean(row.run_id)}{call}, by {clean(who['by'])}")
    if more.get("checked") is False:
        click.echo(UNCHECKED)
    if more.get("ended"):
        click.echo(f"it has ended as {'retired' if verb == 'retire' else 'cancelled'}")
        return exits.OK
    way = f"perdure run FILE:AGENT --id {clean(row.run_id)}, or perdure worker FILE:AGENT"
    click.echo(f"the next worker applies it: {at_store(way, options.store)}")
    return exits.OK
