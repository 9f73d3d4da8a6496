"""What becomes of effects when the process that causes them is killed: by hand, and by perdure.

Real processes, real SIGKILLs, and a receiver that writes down what reached it; see `methods` for the task and
the places where a process dies. Every cell of the experiment is killed at each place equally often, in an
order that the seed draws. This room counts; the killing is done by a process of its own (`killing`).
"""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from perdure.lab.methods import DATABASE, EFFECTS, METHODS, ON_POSTGRES, POINTS, STEPS, Effects
from perdure.lab.report import Cell, Table, Tick
from perdure.lab.server import INSTALL, postgres

KILLS = 20
"""Kills of each method and class: every place of every step once."""

JOBS = 2
"""Processes that kill, at once."""

FATES = ("lost", "doubled", "unknown")
"""What may become of an effect besides happening once."""

OURS = ("perdure", ON_POSTGRES)
"""Methods that are this product."""

NO_POSTGRES = f"perdure on PostgreSQL, as there is none ({INSTALL}, or PERDURE_LAB_POSTGRES=URL)"
"""Why the method on PostgreSQL was left out."""

_RATES = "effects for 1,000 kills"
_PLACES = "an irreversible act that can be looked up: effects for 1,000 kills at one place"


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill and what came of it: effects that did not happen, that happened once more, questions asked."""

    method: str
    effects: str
    point: str
    step: int
    lost: int
    doubled: int
    unknown: int


@dataclass(frozen=True, slots=True)
class Crash:
    """The result: every kill. `skipped`: what was not tried, and why."""

    seed: int
    kills: tuple[Kill, ...]
    skipped: tuple[str, ...] = ()

    name = "crash"
    title = "Effects when the process that causes them is killed"
    caption = (
        "Bars for each class of effect and each method: effects lost, doubled and asked about, for 1,000"
        " kills."
    )

    def rate(self, fate: str, **which: str) -> float:
        """How often that became of an effect, for 1,000 kills of these: `method`, `effects`, `point`."""
        kills = self.of(**which)
        return 1000 * sum(getattr(kill, fate) for kill in kills) / len(kills) if kills else 0.0

    def of(self, **which: str) -> list[Kill]:
        """The kills of these: `method`, `effects`, `point`."""
        return [kill for kill in self.kills if all(getattr(kill, name) == one for name, one in which.items())]

    def tables(self) -> list[Table]:
        """By class and method; and by the place where the process died."""
        lines: list[tuple[Cell, ...]] = []
        for effects, method in self._cells():
            rates = [round(self.rate(fate, method=method, effects=effects)) for fate in FATES]
            lines.append((EFFECTS[effects], method, *rates))
        found = [Table(("class of the effect", "method", "lost", "doubled", "asked"), tuple(lines), _RATES)]
        if looked_up := self.of(effects="reconciled"):
            methods = list(dict.fromkeys(kill.method for kill in looked_up))
            places = tuple(
                (words, *(self._told(point=point, method=method, effects="reconciled") for method in methods))
                for point, words in POINTS.items()
            )
            found.append(Table(("where the process dies", *methods), places, _PLACES))
        return found

    def _cells(self) -> list[tuple[Effects, str]]:
        """Every class and method that was tried, in order."""
        tried = {(kill.effects, kill.method) for kill in self.kills}
        return [cell for cell in itertools.product(EFFECTS, METHODS) if cell in tried]

    def _told(self, **which: str) -> str:
        rates = {fate: round(self.rate(fate, **which)) for fate in FATES}
        return ", ".join(f"{rate:,} {fate}" for fate, rate in rates.items() if rate) or "0"

    def sentences(self) -> list[str]:
        """What the figures say."""
        counted = (
            f"{len(self.kills):,} processes were killed, {len(self.kills) // len(self._cells())} for each"
            f" line of the first table. A task has {STEPS} effects and dies once, at each of {len(POINTS)}"
            " places of a step equally often."
        )
        choice = (
            "A checkpoint alone does not help: saved after the act it doubles what had happened, saved before"
            " the act it loses what had not. No place for it is right: act and checkpoint are two writes."
        )
        ours = [kill for kill in self.kills if kill.method in OURS and kill.effects != "read"]
        bad = sum(kill.lost + kill.doubled for kill in ours)
        kept = f"Under perdure {bad} effects of {len(ours):,} killed tasks were lost or doubled, reads apart"
        if ours and not bad:
            kept += f"; a rate of up to {3000 / len(ours):.2g} in 1,000 kills could go unseen in so few"
        found = [counted, choice, f"{kept}.", *(f"Not tried: {what}." for what in self.skipped)]
        if self.of(method="perdure", effects="read"):
            again = self.rate("doubled", method="perdure", effects="read")
            found.append(
                f"Reads are made again, {again:.0f} times in 1,000 kills: where that is harmless perdure does"
                " not wait for the disk, and a kill takes what was not yet written."
            )
        if self.of(method="perdure", effects="opaque"):
            asked = self.rate("unknown", method="perdure", effects="opaque")
            found.append(
                f"Where nothing can be looked up a person is asked, {asked:.0f} times in 1,000 kills. The"
                " other methods do not know that there is a question; they double or lose."
            )
        return found

    def document(self) -> dict[str, Any]:
        """Rates for 1,000 kills by class and method, and by place, with the number of kills."""
        return {
            "seed": self.seed,
            "kills": len(self.kills),
            "steps": STEPS,
            "skipped": list(self.skipped),
            "per_1000": [
                {
                    "effects": effects,
                    "method": method,
                    "point": point,
                    "kills": len(self.of(effects=effects, method=method, point=point)),
                    **{fate: self.rate(fate, effects=effects, method=method, point=point) for fate in FATES},
                }
                for (effects, method), point in itertools.product(self._cells(), POINTS)
            ],
        }

    def plot(self, axes: Any) -> None:
        """Bars from the left, one for each class and method."""
        axes.figure.set_size_inches(7.6, 6.4)
        colours = dict(zip(FATES, ("#CC79A7", "#D55E00", "#0072B2"), strict=True))
        labels, place, group = [], 0.0, ""
        for effects, method in self._cells():
            if effects != group:
                place += 1.5 if group else 0.0
                axes.text(0, place - 0.95, EFFECTS[effects], weight="bold", va="center")
                group = effects
            left = 0.0
            for fate in FATES:
                rate = self.rate(fate, method=method, effects=effects)
                axes.barh(place, rate, left=left, color=colours[fate], height=0.75)
                left += rate
            axes.text(left, place, f" {left:,.0f}", va="center", fontsize=7.5)
            labels.append((place, method))
            place += 1
        axes.set_yticks([place for place, _ in labels], [method for _, method in labels])
        axes.set_ylim(place - 0.2, -1.5)
        axes.set_xlim(0, 1.08 * max(bar.get_x() + bar.get_width() for bar in axes.patches) or 1)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("effects for 1,000 kills")
        axes.set_title("Effects lost, doubled and asked about, when the process is killed")
        told = ("lost", "doubled (a read: harmless)", "asked about")
        handles = [axes.barh(0, 0, color=colour) for colour in colours.values()]
        axes.legend(handles, told, loc="lower right")


def trials(
    kills: int,
    seed: int,
    methods: Sequence[str] = tuple(METHODS),
    classes: Sequence[Effects] = tuple(EFFECTS),
) -> list[dict[str, Any]]:
    """What is tried: for each method and class so many kills, every place of every step equally often."""
    found = []
    for method, effects in itertools.product(methods, classes):
        chance = random.Random(f"{seed} {method} {effects}")
        places: list[tuple[str, int]] = []
        while len(places) < kills:
            every = [(point, step) for point in POINTS for step in range(1, STEPS + 1)]
            chance.shuffle(every)
            places += every
        found += [
            {"method": method, "effects": effects, "point": point, "step": step}
            for point, step in places[:kills]
        ]
    return found


def measure(
    seed: int,
    tick: Tick,
    *,
    kills: int = KILLS,
    jobs: int = JOBS,
    methods: Sequence[str] = tuple(METHODS),
    classes: Sequence[Effects] = tuple(EFFECTS),
) -> Crash:
    """Run the experiment: `kills` kills for each of these methods and classes, in `jobs` processes.

    The method on PostgreSQL is left out, and that is told, where there is none.
    """
    with ExitStack() as databases:
        server = databases.enter_context(postgres()) if ON_POSTGRES in methods else None
        without = ON_POSTGRES in methods and server is None
        tried = [method for method in methods if not (without and method == ON_POSTGRES)]
        urls = [databases.enter_context(server.database()).url for _ in range(jobs)] if server else []
        asked = trials(kills, seed, tried, classes)
        found = []
        for line in _told([asked[job::jobs] for job in range(jobs)], urls):
            found.append(Kill(**line))
            tick("kills", len(found), len(asked))
    order = {name: number for number, name in enumerate((*METHODS, *EFFECTS, *POINTS))}
    found.sort(key=lambda kill: (order[kill.method], order[kill.effects], order[kill.point], kill.step))
    return Crash(seed, tuple(found), (NO_POSTGRES,) if without else ())


def _told(shares: Sequence[Sequence[dict[str, Any]]], urls: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """The lines of all killing processes, as they come; each has a database of its own, if there are any.

    Raises RuntimeError if one of them breaks.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    out, into = os.pipe()  # one for all: a line is one short write, and never mixed with another
    command = [sys.executable, "-m", "perdure.lab.killing"]
    running = []
    with os.fdopen(out, encoding="utf-8") as lines:
        for share, url in itertools.zip_longest(shares, urls, fillvalue=""):
            own = {**environment, DATABASE: url}
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=into, env=own)
            assert process.stdin is not None
            process.stdin.write(json.dumps(share).encode())
            process.stdin.close()
            running.append(process)
        os.close(into)
        yield from map(json.loads, lines)
    if broken := [process for process in running if process.wait()]:
        raise RuntimeError(f"{len(broken)} of the killing processes ended with an error, told above")
