"""Commands with which people decide: approve, deny.

Each puts one decision into the run's inbox, durably and without a lease, and tells whether it is the one that
counts. User code is loaded only where a decision needs it: with --app.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import click

from perdure import journal
from perdure.cli import exits
from perdure.cli.act import answering
from perdure.cli.document import print_document
from perdure.cli.options import Options
from perdure.cli.storage import find, there
from perdure.errors import NoSuchApproval, NoSuchRun, at_store
from perdure.store.protocol import Store
from perdure.timeline.plain import clean, jsonable


def _deciding(command: Any) -> Any:
    """What both decisions take."""
    role = click.option("--role", "roles", multiple=True, help="A role of whoever decides; may be repeated.")
    app = click.option("--app", metavar="FILE:AGENT", help="The agent's code, where the decision needs it.")
    return click.argument("approval")(role(app(answering(command))))


@click.command(short_help="Permit a call that a run asks for.")
@_deciding
@click.option("--edit", "edits", metavar="NAME=VALUE", multiple=True, help="Another argument: JSON, or text.")
def approve(options: Options, approval: str, edits: tuple[str, ...], **how: Any) -> int:
    """Permit a call, once. APPROVAL is an id from the inbox, or a run that asks for one thing only."""
    return _decide(options, "approve", approval, how, _edit(edits))


@click.command(short_help="Forbid a call that a run asks for, or take a permission back.")
@_deciding
def deny(options: Options, approval: str, **how: Any) -> int:
    """Forbid a call, or take back a permission that is not used yet. APPROVAL: as for approve."""
    return _decide(options, "deny", approval, how, {})


def _edit(edits: tuple[str, ...]) -> dict[str, Any]:
    edit: dict[str, Any] = {}
    for text in edits:
        name, mark, value = text.partition("=")
        if not mark or not name:
            raise click.UsageError(f"--edit {text}: write NAME=VALUE")
        try:
            edit[name] = json.loads(value)
        except ValueError:
            edit[name] = value
    return edit


def _decide(options: Options, verb: str, text: str, how: dict[str, Any], edit: dict[str, Any]) -> int:
    from perdure.agent import Principal
    from perdure.cli.app import load
    from perdure.host import Runtime

    who = Principal(how["by"], frozenset(how["roles"]))
    agents = [load(how["app"])] if how["app"] else []

    async def decided() -> str:
        async with there(options, look=False) as store, Runtime(store, agents) as runtime:
            approval = await _meant(store, text)
            if verb == "approve":
                await runtime.approve(approval, by=who, note=how["note"], edit=edit or None)
            else:
                await runtime.deny(approval, by=who, note=how["note"])
            return approval

    approval = asyncio.run(decided())
    if options.json:
        told: dict[str, Any] = {"approval": jsonable(approval), "accepted": verb, "by": jsonable(who.id)}
        print_document({**told, "edit": jsonable(edit)} if edit else told)
        return exits.OK
    click.echo(f"recorded: {verb} {clean(approval)}, by {clean(who.id)}")
    run_id = approval.rpartition("~")[0]
    way = f"perdure run FILE:AGENT --id {clean(run_id)}, or perdure worker FILE:AGENT"
    click.echo(f"the next worker applies it: {at_store(way, options.store)}")
    return exits.OK


async def _meant(store: Store, text: str) -> str:
    """The approval of this id, else the only one that the run so named asks for. Raises NoSuchApproval."""
    from perdure.runtime.decisions import run_of
    from perdure.runtime.requests import requests

    if run_of(text) is not None:
        return text
    try:
        row = await find(store, text)
    except NoSuchRun as error:
        raise NoSuchApproval(f"{clean(text)} is no approval, and no run's id begins with it") from error
    past = await journal.load(store, row.run_id)
    asked = requests(row.run_id, past.record)
    if len(asked) == 1:
        return asked[0].id
    if not asked:
        raise NoSuchApproval(f"run {clean(row.run_id)} asks for no permission now")
    named = ", ".join(f"{clean(one.id)} ({clean(one.tool)})" for one in asked)
    raise NoSuchApproval(f"run {clean(row.run_id)} asks for {len(asked)}: {named}", remedy="name one of them")
