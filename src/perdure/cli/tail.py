"""The command that follows a run: tail.

It shows each event once it is durable, in order and without a gap, whatever process drives the run, and ends
with the run. It looks and never writes (law 14).
"""

from __future__ import annotations

import asyncio
import json

import click

from perdure.cli import exits
from perdure.cli.options import Options, stored
from perdure.cli.storage import find, point, there


@click.command(short_help="Follow a run: each event as it comes.")
@click.argument("run")
@stored
def tail(options: Options, run: str) -> int:
    """Follow a run: each event, one a line, once it is durable, until the run ends.

    RUN@41 begins after event 41. With --json each line is one event as a JSON object.
    """
    return asyncio.run(_tail(options, run))


async def _tail(options: Options, text: str) -> int:
    from perdure import journal
    from perdure.cli.drawing import events_listed
    from perdure.timeline.document import event_document

    name, seq = point(text)
    async with there(options) as store:
        row = await find(store, name)
        async for event in journal.follow(store, row.run_id, seq or 0):
            if options.json:
                click.echo(json.dumps(event_document(event), ensure_ascii=False))
            else:
                for line in events_listed([event]):
                    click.echo(line)
    return exits.OK
