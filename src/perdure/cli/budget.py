"""The command that shows what a run may use, what it has used, and gives it more.

To add is one message into the run's inbox, durably and without a lease, with who and why; a run that is held
because its budget was used up goes on with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import click

from perdure import journal
from perdure.agent import Budget
from perdure.cli import exits
from perdure.cli.act import user
from perdure.cli.document import print_document
from perdure.cli.options import Options, stored
from perdure.cli.storage import find, there
from perdure.errors import at_store
from perdure.host import Runtime
from perdure.state.record import RunRecord
from perdure.state.wording import told
from perdure.store.protocol import RunRow
from perdure.timeline.amounts import counted
from perdure.timeline.plain import clean, jsonable
from perdure.timeline.spending import NAMES, spending, spending_document


@click.command(short_help="Show what a run may use and has used; give it more.")
@click.argument("run")
@click.option("--add", "adds", multiple=True, metavar="KIND=AMOUNT", help="Such as usd=1, steps=20.")
@click.option("--why", default="", help="Why; it is recorded.")
@click.option("--by", default=user, show_default="the user's name", help="Who adds; it is recorded.")
@stored
def budget(options: Options, run: str, adds: tuple[str, ...], why: str, by: str) -> int:
    """Show what a run may use and what it has used of it; with --add, give it more.

    KIND is usd, tokens, calls, steps or seconds, and may be given several times; a negative AMOUNT takes back
    what is neither spent nor reserved.
    """
    if adds:
        return asyncio.run(_add(options, run, dict(amount(add, "--add") for add in adds), by, why))
    return asyncio.run(_show(options, run))


def amount(text: str, option: str) -> tuple[str, float]:
    """A kind and an amount as typed: `usd=1`. Raises UsageError, which names the option."""
    name, _, number = text.partition("=")
    if number and name.strip() not in Budget.__struct_fields__:
        kinds = ", ".join(Budget.__struct_fields__)
        raise click.UsageError(f"{option} knows no {name.strip()!r}; its kinds: {kinds}")
    try:
        return name.strip(), int(number) if number.strip().lstrip("+-").isdigit() else float(number)
    except ValueError:
        raise click.UsageError(f"{option} takes KIND=AMOUNT, such as usd=1, not {text!r}") from None


def limits(texts: Sequence[str]) -> Budget:
    """Limits as typed: `usd=1`, `steps=20`. Raises UsageError, BadSetting."""
    given: dict[str, Any] = dict(amount(text, "--budget") for text in texts)
    return Budget(**given)


async def _add(options: Options, text: str, more: dict[str, float], by: str, why: str) -> int:
    async with there(options, look=False) as store, Runtime(store) as runtime:
        row = await find(store, text)
        await runtime.raise_budget(row.run_id, by=by, why=why, **more)
    if options.json:
        print_document(
            {"run_id": jsonable(row.run_id), "accepted": "budget", "by": by, "why": why, "add": more}
        )
        return exits.OK
    added = ", ".join(f"{name}={amount:g}" for name, amount in more.items())
    click.echo(f"recorded: budget {clean(row.run_id)} + {added}, by {clean(by)}")
    way = f"perdure run FILE:AGENT --id {clean(row.run_id)}, or perdure worker FILE:AGENT"
    click.echo(f"the next worker applies it: {at_store(way, options.store)}")
    return exits.OK


async def _show(options: Options, text: str) -> int:
    async with there(options) as store:
        row = await find(store, text)
        past = await journal.load(store, row.run_id)
    if options.json:
        print_document(_document(past.row, past.record))
        return exits.OK
    _draw(past.row, past.record)
    return exits.OK


def _document(row: RunRow, record: RunRecord) -> dict[str, Any]:
    held = record.held is not None and record.held.reason == "over-budget"
    spent = {name: getattr(record.spent, name) for name in record.spent.__struct_fields__}
    return {
        "run_id": jsonable(row.run_id),
        "budget": spending_document(spending(record)),
        "spent": spent,
        "held_for_it": held,
    }


def _draw(row: RunRow, record: RunRecord) -> None:
    from perdure.cli.screen import Row, Screen

    screen = Screen()
    lines = spending(record)
    if not lines:
        spent = record.spent
        screen.draw(
            f"{clean(row.run_id)} has no limits; it has used {told('usd', spent.usd)},"
            f" {told('tokens', spent.input_tokens + spent.output_tokens)}, {told('calls', spent.calls)},"
            f" {told('steps', spent.steps)}"
        )
    else:
        rows: list[Row] = [
            [
                NAMES[line.kind],
                told(line.kind, line.spent),
                told(line.kind, line.reserved),
                told(line.kind, line.limit),
                told(line.kind, line.left),
                line.source,
            ]
            for line in lines
        ]
        screen.draw_columns(("KIND", "SPENT", "RESERVED", "LIMIT", "LEFT", "FROM"), rows)
    if record.spent.unpriced:
        screen.draw(
            f"{record.spent.unpriced} replies of models whose price is not known are not in the money"
        )
    if record.held is not None and record.held.reason == "over-budget":
        screen.draw("", clean(record.held.detail))
        if row.pending:
            screen.draw(f"{counted(row.pending, 'message')} came since; the next worker applies them")
        else:
            screen.draw_commands([clean(remedy) for remedy in record.held.remedies])
