"""What a pause does to truth: how many acts rest on what has changed meanwhile, on paper and in the engine.

The paper model is one line, `share`: a fact that changes with the same chance in each hour. The experiment
runs agents over the real engine on a clock that is moved: each looks at several facts, asks for permission to
act on each, and gets it `hours` later. Every fact has a hazard of its own. The same worlds are run twice:
once with tools that name what they rest on (the engine reads that again before the act), once without. Knows
no terminal; the same seed gives the same numbers.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from perdure.agent import Agent, Approval, Principal, Tool, Waiting, fact, tool
from perdure.clock import SECOND
from perdure.errors import PremiseChanged
from perdure.host import Runtime
from perdure.lab.report import Cell, Table, Tick, percent
from perdure.store.memory import MemoryStore
from perdure.testing.clock import MovableClock

HOURS = (0.5, 6.0, 12.0, 24.0, 48.0, 72.0)
"""How long the people of the experiment take to answer, unless the caller says otherwise."""

RUNS = 250
"""Runs for each of these pauses."""

ALL = "any of them"
"""The row that counts runs with at least one false act."""

ROUNDS = 9
"""How often an agent plans anew before it gives up; in these worlds a fact changes once."""


def share(hazard: float, hours: float) -> float:
    """The paper model: how likely a fact is another one after a pause. `hazard` is the chance of a change in
    one hour, from 0 to 1; a part of an hour counts as a whole one.
    """
    return 1 - (1 - hazard) ** math.ceil(hours)


def share_of_any(hazards: Sequence[float], hours: float) -> float:
    """The same for a run that rests on several facts which change by themselves: at least one is another."""
    return 1 - math.prod(1 - share(hazard, hours) for hazard in hazards)


@dataclass(frozen=True, slots=True)
class Hazard:
    """A fact's name and its chance of changing in one hour."""

    fact: str
    per_hour: float


