"""`perdure lab`: experiments that show what durable state costs, and what it did when it was killed."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import click

from perdure.cli import exits, experiments
from perdure.cli.document import print_document
from perdure.cli.options import Options, printing
from perdure.cli.showing import Bar, Tick, experiment

_ON = "Only this store (repeat): memory, sqlite, postgres, langgraph."
_WITHIN = "For Hybrid(resume_within=...): milliseconds."


@click.group(short_help="What durable state costs, and what it did when it was killed.")
def lab() -> None:
    """Experiments: what durable state costs on paper, and what it did when it was killed.

    Each prints tables and what they say; --json prints the raw figures, --plot FILE draws them.
    """


@lab.command(short_help="Storage models on paper, and on real stores under SIGKILL.")
@click.option("--steps", type=click.IntRange(2, 5_000), default=200, show_default=True)
@click.option("--size", type=click.IntRange(1), default=300, show_default=True, help="Bytes of a message.")
@click.option(
    "--every", type=click.IntRange(1), multiple=True, help="Snapshot interval (repeat). Default 5, 20, 50."
)
@click.option(
    "--within", type=click.FloatRange(0.001), default=1.0, show_default=True, metavar="MS", help=_WITHIN
)
@click.option("--kills", type=click.IntRange(1), default=24, show_default=True, help="How often a run dies.")
@click.option("--on", multiple=True, metavar="STORE", help=_ON)
@click.option("--paper", is_flag=True, help="Only the model on paper: nothing is run.")
@experiment
def storage(
    seed: int, tick: Tick, *, every: tuple[int, ...], on: tuple[str, ...], paper: bool, **run: Any
) -> Any:
    """Storage models on paper, and the same run on real stores, killed with SIGKILL at random steps."""
    room = import_module("perdure.lab.storage")
    if wrong := [name for name in on if name not in room.STORES]:
        raise click.BadParameter(f"{wrong[0]} is none of {', '.join(room.STORES)}", param_hint="--on")
    plan = room.Plan(
        run["steps"], run["size"], run["kills"], every or room.EVERY, run["within"], on or room.STORES
    )
    return room.measure(seed, tick, plan, paper=paper)


for _command in (experiments.stale, experiments.diverge, experiments.crash, experiments.migrate):
    lab.add_command(_command)


def _loads(command: Any) -> Any:
    """The options that describe a load; their names are the fields of `perdure.lab.plan.Load`."""
    for name, kind, default, text in reversed(_LOAD):
        option = click.option(f"--{name}", type=kind, default=default, show_default=True, help=text)
        command = option(command)
    return command


_LOAD: tuple[tuple[str, Any, float, str], ...] = (
    ("runs-per-day", click.FloatRange(0.001), 10_000, "Runs that begin."),
    ("steps", click.IntRange(1), 20, "Steps of a run."),
    ("step-bytes", click.IntRange(0), 1_500, "What a step adds to the conversation."),
    ("acts", click.FloatRange(0), 0.2, "Calls a step that act outside, on average."),
    ("waiting", click.FloatRange(0, 1), 0.3, "Share of the runs that wait for a person or a message."),
    ("hours", click.FloatRange(0), 8.0, "How long they wait."),
    ("retention", click.FloatRange(0), 30.0, "Days that an ended run is kept."),
    ("model-seconds", click.FloatRange(0), 3.0, "A step's time outside the engine."),
    ("peak", click.FloatRange(1), 3.0, "The busiest hour against the mean."),
    ("resume-ms", click.FloatRange(0.001), 50.0, "Wanted time to load a run."),
)


@lab.command(short_help="What a load would need, and where each store stops.")
@_loads
@click.option("--measure", is_flag=True, help="Measure this machine; the default without --constants.")
@click.option(
    "--constants",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Constants measured before: what this command printed with --json.",
)
@experiment
def plan(seed: int, tick: Tick, *, measure: bool, constants: Path | None, **load: Any) -> Any:
    """What a load would need, from a laptop to ten million open runs, and where each store stops."""
    room = import_module("perdure.lab.plan")
    here = None if measure or constants is None else room.constants_in(constants)
    return room.measure(seed, tick, room.Load(**load), here)


@lab.command(short_help="Run every experiment and write docs/lab.md with its pictures.")
@click.option(
    "--into",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("docs"),
    show_default=True,
    help="The folder that gets lab.md, and lab/ with pictures and data.",
)
@click.option("--only", multiple=True, metavar="NAME", help="Run this one (repeat) and keep the others.")
@click.option("--seed", type=int, default=1, show_default=True)
@printing
def report(options: Options, into: Path, only: tuple[str, ...], seed: int) -> int:
    """Run every experiment and write their tables, pictures and sentences into one page."""
    room = import_module("perdure.lab.page")
    if wrong := [name for name in only if name not in room.EXPERIMENTS]:
        raise click.BadParameter(f"{wrong[0]} is none of {', '.join(room.EXPERIMENTS)}", param_hint="--only")
    with Bar(hidden=options.json) as bar:
        written = room.report(into, seed, bar.tick, only)
    if options.json:
        print_document({"written": [str(path) for path in written]})
    else:
        for path in written:
            click.echo(f"written: {path}")
    return exits.OK
