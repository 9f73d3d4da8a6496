"""What a load would need: events, bytes, commits, workers, the snapshot interval, and where each store stops.

Arithmetic over constants that `calibration` measures, and over a few that are assumed and say so. It knows
no other machine: what holds here is carried over by proportion, line by line, and each line says how it was
come by.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from perdure.errors import BadSetting
from perdure.lab.calibration import Constants, calibrate
from perdure.lab.plot import COLOURS, short
from perdure.lab.report import Table, Tick, percent, shown, size, span

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DAY = 86_400.0
"""Seconds."""

CONCURRENCY = 100
"""Runs that one worker process drives at once, as `perdure worker` does unless told otherwise."""

How: TypeAlias = Literal["measured", "arithmetic", "extrapolated", "assumed"]
"""How a line was come by: a constant of this machine; exact from the load; a constant of this machine
carried on by proportion; a figure that was measured nowhere here."""


@dataclass(frozen=True)
class Load:
    """What comes in. `step_bytes`: what a step adds to the conversation; `acts`: calls a step, on average,
    that act outside (each waits for the disk once); `waiting`: share of the runs that wait for a person or a
    message once, for `hours`; `retention`: days that an ended run is kept; `model_seconds`: a step's time
    outside the engine; `peak`: the busiest hour against the mean; `resume_ms`: the wanted time to load a run.
    """

    runs_per_day: float = 10_000
    steps: int = 20
    step_bytes: int = 1_500
    acts: float = 0.2
    waiting: float = 0.3
    hours: float = 8.0
    retention: float = 30.0
    model_seconds: float = 3.0
    peak: float = 3.0
    resume_ms: float = 50.0


def constants_in(path: Path) -> Constants:
    """What an earlier plan measured, from its JSON. Raises BadSetting."""
    try:
        return Constants(**json.loads(path.read_text(encoding="utf-8"))["constants"])
    except (ValueError, KeyError, TypeError) as error:
        remedy = "perdure lab plan --json > plan.json writes one"
        raise BadSetting(f"{path} holds no plan with constants: {error}", remedy=remedy) from error


@dataclass(frozen=True)
class Limit:
    """Where a store stops: durable steps a second, and bytes that one can still back up and move."""

    name: str
    steps_per_second: float
    how: How
    storage: float


POSTGRES_STEPS, POSTGRES_STORAGE, SQLITE_STORAGE = 5_000.0, 4e12, 200e9
"""Assumed. Steps: about what 16 connections commit on a machine of this class, one row each; bytes: what is
backed up and restored within hours."""


def limits(constants: Constants) -> tuple[Limit, Limit]:
    """One SQLite file, one PostgreSQL: driven by one process."""
    postgres: tuple[float, How] = (POSTGRES_STEPS, "assumed")
    if constants.postgres_steps is not None:
        postgres = (constants.postgres_steps, "measured")
    return (
        Limit("one SQLite file", constants.steps_per_second, "measured", SQLITE_STORAGE),
        Limit("one PostgreSQL", *postgres, POSTGRES_STORAGE),
    )


@dataclass(frozen=True)
class Need:
    """What a load needs. Rates at the peak hour, per second; bytes; counts."""

    steps_day: float
    events_day: float
    bytes_day: float
    kept: float
    open_runs: float
    waiting_runs: float
    executing: float
    steps_per_second: float
    waits_per_second: float
    fsyncs_effects: float
    fsyncs_step: float
    cores: float
    workers: int
    interval: int | None


def need(load: Load, here: Constants) -> Need:
    """The whole arithmetic of a plan."""
    steps_day = load.runs_per_day * load.steps
    # A step is a reply's receipt and a patch; an act an intent and a receipt; a run has a start and an end;
    # a wait is opened, its message received, closed, and the run resumed.
    events = 2 + 2 * load.acts
    events_day = steps_day * events + load.runs_per_day * (2 + 4 * load.waiting)
    run_bytes = here.wait_file + load.steps * (here.step_file + here.message_file * load.step_bytes)
    executing_seconds = load.steps * (load.model_seconds + here.step_cpu)
    waiting_runs = load.runs_per_day * load.waiting * load.hours / 24
    per_second = load.peak / DAY
    steps = steps_day * per_second
    executing = load.runs_per_day * executing_seconds * per_second
    woken = load.runs_per_day * load.waiting * per_second
    waits = load.runs_per_day * (1 + load.waiting + load.steps * load.acts) * per_second
    most = 1 / here.commit
    cores = steps * here.step_cpu + woken * here.wake
    return Need(
        steps_day=steps_day,
        events_day=events_day,
        bytes_day=load.runs_per_day * run_bytes,
        kept=run_bytes * (load.runs_per_day * load.retention + waiting_runs),
        open_runs=waiting_runs + executing / load.peak,
        waiting_runs=waiting_runs,
        executing=executing,
        steps_per_second=steps,
        waits_per_second=waits,
        fsyncs_effects=min(waits, most),
        fsyncs_step=min(waits + steps, most),
        cores=cores,
        workers=max(1, math.ceil(cores), math.ceil(executing / CONCURRENCY)),
        interval=interval(load, here),
    )


def interval(load: Load, here: Constants) -> int | None:
    """Steps between snapshots so that a run is loaded within the wanted time; None: no run gets so long."""
    left = load.resume_ms / 1000 - here.load_base
    steps = (
        max(1, math.floor(left / (here.load_event * (2 + 2 * load.acts)))) if here.load_event else load.steps
    )
    return None if steps >= load.steps else steps


def most_runs(load: Load, limit: Limit, here: Constants) -> tuple[float, float]:
    """Runs a day of this shape that a store takes, by its steps and by its bytes."""
    one = need(replace(load, runs_per_day=1.0), here)
    return limit.steps_per_second / one.steps_per_second, limit.storage / one.kept


LADDER: dict[str, Load] = {
    "a laptop": Load(100, retention=90),
    "a team": Load(5_000),
    "a product": Load(200_000),
    "a million open runs": Load(740_000, waiting=0.45, hours=72.0, retention=7),
    "ten million open runs": Load(3_700_000, waiting=0.9, hours=72.0, retention=7),
}
"""From a laptop to ten million open runs."""


@dataclass(frozen=True)
class Plan:
    """A load, what was measured, and what follows."""

    load: Load
    here: Constants

    name = "plan"
    title = "What a load would need"
    caption = (
        "Across: runs a day; up: how much of one SQLite file and of one PostgreSQL they use, by steps a"
        " second and by bytes kept. A store stops where its first line crosses the whole."
    )

    def tables(self) -> Sequence[Table]:
        """What comes in, what it needs, where each store stops, and the ladder."""
        return [self._given(), self._needed(), self._stops(), self._ladder(), self._constants()]

    def _given(self) -> Table:
        load = self.load
        rows = (
            ("runs a day", shown(round(load.runs_per_day))),
            ("steps a run", shown(load.steps)),
            ("bytes that a step adds", shown(load.step_bytes)),
            ("acts a step", f"{load.acts:g}"),
            ("share of runs that wait, and how long", f"{load.waiting:.0%}, {load.hours:g} h"),
            ("ended runs are kept", f"{load.retention:g} days"),
            ("a step's model takes", f"{load.model_seconds:g} s"),
            ("busiest hour against the mean", f"{load.peak:g} times"),
            ("wanted time to load a run", f"{load.resume_ms:g} ms"),
        )
        return Table(("load", "given"), rows, "The load")

    def _needed(self) -> Table:
        need_, here = need(self.load, self.here), self.here
        every = f"every {need_.interval} steps" if need_.interval else f"none within {self.load.steps} steps"
        rows: list[tuple[str, str, How]] = [
            ("steps a day", shown(round(need_.steps_day)), "arithmetic"),
            ("events a day", shown(round(need_.events_day)), "arithmetic"),
            ("bytes a day, as they lie in the file", size(need_.bytes_day), "extrapolated"),
            ("storage, with what is kept", size(need_.kept), "extrapolated"),
            ("runs open at once", shown(round(need_.open_runs)), "arithmetic"),
            ("of them waiting, at the cost of a row", shown(round(need_.waiting_runs)), "arithmetic"),
            ("runs executing at the peak", shown(round(need_.executing)), "arithmetic"),
            ("steps a second at the peak", _rate(need_.steps_per_second), "arithmetic"),
            ("waits for the disk a second at the peak", _rate(need_.waits_per_second), "arithmetic"),
            ("fsyncs a second, durability effects, at most", _rate(need_.fsyncs_effects), "extrapolated"),
            ("fsyncs a second, durability step, at most", _rate(need_.fsyncs_step), "extrapolated"),
            ("cores that the engine keeps busy", _rate(need_.cores), "extrapolated"),
            (f"worker processes, {CONCURRENCY} runs each", shown(need_.workers), "extrapolated"),
            (f"snapshots, to load within {self.load.resume_ms:g} ms", every, "extrapolated"),
            ("one durable commit takes", span(here.commit), "measured"),
        ]
        return Table(("need", "figure", "how"), tuple(rows), "What it needs")

    def _stops(self) -> Table:
        rows = []
        for limit in limits(self.here):
            steps, kept = most_runs(self.load, limit, self.here)
            first = f"{shown(limit.steps_per_second)} steps/s ({limit.how}, one process)"
            if kept < steps:
                first = f"{size(limit.storage)} kept (assumed)"
            rows.append((limit.name, shown(round(min(steps, kept))), first))
        each, shards = rows[-1][1], self.shards()
        rows.append(
            (
                "sharded PostgreSQL",
                f"{each} for each shard",
                f"nothing: {shown(shards)} for this load (extrapolated)",
            )
        )
        return Table(
            ("store", "runs a day of this shape", "what stops it first"), tuple(rows), "Where each stops"
        )

    def shards(self, load: Load | None = None) -> int:
        """PostgreSQL shards for a load."""
        load = load or self.load
        return math.ceil(load.runs_per_day / min(most_runs(load, limits(self.here)[1], self.here)))

    def store_for(self, load: Load) -> str:
        """The smallest store that a load fits."""
        if load.runs_per_day <= min(most_runs(load, limits(self.here)[0], self.here)):
            return "one SQLite file"
        shards = self.shards(load)
        return "one PostgreSQL" if shards == 1 else f"PostgreSQL, {shards} shards"

    def _ladder(self) -> Table:
        rows = []
        for name, load in LADDER.items():
            found = need(load, self.here)
            rows.append(
                (
                    name,
                    shown(round(load.runs_per_day)),
                    shown(round(found.open_runs)),
                    _rate(found.steps_per_second),
                    size(found.kept),
                    shown(found.workers),
                    self.store_for(load),
                )
            )
        heads = ("load", "runs a day", "open at once", "steps/s", "kept", "workers", "fits on")
        return Table(heads, tuple(rows), "From a laptop to ten million open runs")

    def _constants(self) -> Table:
        here = self.here
        rows = (
            ("one durable commit, alone", span(here.commit)),
            ("a step's processor time", span(here.step_cpu)),
            ("durable steps a second, one file, 100 runs at once", _rate(here.steps_per_second)),
            (
                "the same on one PostgreSQL",
                _rate(here.postgres_steps) if here.postgres_steps else "not measured",
            ),
            ("steps that share a commit in a file", _rate(here.runs_per_commit)),
            (
                "the file grows by, a step",
                f"{here.step_file:.0f} bytes + {here.message_file:.2f} x its message",
            ),
            ("loading a run", f"{span(here.load_base)}, and {span(here.load_event)} for each event"),
            ("a run that waits, in the file", size(here.wait_file)),
            ("waking one and ending it, many at once", span(here.wake)),
        )
        return Table(("measured", "on this machine"), rows, f"Constants: {here.machine}")

    def sentences(self) -> Sequence[str]:
        """What follows."""
        return list(self._said())

    def _said(self) -> Iterator[str]:
        found, here = need(self.load, self.here), self.here
        sqlite, postgres = limits(here)
        busy = percent(found.steps_per_second / sqlite.steps_per_second)
        yield (
            f"This load fits on {self.store_for(self.load)}. Of one file it uses {busy} of the steps a second"
            f" that it took here, and {percent(found.kept / sqlite.storage)} of {size(sqlite.storage)}."
        )
        many = "process" if found.workers == 1 else "processes"
        yield (
            f"Models take the time, not the engine: {found.executing:,.0f} runs execute at the peak and keep"
            f" {found.cores:.2g} cores busy; {found.workers} worker {many}, for {CONCURRENCY} runs each."
        )
        steps, kept = most_runs(self.load, sqlite, here)
        why = "steps a second" if steps < kept else "bytes"
        other = min(most_runs(self.load, postgres, here))
        rests = (
            "if what is assumed of it holds" if postgres.how == "assumed" else "as one process drove it here"
        )
        yield (
            f"One file stops at {min(steps, kept):,.0f} runs a day of this shape, by its {why}; one"
            f" PostgreSQL at {other:,.0f}, {rests}."
        )
        million = LADDER["ten million open runs"]
        last = need(million, here)
        yield (
            f"Ten million open runs are mostly rows: {last.waiting_runs:,.0f} wait and {last.executing:,.0f}"
            f" execute at the peak, on {self.store_for(million)}."
        )
        yield (
            "Extrapolated: a constant of this machine, of one run or of a hundred at once, carried on in"
            " proportion; bytes are those of an SQLite file throughout. Not measured: other disks, a network,"
            " vacuum, backups, several processes on one store, shards."
        )

    def document(self) -> Mapping[str, Any]:
        """The load, the constants, the need, the limits and the ladder."""
        return {
            "load": asdict(self.load),
            "constants": asdict(self.here),
            "need": asdict(need(self.load, self.here)),
            "fits_on": self.store_for(self.load),
            "limits": [
                {**asdict(limit), "runs_per_day": min(most_runs(self.load, limit, self.here))}
                for limit in limits(self.here)
            ],
            "ladder": {
                name: {**asdict(need(load, self.here)), "load": asdict(load), "fits_on": self.store_for(load)}
                for name, load in LADDER.items()
            },
        }

    def plot(self, axes: Axes) -> None:
        """How much of each store a load of this shape uses, by runs a day."""
        runs = [10 ** (power / 4) for power in range(8, 33)]
        corners: tuple[dict[str, Any], ...] = (
            {"xytext": (-7, 6), "ha": "right", "va": "bottom"},
            {"xytext": (7, -6), "ha": "left", "va": "top"},
        )
        for limit, colour, corner in zip(limits(self.here), COLOURS, corners, strict=False):
            steps, kept = most_runs(self.load, limit, self.here)
            axes.plot(
                runs, [r / steps for r in runs], "-", color=colour, label=f"{limit.name}: steps a second"
            )
            axes.plot(runs, [r / kept for r in runs], "--", color=colour, label=f"{limit.name}: bytes kept")
            axes.plot([min(steps, kept)], [1], "o", color=colour)
            axes.annotate(
                f"{min(steps, kept):,.0f}",
                (min(steps, kept), 1),
                textcoords="offset points",
                color=colour,
                **corner,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
            )
        axes.axhline(1, color="#000000", lw=1)
        axes.axvline(self.load.runs_per_day, color="#777777", lw=1, ls=":")
        axes.annotate(
            "this load", (self.load.runs_per_day, 0.0012), (4, 0), textcoords="offset points", color="#555555"
        )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(1e-3, 30)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value * 100:,.5g} %")
        axes.xaxis.set_major_formatter(short)
        axes.set_xlabel("runs a day")
        axes.set_ylabel("share of the store that is used")
        axes.set_title(
            f"Where a store stops: runs of {self.load.steps} steps, kept {self.load.retention:g} days"
        )
        axes.legend(loc="lower right")


def _rate(value: float) -> str:
    return shown(round(value)) if value >= 10 else f"{value:.2g}"


def measure(seed: int, tick: Tick, load: Load | None = None, here: Constants | None = None) -> Plan:
    """A plan for this load (or an ordinary one). `here`: constants measured before; else they are now.

    Chance plays no part, so that `seed` changes nothing.
    """
    return Plan(load or Load(), here or calibrate(tick))
