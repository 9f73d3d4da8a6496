"""The command `worker`: every open run of some agents, until it is told to stop.

The first SIGTERM or Ctrl-C lets the calls that were made end, the second ends the process at once; what was
left in the middle is named. docs/workers.md has the exit codes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, TextIO

import click
from msgspec import Struct

from perdure.agent import Agent
from perdure.cli import exits
from perdure.cli.logs import logged
from perdure.cli.options import Options, stored
from perdure.cli.run import own_output, say, say_new
from perdure.clock import SYSTEM
from perdure.host import Runtime
from perdure.recovery.deploys import RunKey
from perdure.timeline.amounts import moment
from perdure.timeline.plain import clean, jsonable
from perdure.worker import Serving, Worker
from perdure.worker.collector import collect_seldom
from perdure.worker.health import Health, address_of
from perdure.worker.serving import CONCURRENCY, GRACE

LOOK_SECONDS = 1.0
"""A worker that drains looks this often whether a run of its version is left."""


class _Orders(Struct):
    """What the command line says, and where the line of JSON goes."""

    apps: tuple[str, ...]
    serving: Serving
    drain: bool
    health: tuple[str, int] | None
    output: TextIO


@click.command(short_help="Serve every open run of some agents until stopped.")
@click.argument("apps", metavar="MODULE:AGENT ...", nargs=-1, required=True)
@click.option(
    "--concurrency",
    default=CONCURRENCY,
    show_default=True,
    type=click.IntRange(1),
    help="Runs driven at once.",
)
@click.option("--queue", "queues", multiple=True, help="Only runs of this queue; may be given several times.")
@click.option("--tag", "tags", multiple=True, help="What this worker offers, such as gpu; several times.")
@click.option(
    "--grace",
    default=GRACE.total_seconds(),
    show_default=True,
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="When stopped, wait so long for calls that have begun.",
)
@click.option("--health", metavar="[HOST:]PORT", help="Answer /live and /ready there.")
@click.option("--drain", is_flag=True, help="Only runs on this very version; end when none is left.")
@logged
@stored
def worker(options: Options, /, apps: tuple[str, ...], **how: Any) -> int:
    """Serve every open run of these agents until stopped.

    SIGTERM or Ctrl-C: no run is claimed and no call is begun any more; calls that have begun may end within
    --grace, and the leases are given back. The second signal ends the process at once.
    """
    serving = Serving(how["concurrency"], how["queues"], how["tags"], timedelta(seconds=how["grace"]))
    health = None if how["health"] is None else address_of(how["health"])
    orders = _Orders(apps, serving, how["drain"], health, sys.stdout)
    with own_output(options):
        return asyncio.run(_work(options, orders))


async def _work(options: Options, orders: _Orders) -> int:
    from perdure.cli.app import load
    from perdure.observe import watch

    agents = [load(app) for app in orders.apps]
    for agent in agents:
        agent.validate()
        if orders.drain:
            agent.on_change = replace(agent.on_change, compatible=())
    collect_seldom()
    say_new(options)
    stop = asyncio.Event()
    with _stopped_by_signals(stop):
        async with Runtime(options.store, agents, workers=orders.serving) as runtime, watch(runtime.store):
            assert runtime.worker is not None
            with _answering(orders, runtime.worker) as address:
                _begin(options, orders, runtime, address)
                drained = asyncio.create_task(_drained(runtime, agents, stop)) if orders.drain else None
                await runtime.serve(stop)
                if drained is not None:
                    drained.cancel()
                say(options, "stopping: no call is begun any more; those that have begun may end")
                await runtime.drained()
        return _end(options, orders, runtime.worker)


def _begin(options: Options, orders: _Orders, runtime: Runtime, address: str | None) -> None:
    served = list(runtime.agents)
    if options.json:
        about: dict[str, Any] = {"worker": runtime.host.worker, "agents": served, "store": runtime.store.url}
        about |= {"queues": sorted(orders.serving.queues), "tags": sorted(orders.serving.tags)}
        about |= {"health": address}
        click.echo(json.dumps(about), file=orders.output)
        return
    names = ", ".join(served)
    click.echo(f"{moment(SYSTEM.now())}  worker {runtime.host.worker} serves {names} of {runtime.store.url}")
    if address is not None:
        click.echo(f"health at http://{address}/live and /ready")


def _end(options: Options, orders: _Orders, worker: Worker) -> int:
    """Tell what was left, and with which code the process ends."""
    code = exits.UNFINISHED if worker.left or worker.stuck else exits.OK
    if options.json:
        left = [{"run_id": jsonable(one.run_id), "calls": jsonable(one.calls)} for one in worker.left]
        click.echo(json.dumps({"left": left, "exit": code}), file=orders.output)
    for one in worker.left:
        calls = ", ".join(map(clean, one.calls)) or "it could not be read"
        say(options, f"left in the middle: run {clean(one.run_id)}: {calls}: the outcome is not known here")
    if worker.cut:  # a thread of a call would keep the process, and act beside the next worker
        _end_now(code)
    return code


@contextlib.contextmanager
def _answering(orders: _Orders, worker: Worker) -> Iterator[str | None]:
    """Answer probes for the block, if that was asked for; gives the address."""
    if orders.health is None:
        yield None
        return
    health = Health(*orders.health, worker.facts)
    try:
        yield health.address
    finally:
        health.close()


@contextlib.contextmanager
def _stopped_by_signals(stop: asyncio.Event) -> Iterator[None]:
    """The first signal sets `stop`, also while the event loop is blocked; the second ends the process."""
    loop = asyncio.get_running_loop()
    heard: list[int] = []

    def hear(number: int, _frame: object) -> None:
        heard.append(number)
        if len(heard) > 1:
            click.echo("ended at once: what the runs recorded is kept, their leases are free", err=True)
            _end_now(exits.INTERRUPTED)
        loop.call_soon_threadsafe(stop.set)

    before = {number: signal.signal(number, hear) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_now(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


async def _drained(runtime: Runtime, agents: list[Agent[Any, Any, Any]], stop: asyncio.Event) -> None:
    """Stop once no open run is on a version that is served here."""
    own = {agent.name: agent.version for agent in agents}
    while not stop.is_set():
        found = await runtime.store.versions(list(own))
        keys = [(name, RunKey.read(text)) for name, texts in found.items() for text in texts]
        if not any(key.version == own[name] for name, key in keys):
            stop.set()
        await asyncio.sleep(LOOK_SECONDS)
