"""`perdure lab`: experiments that show what durable state costs, and what it did when it was killed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from perdure.cli.showing import Tick, experiment


@click.group(short_help="What durable state costs, and what it did when it was killed.")
def lab() -> None:
    """Experiments: what durable state costs on paper, and what it did when it was killed.

    Each prints tables and what they say; --json prints the raw figures, --plot FILE draws them.
    """


@lab.command(short_help="Storage models on paper, and on real stores under SIGKILL.")
@click.option("--steps", type=click.IntRange(1, 100_000), default=200, show_default=True)
@click.option("--size", type=click.IntRange(0), default=300, show_default=True, help="Bytes of a message.")
@click.option(
    "--every", type=click.IntRange(1), multiple=True, help="Snapshot interval (repeat). Default 5, 20, 50."
)
@click.option("--paper", is_flag=True, help="Only the model on paper: nothing is run.")
@experiment
def storage(seed: int, tick: Tick, *, steps: int, size: int, every: tuple[int, ...], paper: bool) -> Any:
    """Storage models on paper, and on real stores under SIGKILL."""
    room = import_module("perdure.lab.storage")
    return room.measure(seed, tick, steps=steps, message=size, every=every or room.EVERY, paper=paper)
