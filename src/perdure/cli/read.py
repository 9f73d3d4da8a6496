"""Commands that look: runs, show, why, stats.

They never load a user's code (but for `runs --stranded`, which asks about it), never build a user's object
and never write (law 14); a store that is not there stays not there. A run is only shown as ended if its
terminal event was written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, get_args

import click
from msgspec.structs import replace

from perdure.cli.document import print_document
from perdure.cli.options import Options, stored
from perdure.cli.storage import find, point, there
from perdure.codec.redaction import revealing
from perdure.errors import BadPoint, Damaged, NewerFormat, NoSuchRun, RunGone
from perdure.store.protocol import Query, RunRow, Store
from perdure.timeline.condition import Condition, Word, condition, note_of

Wanted = Callable[[RunRow, Condition], Condition | None]
"""How a run is listed; None if it is not."""

PAGE = 200
"""Runs that are listed at a time, at least."""


# ---------------------------------------------------------------------------------------------- runs


@click.command(short_help="List runs, and why each stands where it stands.")
@click.option("--status", "words", multiple=True, type=click.Choice(get_args(Word)), help="Only these.")
@click.option("--agent", help="Only runs of this agent.")
@click.option("--open", "open_only", is_flag=True, help="Only runs that have not ended.")
@click.option("--queue", help="Only runs of this queue.")
@click.option("--tag", "tags", multiple=True, help="Only runs that need this tag; may be repeated.")
@click.option("--priority", type=int, help="Only runs of at least this priority.")
@click.option("--key", help="Only the runs that share this limit_key.")
@click.option(
    "--stranded",
    "apps",
    multiple=True,
    metavar="FILE[:AGENT]",
    help="Only open runs that this code does not carry on.",
)
@click.option(
    "--limit", default=50, show_default=True, type=click.IntRange(1, 100_000), help="At most so many."
)
@stored
def runs(options: Options, /, words: tuple[str, ...], apps: tuple[str, ...], **what: Any) -> int:
    """List runs, and why each stands where it stands."""
    query = Query(
        agent=what["agent"],
        open_only=what["open_only"] or bool(apps),
        limit=what["limit"],
        queue=what["queue"],
        tags=what["tags"],
        priority=what["priority"],
        limit_key=what["key"],
    )
    if not apps:
        return asyncio.run(_runs(options, _worded(words), query))
    from perdure.cli.stranded import judge_of

    judge, wanted = judge_of(apps), _worded(words)

    def stranded(row: RunRow, state: Condition) -> Condition | None:
        return None if wanted(row, state) is None else judge(row, state)

    return asyncio.run(_runs(options, stranded, query))


def _worded(words: Sequence[str]) -> Wanted:
    return lambda row, state: state if not words or state.word in words else None


async def _runs(options: Options, wanted: Wanted, query: Query) -> int:
    async with there(options) as store:
        found, more = await _matching(store, wanted, query)
        now, url = store.now(), store.url
    if options.json:
        from perdure.timeline.amounts import stamp
        from perdure.timeline.document import run_document

        listed = [run_document(row, state) for row, state in found]
        print_document({"store": url, "now": stamp(now), "more": more, "runs": listed})
        return 0
    from perdure.cli.listing import draw_runs

    draw_runs(found, now, more=more, store=options.store)
    return 0


async def _matching(
    store: Store, wanted: Wanted, query: Query
) -> tuple[list[tuple[RunRow, Condition]], bool]:
    """The newest runs that match, and whether there are more.

    Words are derived, so they are filtered here.
    """
    found: list[tuple[RunRow, Condition]] = []
    before: tuple[int, str] | None = None
    while True:
        page = await store.list(replace(query, limit=max(query.limit + 1, PAGE), before=before))
        for row in page:
            state = condition(row, store.now(), note=note_of(row))
            if (shown := wanted(row, state)) is not None:
                found.append((row, shown))
            if len(found) > query.limit:
                return found[: query.limit], True
        if len(page) < max(query.limit + 1, PAGE):
            return found, False
        before = (page[-1].created_at, page[-1].run_id)


# ---------------------------------------------------------------------------------------------- show


@click.command(short_help="Show one run: its calls, what came of them, its crashes.")
@click.argument("run")
@click.option("--events", is_flag=True, help="Every event, one a line.")
@click.option("--all", "whole", is_flag=True, help="Fold nothing away.")
@click.option("--reveal", is_flag=True, help="Show personal data.")
@stored
def show(options: Options, run: str, events: bool, whole: bool, reveal: bool) -> int:
    """Show one run: what it did, what came of each call, where it was interrupted. RUN@41 shows it up to
    event 41.
    """
    with revealing(reveal):
        return asyncio.run(_show(options, run, events=events, whole=whole))


async def _show(options: Options, text: str, *, events: bool, whole: bool) -> int:
    from perdure import journal
    from perdure.timeline.late import late_lines
    from perdure.timeline.page import LONG, first_page
    from perdure.timeline.reason import why
    from perdure.timeline.view import lines

    name, seq = point(text)
    kept: list[Any] = []
    shown: list[Any] = []
    between = 0
    async with there(options) as store:
        row = await find(store, name)
        paged = row.seq > LONG and not (row.floor or seq or whole or events or options.json)
        history = () if paged else (await journal.retold(store, row.run_id)).events
        past = await journal.load(store, row.run_id)
        now, children = store.now(), await _children(store, past.record)
        if paged:
            page = await first_page(store, row.run_id, past.record.seq, past.record.step + 1)
            shown, between = [*page.first, *page.last], page.between
    if seq is not None and not 1 <= seq <= past.record.seq:
        raise BadPoint(f"run {row.run_id} has the events 1 to {row.seq}, and no event {seq}")
    if not paged:
        kept = [event for event in history if seq is None or event.seq <= seq]
        shown = lines(kept)
    if seq is None and row.terminal:
        shown += late_lines(shown, past.inbox)
    answer = why(past.row, past.record, now, inbox=past.inbox, note=note_of(row), children=children)
    answer = answer.at(options.store)
    if options.json:
        _print_show(options.store, past.row, past.record, answer, kept if events else shown, events=events)
    elif events:
        from perdure.cli.drawing import events_listed

        for line in events_listed(kept):
            click.echo(line)
    else:
        from perdure.cli.drawing import draw_run

        draw_run(past.row, past.record, answer, shown, whole=whole, upto=seq, between=between)
    return 0


def _print_show(
    store: str | None, row: RunRow, record: Any, answer: Any, shown: Sequence[Any], *, events: bool
) -> None:
    from perdure.timeline import document as written

    document: dict[str, Any] = {"run": written.run_document(row, answer.condition)}
    document |= written.record_document(record, store)
    if events:
        document["events"] = [written.event_document(event) for event in shown]
    else:
        document["timeline"] = [written.line_document(line) for line in shown]
        document["why"] = written.why_document(answer)
    print_document(document)


# ---------------------------------------------------------------------------------------------- why


@click.command(short_help="Say why a run is not moving.")
@click.argument("run")
@stored
def why(options: Options, run: str) -> int:
    """Say on one screen why a run is not moving, and what would make it move."""
    return asyncio.run(_why(options, run))


async def _why(options: Options, text: str) -> int:
    from perdure import journal
    from perdure.timeline import reason

    async with there(options) as store:
        row = await find(store, text)
        try:
            past = await journal.load(store, row.run_id)
        except (Damaged, NewerFormat) as error:
            answer = reason.unreadable(row, store.now(), error)
        else:
            row = past.row
            children = await _children(store, past.record)
            now, note = store.now(), note_of(row)
            key = row.placement.limit_key
            of_key = await store.list(Query(limit_key=key, open_only=True)) if key else ()
            answer = reason.why(
                row, past.record, now, inbox=past.inbox, note=note, children=children, of_key=of_key
            )
    answer = answer.at(options.store)
    if options.json:
        from perdure.timeline.document import run_document, why_document

        print_document({"run": run_document(row, answer.condition), "why": why_document(answer)})
        return 0
    from perdure.cli.drawing import draw_why

    draw_why(answer)
    return 0


async def _children(store: Any, record: Any) -> list[RunRow]:
    """The rows of the children that the run waits for, as far as they are there."""
    found = []
    for wait in record.waits.values():
        if wait.kind == "child" and not wait.closed:
            with suppress(NoSuchRun, RunGone):
                found.append(await store.row(wait.name))
    return found


# ---------------------------------------------------------------------------------------------- stats


@click.command(short_help="Count runs, events and bytes.")
@click.option("--deep", is_flag=True, help="Read every event: bytes by kind, and the dearest resume.")
@stored
def stats(options: Options, *, deep: bool) -> int:
    """Count runs, events and bytes."""
    return asyncio.run(_stats(options, deep=deep))


async def _stats(options: Options, *, deep: bool) -> int:
    from perdure.timeline.amounts import counted

    stock = None
    async with there(options) as store:
        numbers, url = await store.stats(), store.url
        if deep:
            from perdure.timeline.stock import stock as taken

            stock = await taken(store)
    if options.json:
        from perdure.timeline.document import stats_document

        document = {"store": url, **stats_document(numbers)}
        if stock is not None:
            from perdure.timeline.stock import stock_document

            document["deep"] = stock_document(stock)
        print_document(document)
        return 0
    from perdure.cli.screen import Screen
    from perdure.timeline.amounts import size
    from perdure.timeline.plain import clean

    screen = Screen()
    total = sum(numbers.runs.values())
    kinds = ", ".join(f"{count} {clean(status)}" for status, count in sorted(numbers.runs.items()))
    stored_bytes = numbers.event_bytes + numbers.snapshot_bytes + numbers.blob_bytes
    per_event = f", {numbers.event_bytes / numbers.events:.0f} B each" if numbers.events else ""
    parts = f"events {size(numbers.event_bytes)}, snapshots {size(numbers.snapshot_bytes)}"
    parts += f", large values {size(numbers.blob_bytes)}"
    beside = f"messages {size(numbers.inbox_bytes)}, left by removed runs {size(numbers.left_bytes)}"
    pairs = []
    if stock is not None:
        shares = list(stock.kinds.items())[:12]
        table = [f"{kind:<20} {one.count:>9,}  {size(one.size)}" for kind, one in shares]
        far = f"every {stock.interval:.0f} events" if stock.interval else "none"
        worst = f"{counted(stock.tail, 'event')}, {clean(stock.worst)}; the longest resume took"
        pairs = [("" if at else "kinds", line) for at, line in enumerate(table)]
        pairs += [("snapshots", far), ("replay", f"{worst} {stock.seconds * 1000:.0f} ms")]
    screen.draw_pairs(
        [
            ("store", clean(url)),
            ("runs", f"{total:,}" + (f": {kinds}" if kinds else "")),
            ("events", f"{numbers.events:,}{per_event}"),
            ("bytes", f"{size(stored_bytes)}: {parts}"),
            ("beside", beside),
            *pairs,
            (
                "file",
                f"{size(numbers.file_bytes)}, {size(numbers.free_bytes)} free, log {size(numbers.wal_bytes)}",
            ),
            *((clean(name), clean(fact)) for name, fact in numbers.facts.items() if name != "file"),
        ],
        indent=0,
    )
    return 0
