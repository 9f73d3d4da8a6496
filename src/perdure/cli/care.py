"""Commands that look after a store: verify, doctor, explain.

None of them writes into a store; doctor times a few syncs with a file of its own, which it removes.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from dataclasses import replace

import click

from perdure import errors
from perdure.cli import exits
from perdure.cli.document import print_document
from perdure.cli.options import Options, printing, stored
from perdure.cli.storage import find, there, url_of
from perdure.errors import PerdureError, UnknownCode, at_store
from perdure.journal import Verification
from perdure.store.pages import every
from perdure.store.protocol import Query, Store
from perdure.timeline.amounts import counted
from perdure.timeline.plain import clean, jsonable

# ---------------------------------------------------------------------------------------------- verify


@click.command(short_help="Check every digest, snapshot and large value.")
@click.argument("run", required=False)
@stored
def verify(options: Options, run: str | None) -> int:
    """Check every digest, snapshot and large value of one run, or of all; exit 1 if anything is damaged."""
    return asyncio.run(_verify(options, run))


async def _verify(options: Options, text: str | None) -> int:
    async with there(options) as store:
        if text is not None:
            names = [(await find(store, text)).run_id]
        else:
            names = [row.run_id async for row in every(store, Query())]
        found = await _checked(store, names, quiet=options.json)
        erased = [name for name in names if await store.key(name) == b""]
    damaged = [(name, result) for name, result in found if not result.ok]
    if options.json:
        runs = [
            {"run_id": jsonable(name), **_result(result), "erased": name in erased} for name, result in found
        ]
        print_document({"store": url_of(options), "ok": not damaged, "runs": runs})
    else:
        for name, result in damaged:
            kind = "newer  " if result.newer else "damaged"
            click.echo(f"{kind}  {clean(name)}@{result.seq}: {clean(result.what)}")
        for name in erased:
            click.echo(f"erased   {clean(name)}: its personal data cannot be opened by anybody")
        events = sum(result.events for _, result in found)
        whole = len(found) - len(damaged)
        click.echo(f"{whole} of {counted(len(found), 'run')} whole, {counted(events, 'event')} checked")
        if any(result.newer for _, result in damaged):
            click.echo("newer runs are not damaged: a newer perdure reads them (pip install -U perdure)")
        if any(not result.newer for _, result in damaged):
            click.echo("only the damaged runs are quarantined; restore them from a backup, the others go on")
    return exits.FAILURE if damaged else exits.OK


async def _checked(store: Store, names: list[str], *, quiet: bool) -> list[tuple[str, Verification]]:
    from perdure import journal

    found: list[tuple[str, Verification]] = []
    hidden = quiet or len(names) < 20
    with click.progressbar(names, label="verifying", hidden=hidden, file=sys.stderr) as bar:
        for name in bar:
            found += [(name, await journal.verify(store, name))]
    return found


def _result(result: Verification) -> dict[str, object]:
    damage = None if result.ok or result.newer else {"seq": result.seq, "what": jsonable(result.what)}
    return {"ok": result.ok, "newer": result.newer, "events": result.events, "damage": damage}


# ---------------------------------------------------------------------------------------------- doctor


@click.command(short_help="Check this machine, this disk and this store.")
@stored
def doctor(options: Options) -> int:
    """Check this machine, this disk and this store; exit 1 if something is wrong."""
    from perdure.cli.health import examined

    findings = [
        replace(found, remedy=at_store(found.remedy, options.store))
        for found in asyncio.run(examined(options))
    ]
    if options.json:
        listed = [finding.document() for finding in findings]
        print_document(
            {"store": url_of(options), "ok": all(f.level != "bad" for f in findings), "findings": listed}
        )
    else:
        for finding in findings:
            mark, colour = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "bad": ("✗", "red")}[finding.level]
            click.echo(
                f" {click.style(mark, fg=colour, bold=True)} {finding.about:<12} {clean(finding.text)}"
            )
            if finding.remedy:
                click.echo(f"   {'':<12} remedy: {clean(finding.remedy)}")
    return exits.FAILURE if any(finding.level == "bad" for finding in findings) else exits.OK


# ---------------------------------------------------------------------------------------------- explain


@click.command(short_help="Explain an error code, offline.")
@click.argument("code", required=False)
@printing
def explain(options: Options, code: str | None) -> int:
    """Explain an error code, offline; without a code, list them all."""
    known = list(errors.catalogue())
    if code is None:
        chosen = known
    else:
        chosen = [
            kind for kind in known if kind.code == code.upper() or kind.__name__.lower() == code.lower()
        ]
        if not chosen:
            near = ", ".join(kind.code for kind in known if code and kind.code[0] == code[0].upper())
            raise UnknownCode(f"there is no error {clean(code)}", remedy=f"one of {near}" if near else None)
    if options.json:
        print_document({"errors": [_explained(kind) for kind in chosen]})
    elif code is None:
        for kind in chosen:
            click.echo(f"{kind.code}  {kind.__name__:<18} {_said(kind).splitlines()[0]}")
    else:
        _explain(chosen[0])
    return exits.OK


def _said(kind: type[PerdureError]) -> str:
    return inspect.getdoc(kind) or kind.__name__


def _explained(kind: type[PerdureError]) -> dict[str, str]:
    return {
        "code": kind.code,
        "name": kind.__name__,
        "family": kind.__mro__[1].__name__,
        "what": _said(kind),
        "safe": kind.default_safe,
        "remedy": kind.default_remedy,
    }


def _explain(kind: type[PerdureError]) -> None:
    click.echo(click.style(f"{kind.code}  {kind.__name__}", bold=True) + f"   ({kind.__mro__[1].__name__})")
    click.echo()
    click.echo(_said(kind))
    click.echo()
    for label, text in (("safe", kind.default_safe), ("remedy", kind.default_remedy)):
        if text:
            click.echo(click.style(f"{label:<8}", bold=True) + text)
