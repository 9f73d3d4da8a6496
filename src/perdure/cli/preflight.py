"""The command that asks before a deploy what new code would do to every open run. It only looks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import click

from perdure.agent import Agent
from perdure.cli import exits
from perdure.cli.app import load
from perdure.cli.document import print_document
from perdure.cli.options import Options, stored
from perdure.cli.progress import execution_bar
from perdure.cli.storage import there, url_of
from perdure.clock import SYSTEM
from perdure.runtime.forecast import MEANING, STOPPING, Forecast, Preflight
from perdure.runtime.preflight import Progress
from perdure.runtime.preflight import preflight as look_ahead
from perdure.runtime.spectator import STEP_SECONDS
from perdure.timeline.amounts import counted, elapsed
from perdure.timeline.plain import clean, jsonable

SHOWN = 20
"""Runs of one prospect that are told of one by one; the rest are counted."""


@click.command(short_help="What would this code do to every open run? For CI, before a deploy.")
@click.argument("apps", metavar="FILE[:AGENT]...", nargs=-1, required=True)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=STEP_SECONDS,
    show_default=True,
    help="How long the open step of one run may take.",
)
@stored
def preflight(options: Options, apps: Sequence[str], seconds: float) -> int:
    """Tell what this code would do to every open run of the store, without writing or calling anything.

    Exits with 1 if a run would be held or is stranded, so that a pipeline stops before the deploy.
    """
    found = _looked(options, [load(app) for app in apps], seconds)
    code = exits.OK if found.ok else exits.FAILURE
    if options.json:
        print_document({"store": url_of(options), "ok": found.ok, **document(found), "exit": code})
    else:
        _draw(options, found)
    return code


def _looked(options: Options, agents: Sequence[Agent[Any, Any, Any]], seconds: float) -> Preflight:
    async def look(progress: Progress) -> Preflight:
        async with there(options) as store:
            return await look_ahead(store, agents, SYSTEM, seconds=seconds, progress=progress)

    with execution_bar(options, "looking ahead") as progress:
        return asyncio.run(look(progress))


# ------------------------------------------------------------------------------------------------- for people


def _draw(options: Options, found: Preflight) -> None:
    from perdure.cli.screen import Screen
    from perdure.cli.text import Text

    screen = Screen()
    total = len(found.forecasts)
    if not total:
        screen.draw(f"no open runs in {clean(url_of(options))}")
        return
    counts = found.counts
    rows = [
        (Text(word, "bold red" if word in STOPPING else "green"), f"{count:,}", MEANING[word])
        for word, count in counts.items()
    ]
    screen.draw_columns(("PROSPECT", "RUNS", "WHAT IT MEANS"), rows)
    took = elapsed(int(found.seconds * 1e6))
    screen.draw(f"{counted(total, 'open run')} looked at in {took}; nothing was written")
    for word in counts:
        told = [forecast for forecast in found.forecasts if forecast.prospect == word and _tells(forecast)]
        for forecast in told[:SHOWN]:
            _draw_one(screen, options, forecast)
        if len(told) > SHOWN:
            screen.draw("", f"and {len(told) - SHOWN:,} more that are {word}; --json has them all")
    screen.draw("", "ok to deploy" if found.ok else "not ok: somebody should look at these first")


def _tells(forecast: Forecast) -> bool:
    return (
        forecast.stops
        or bool(forecast.voided or forecast.stale)
        or forecast.prospect in ("restarts", "stays held")
    )


def _draw_one(screen: Any, options: Options, forecast: Forecast) -> None:
    from perdure.cli.text import Text

    word = Text(forecast.prospect, "bold red" if forecast.stops else "yellow")
    reason = f", {clean(forecast.reason)}" if forecast.reason else ""
    head = f"  agent {clean(forecast.agent)}, {clean(forecast.status)} in step {forecast.step + 1}{reason}"
    screen.draw("", Text.of(Text(clean(forecast.run_id), "bold"), "  ", word, head))
    pairs = [("why", clean(forecast.detail))] if forecast.detail else []
    pairs += [("goes on", clean(place)) for place in forecast.goes_on]
    pairs += [("voided", f"{clean(one.approval_id)}: {clean(one.why)}") for one in forecast.voided]
    pairs += [("stale", _stale_words(one)) for one in forecast.stale]
    pairs += [("note", clean(note)) for note in forecast.notes]
    screen.draw_pairs(pairs)
    if forecast.stops and forecast.remedies:
        screen.draw_commands(map(clean, forecast.remedies), label="remedy", store=options.store)


def _stale_words(one: Any) -> str:
    age, allowed = (elapsed(int(span.total_seconds() * 1e6)) for span in (one.age, one.fresh_for))
    return f"fact {clean(one.fact)} was read {age} ago and is fresh for {allowed}: it is read again first"


# ----------------------------------------------------------------------------------------------- for programs


def document(found: Preflight) -> dict[str, Any]:
    """The answer for a program."""
    return {
        "seconds": round(found.seconds, 3),
        "counts": dict(found.counts),
        "runs": [_document(forecast) for forecast in found.forecasts],
    }


def _document(one: Forecast) -> dict[str, Any]:
    return {
        "run_id": jsonable(one.run_id),
        "agent": jsonable(one.agent),
        "status": jsonable(one.status),
        "step": one.step + 1,
        "prospect": one.prospect,
        "stops": one.stops,
        "reason": jsonable(one.reason),
        "detail": jsonable(one.detail),
        "remedies": jsonable(one.remedies),
        "goes_on": jsonable(one.goes_on),
        "voided": [{"approval": jsonable(v.approval_id), "why": jsonable(v.why)} for v in one.voided],
        "stale": [
            {
                "fact": jsonable(s.fact),
                "age_seconds": s.age.total_seconds(),
                "fresh_seconds": s.fresh_for.total_seconds(),
            }
            for s in one.stale
        ],
        "notes": jsonable(one.notes),
    }
