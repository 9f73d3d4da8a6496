"""`perdure lab`: experiments that show what durable state costs, and what it did when it was killed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from perdure.cli import experiments
from perdure.cli.showing import Tick, experiment

_WITHIN = "For Hybrid(resume_within=...): milliseconds."


@click.group(short_help="What durable state costs, and what it did when it was killed.")
def lab() -> None:
    """Experiments: what durable state costs on paper, and what it did when it was killed.

    Each prints tables and what they say; --json prints the raw figures, --plot FILE draws them.
    """


@lab.command(short_help="Storage models on paper, and on real stores under SIGKILL.")
@click.option("--steps", type=click.IntRange(2, 100_000), default=200, show_default=True)
@click.option("--size", type=click.IntRange(1), default=300, show_default=True, help="Bytes of a message.")
@click.option(
    "--every", type=click.IntRange(1), multiple=True, help="Snapshot interval (repeat). Default 5, 20, 50."
)
@click.option(
    "--within", type=click.FloatRange(0.001), default=1.0, show_default=True, metavar="MS", help=_WITHIN
)
@click.option("--kills", type=click.IntRange(1), default=24, show_default=True, help="How often a run dies.")
@click.option("--paper", is_flag=True, help="Only the model on paper: nothing is run.")
@experiment
def storage(seed: int, tick: Tick, *, every: tuple[int, ...], paper: bool, **run: Any) -> Any:
    """Storage models on paper, and the same run on real stores, killed with SIGKILL at random steps."""
    room = import_module("perdure.lab.storage")
    plan = room.Plan(run["steps"], run["size"], run["kills"], every or room.EVERY, run["within"])
    return room.measure(seed, tick, plan, paper=paper)


for _command in (experiments.stale, experiments.diverge, experiments.crash, experiments.migrate):
    lab.add_command(_command)
