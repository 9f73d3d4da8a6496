"""Commands about permissions that look: inbox, audit.

They write nothing and load no user's code; the inbox is a list, so that it loads as little as `runs` does.
"""

from __future__ import annotations

import asyncio

import click

from perdure.cli import exits
from perdure.cli.document import print_document
from perdure.cli.options import Options, stored
from perdure.cli.storage import find, there
from perdure.store.protocol import Query
from perdure.timeline.plain import jsonable

# ---------------------------------------------------------------------------------------------- inbox


@click.command(short_help="What people are asked for: permissions, answers, held runs.")
@click.option("--agent", help="Only of this agent.")
@click.option(
    "--limit", default=50, show_default=True, type=click.IntRange(1, 10_000), help="At most so many runs."
)
@stored
def inbox(options: Options, agent: str | None, limit: int) -> int:
    """What people are asked for, newest run first: permissions, answers, and held runs."""
    return asyncio.run(_inbox(options, agent, limit))


async def _inbox(options: Options, agent: str | None, limit: int) -> int:
    from perdure.timeline.inbox import entries, entry_document

    async with there(options) as store:
        rows = await store.list(Query(asks=True, agent=agent, limit=limit + 1))
        now, url = store.now(), store.url
    found, more = entries(rows[:limit]), len(rows) > limit
    if options.json:
        from perdure.timeline.amounts import stamp

        listed = [entry_document(entry, stamp) for entry in found]
        print_document({"store": url, "now": stamp(now), "more": more, "entries": listed})
        return exits.OK
    from perdure.cli.ledger import draw_inbox

    draw_inbox(found, now, more=more, store=options.store)
    return exits.OK


# ---------------------------------------------------------------------------------------------- audit


@click.command(short_help="What a run did outside, which guarantee held, and who permitted it.")
@click.argument("run")
@stored
def audit(options: Options, run: str) -> int:
    """For each act of a run: what it was, which guarantee held for it, and who permitted it."""
    return asyncio.run(_audit(options, run))


async def _audit(options: Options, text: str) -> int:
    from perdure import journal
    from perdure.timeline.audit import audit as audited
    from perdure.timeline.pruning import epitaph_document, epitaph_of

    async with there(options) as store:
        name = text
        if (left := epitaph_of(await store.tombstones(text))) is not None:
            acts = audited(left.told())
        else:
            name = (await find(store, text)).run_id
            acts = audited((await journal.retold(store, name)).events)
    if options.json:
        from perdure.timeline.document import act_document

        document = {"run_id": jsonable(name), "acts": [act_document(act) for act in acts]}
        print_document(document if left is None else {**document, "removed": epitaph_document(left)})
        return exits.OK
    from perdure.cli.ledger import draw_audit

    draw_audit(name, acts, removed=left)
    return exits.OK