HAZARDS = (Hazard("status", 0.005), Hazard("price", 0.02), Hazard("stock", 0.05))
"""An order's status seldom changes, what a shop has left often."""


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of one fact after one pause; shares from 0 to 1, of `resumes` runs.

    `due` is the paper's figure; `blind` and `checked` are the shares that acted on what was no longer true.
    What checking cost, as totals over the resumes: `reads`, `replans`, and `asked`, permissions asked for
    again because what they rested on had changed.
    """

    hours: float
    fact: str
    per_hour: float | None
    due: float
    blind: float
    checked: float
    resumes: int
    reads: int
    replans: int
    asked: int

    @property
    def margin(self) -> float:
        """Three standard deviations of a share that is `due`, in as many resumes."""
        return 3 * math.sqrt(self.due * (1 - self.due) / self.resumes)


@dataclass(frozen=True, slots=True)
class Stale:
    """The result: one row for each pause and fact, and one for all facts together."""

    seed: int
    runs: int
    hazards: tuple[Hazard, ...]
    rows: tuple[Row, ...]

    name = "stale"
    title = "Acts that rest on what is no longer true"
    caption = (
        "The share of acts that rest on a changed fact against the hours between look and act, one line for"
        " each hazard: lines are the formula, dots are measured without a check; with the check it is 0."
    )

    def tables(self) -> list[Table]:
        """Shares by pause and fact, and what checking cost, for a thousand resumes."""
        heads = ("pause", "fact", "changes an hour", "formula", "unchecked", "checked")
        cost = ("reads more", "plans again", "asked again")
        shares: list[tuple[Cell, ...]] = []
        costs: list[tuple[Cell, ...]] = []
        for row in self.rows:
            first = (f"{row.hours:g} h", row.fact)
            hazard = None if row.per_hour is None else percent(row.per_hour)
            shares.append((*first, hazard, percent(row.due), percent(row.blind), percent(row.checked)))
            totals = (row.reads, row.replans, row.asked)
            costs.append((*first, *(round(1000 * count / row.resumes) for count in totals)))
        return [
            Table(heads, tuple(shares), "share of acts that rest on what is no longer true"),
            Table(("pause", "fact", *cost), tuple(costs), "what checking costs, for 1,000 resumes"),
        ]

    def document(self) -> dict[str, Any]:
        """The same as plain data: shares from 0 to 1, counts as totals over the resumes."""
        return {
            "seed": self.seed,
            "runs": self.runs,
            "rows": [
                {
                    "hours": row.hours,
                    "fact": row.fact,
                    "per_hour": row.per_hour,
                    "formula": row.due,
                    "unchecked": row.blind,
                    "checked": row.checked,
                    "resumes": row.resumes,
                    "reads": row.reads,
                    "replans": row.replans,
                    "asked_again": row.asked,
                }
                for row in self.rows
            ],
        }

    def sentences(self) -> list[str]:
        """What the figures say."""
        longest = max(row.hours for row in self.rows)
        whole = next(row for row in reversed(self.rows) if row.hours == longest)
        acts = len(self.hazards)
        false = sum(row.checked * row.resumes for row in self.rows)
        reads, plans, asked = (count / whole.resumes for count in (whole.reads, whole.replans, whole.asked))
        reading = (
            f"Measured: {self.runs} runs for each pause. Each looks at every fact, asks for permission to"
            " act on each, and gets it when the pause is over."
        )
        price = (
            f"The check reads each fact once more before the act. After {longest:g} h it makes {reads:.2f}"
            f" reads, {plans:.2f} plans and {asked:.2f} questions to a person more for each run, since so"
            " much has changed: that is work which was due, and which nobody notices without the check."
        )
        found = [
            "Formula: 1 - (1 - changes an hour) ^ hours, where a part of an hour counts as a whole one.",
            reading,
            f"With the check, {false:.0f} acts rest on what is no longer true.",
            price,
        ]
        if acts > 1:
            worst = max(
                (row for row in self.rows if row.hours == longest and row.fact != ALL), key=lambda r: r.due
            )
            found.append(
                f"Facts go stale together: after {longest:g} h {percent(whole.due)} of runs that rest on all"
                f" {acts} would act on something false, {percent(worst.due)} by the worst of them alone."
            )
        return found

    def plot(self, axes: Any) -> None:
        """Shares against hours: the formula's lines, what was measured as dots on them, the check at 0."""
        longest = max(row.hours for row in self.rows)
        ticks = range(math.ceil(longest) + 1)
        for hazard in self.hazards:
            label = f"{hazard.fact}: {percent(hazard.per_hour)} an hour"
            heights = [share(hazard.per_hour, hour) for hour in ticks]
            _line(axes, self._of(hazard.fact), ticks, heights, label)
        if len(self.hazards) > 1:
            rates = [hazard.per_hour for hazard in self.hazards]
            heights = [share_of_any(rates, hour) for hour in ticks]
            _line(axes, self._of(ALL), ticks, heights, ALL, style="--")
        checked = self.rows
        axes.plot(
            [row.hours for row in checked],
            [100 * row.checked for row in checked],
            "s",
            color="black",
            label="all, checked before the act",
            clip_on=False,
            zorder=5,
        )
        axes.set_xlabel("hours between the look and the act")
        axes.set_ylabel("acts that rest on what is no longer true (%)")
        axes.set_xlim(0, longest * 1.02)
        axes.set_ylim(0, 100)
        axes.set_xticks(range(0, math.ceil(longest) + 1, max(1, 12 * (math.ceil(longest) // 96 + 1))))
        axes.set_title("Stale premises: the formula (lines), measured without a check (dots)")
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))

    def _of(self, name: str) -> list[Row]:
        return [row for row in self.rows if row.fact == name]


def _line(
    axes: Any,
    rows: Sequence[Row],
    ticks: Sequence[int],
    paper: Sequence[float],
    label: str,
    style: str = "-",
) -> None:
    heights = [100 * height for height in paper]
    (drawn,) = axes.plot(ticks, heights, style, drawstyle="steps-pre", linewidth=1.4, label=label)
    axes.plot(
        [row.hours for row in rows], [100 * row.blind for row in rows], "o", color=drawn.get_color(), zorder=4
    )


# --------------------------------------------------------------------------------------------- the experiment


class World:
    """Facts about numbered things, each of which changes once, in the hour that the seed gives it."""

    def __init__(self, hazards: Sequence[Hazard], clock: MovableClock, runs: int, seed: str) -> None:
        self._clock, self._began = clock, clock.now()
        self._changes: dict[str, list[float]] = {}
        for one in hazards:
            chance = random.Random(f"{seed} {one.fact}")
            self._changes[one.fact] = [_hour_of_change(chance.random(), one.per_hour) for _ in range(runs)]
        self.reads: Counter[str] = Counter()
        self.plans: Counter[str] = Counter()
        self.asked: dict[str, set[str]] = {one.fact: set() for one in hazards}
        self.false: dict[str, set[int]] = {one.fact: set() for one in hazards}

    def value(self, name: str, number: int) -> str:
        """What is true of a thing now."""
        hours = math.ceil((self._clock.now() - self._began) / (3600 * SECOND))
        return "changed" if self._changes[name][number] <= hours else "as it was"

    def read(self, name: str, number: int) -> str:
        """The same, as somebody looks, which is counted."""
        self.reads[name] += 1
        return self.value(name, number)

    def act(self, name: str, number: int, seen: str) -> None:
        """Somebody does what is right only if the thing still is as it was `seen`."""
        if self.value(name, number) != seen:
            self.false[name].add(number)


def _hour_of_change(drawn: float, per_hour: float) -> float:
    """The first hour (1, 2, …) in which a fact changes, for a number drawn from [0, 1)."""
    if per_hour <= 0:
        return math.inf
    return 1 if per_hour >= 1 else 1 + int(math.log(1 - drawn) / math.log(1 - per_hour))


def _looks_and_acts(world: World, name: str, *, checked: bool) -> tuple[Tool[..., Any], Tool[..., Any]]:
    """A fact that stays fresh until its run pauses, and a tool that rests on it, or does not."""

    @fact(fresh_for=timedelta(days=365))
    async def read(number: int) -> str:
        return world.read(name, number)

    look = read.replace(name=name)

    @tool(
        name=f"act_on_{name}",
        effect="irreversible",
        premises=[look] if checked else [],
        approval=Approval(expires=timedelta(days=365)),
    )
    async def act(number: int, seen: str) -> None:
        world.act(name, number, seen)

    return look, act


def clerk(world: World, hazards: Sequence[Hazard], *, checked: bool) -> Agent[Any, Any, Any]:
    """An agent that looks at each fact, plans on what it saw, asks for permission, and acts."""
    hands = {one.fact: _looks_and_acts(world, one.fact, checked=checked) for one in hazards}
    made: Agent[Any, Any, Any] = Agent(
        "clerk",
        state=dict,
        goal=int,
        start=lambda goal: {},
        tools=[hand for pair in hands.values() for hand in pair],
    )

    @made.model("planner")
    async def plan(name: str, seen: str) -> str:
        world.plans[name] += 1
        return f"act on {name}, which is {seen}"

    @made.step
    async def step(run: Any) -> None:
        async def pursue(name: str) -> None:
            look, act = hands[name]
            seen = await look(run.goal)
            for _ in range(ROUNDS):
                await plan(name, seen)
                try:
                    await act(run.goal, seen)
                    return
                except PremiseChanged as changed:
                    seen = changed.now

        await run.map(pursue, list(hands))
        run.finish(None)

    return made


async def _pass(
    hazards: Sequence[Hazard],
    hours: float,
    runs: int,
    seed: str,
    *,
    checked: bool,
    resumed: Callable[[], None],
) -> World:
    """Every run looks and asks; `hours` later everything is permitted, and what is asked again, at once."""
    clock = MovableClock()
    world = World(hazards, clock, runs, seed)
    made = clerk(world, hazards, checked=checked)
    ana = Principal("ana")
    async with Runtime(MemoryStore(clock=clock), [made], clock=clock) as runtime:
        for number in range(runs):
            await runtime.run(made, f"r-{number}", number, patience=timedelta(0))
        clock.advance(hours * 3600)
        for number in range(runs):
            outcome = await runtime.outcome(f"r-{number}")
            while isinstance(outcome, Waiting):
                for request in outcome.approvals:
                    world.asked[request.tool.removeprefix("act_on_")].add(request.id)
                    await runtime.approve(request.id, by=ana)
                outcome = await runtime.run(made, f"r-{number}", number, patience=timedelta(0))
            outcome.unwrap()
            resumed()
    return world


def measure(
    seed: int,
    tick: Tick,
    *,
    hazards: Sequence[Hazard] = HAZARDS,
    hours: Sequence[float] = HOURS,
    runs: int = RUNS,
) -> Stale:
    """Run the experiment: every run of every pause, without and with the check, in the same worlds."""
    rows: list[Row] = []
    total, done = 2 * len(hours) * runs, 0

    def resumed() -> None:
        nonlocal done
        done += 1
        tick("resumes", done, total)

    for pause in hours:
        blind, seen = (
            asyncio.run(_pass(hazards, pause, runs, f"{seed} {pause:g}", checked=checked, resumed=resumed))
            for checked in (False, True)
        )
        rows += (_row(pause, [one], one.fact, blind, seen, runs) for one in hazards)
        if len(hazards) > 1:
            rows.append(_row(pause, hazards, ALL, blind, seen, runs))
    return Stale(seed, runs, tuple(hazards), tuple(rows))


def _row(hours: float, hazards: Sequence[Hazard], name: str, blind: World, seen: World, runs: int) -> Row:
    facts = [one.fact for one in hazards]
    return Row(
        hours=hours,
        fact=name,
        per_hour=hazards[0].per_hour if len(hazards) == 1 else None,
        due=share_of_any([one.per_hour for one in hazards], hours),
        blind=len(set().union(*(blind.false[fact] for fact in facts))) / runs,
        checked=len(set().union(*(seen.false[fact] for fact in facts))) / runs,
        resumes=runs,
        reads=sum(seen.reads[fact] - blind.reads[fact] for fact in facts),
        replans=sum(seen.plans[fact] - blind.plans[fact] for fact in facts),
        asked=sum(len(seen.asked[fact]) - len(blind.asked[fact]) for fact in facts),
    )
