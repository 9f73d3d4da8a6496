"""One run, step by step: what a step costs in each durability, with a short and with a long conversation.

Where the disk is waited for, bare commits are made between the steps, in the same process: a loop that does
nothing but commit finds the processor's caches, the disk and the scheduler in a better mood than a program
that computes between its commits, and on a busy machine the two are not even slowed alike. Both sides are
medians, of all steps and of all bare commits: a mean counts each moment in which something else ran.
"""

from __future__ import annotations

import statistics

from bench.desks import Plan
from bench.room import Ride, Room, alone, counted
from bench.table import Line
from perdure.agent import Durability

GROUP = "One step"

CASES: dict[str, Plan] = {
    "effects, 200 messages, frozen": Plan(200),
    "effects, 200 messages, dicts": Plan(200, kind="dict"),
    "effects, 5,000 messages, frozen": Plan(60, first=5000),
    "effects, 5,000 messages, dicts": Plan(60, first=5000, kind="dict"),
    "effects, with an idempotent call": Plan(200, tool=True),
    "step": Plan(200, durability="step"),
    "strict": Plan(200, durability="strict"),
    "step, on a new store": Plan(200, durability="step"),
}
MOST = {
    "effects, 200 messages, frozen": 150.0,
    "effects, 200 messages, dicts": 150.0,
    "effects, 5,000 messages, frozen": 1000.0,
    "effects, 5,000 messages, dicts": 2500.0,
}
"""Microseconds of engine per step."""


async def measure(room: Room) -> None:
    """Time every case, interleaved, then count what waits for the disk."""
    rides: dict[str, list[Ride]] = {name: [] for name in CASES}
    for _ in range(room.rounds):
        for name, plan in CASES.items():
            rides[name].append(await _ride(room, plan, new=name.endswith("new store")))
    for name, plan in CASES.items():
        if plan.durability == "effects":
            _engine(room, name, plan, rides[name])
        else:
            _waiting(room, name, plan, rides[name], rides["effects, 200 messages, frozen"])
    await _flatness(room)
    await _counts(room)


async def _ride(room: Room, plan: Plan, *, new: bool) -> Ride:
    """A ride beside a bare loop in the same condition, where the disk is waited for."""
    if plan.durability == "effects":
        return await alone(room, plan.anew())
    if not new:
        return await alone(room, plan.anew(room.bare), used=True)
    floor = room.new_bare()
    try:
        return await alone(room, plan.anew(floor))
    finally:
        floor.close()


def _engine(room: Room, name: str, plan: Plan, rides: list[Ride]) -> None:
    """Steps that wait for nothing: processor time of the whole process, the writer's thread included."""
    first = 0 if plan.steps >= 200 else 10
    parts = [ride.part(first, plan.steps) for ride in rides]
    paces = [ride.pace for ride in rides]
    quiet = room.scaled([part.process for part in parts], paces)
    loop = room.scaled([part.loop for part in parts], paces)
    wall = statistics.median(part.wall for part in parts)
    note = f"of it on the loop's thread {loop:.0f}"
    room.lines.append(Line(GROUP, name, "µs", wall, quiet, most=MOST.get(name), note=note))
    if name == "effects, 200 messages, frozen":
        around = [ride.ended.process - ride.begun.process for ride in rides]
        inside = [part.process * plan.steps * 1000 for part in parts]
        rest = [(whole - steps) / 1e6 for whole, steps in zip(around, inside, strict=True)]
        wall_rest = statistics.median(
            (ride.ended.wall - ride.begun.wall - part.wall * plan.steps * 1000) / 1e6
            for ride, part in zip(rides, parts, strict=True)
        )
        quiet_rest = room.scaled(rest, paces)
        room.lines.append(Line(GROUP, "claim, load, finish: once per run", "ms", wall_rest, quiet_rest))


def _waiting(room: Room, name: str, plan: Plan, rides: list[Ride], free: list[Ride]) -> None:
    """Steps that wait for the disk: against bare commits between the same steps. `free`: the same, waiting
    for nothing, each driven shortly before.
    """
    events = 1 if plan.durability == "step" else 2
    floor = statistics.median(ride.floor for ride in rides)
    step = statistics.median(ride.step for ride in rides)
    room.lines.append(Line(GROUP, f"{name}: a whole step", "µs", step, floor=floor))
    wholes = sorted(ride.step / events / ride.floor for ride in rides)
    whole = f"{name}: a whole step, divided by the bare commits that it waits for"
    room.lines.append(
        Line(GROUP, whole, "x", statistics.median(wholes), note=f"best {wholes[0]:.2f}; with its work")
    )
    waits = sorted(
        (ride.step - other.part(0, plan.steps).loop) / events / ride.floor
        for ride, other in zip(rides, free, strict=True)
    )
    room.lines.append(
        Line(
            GROUP,
            f"{name}: a commit, divided by a bare one",
            "x",
            statistics.median(waits),
            most=2.0,
            note=f"best {waits[0]:.2f}; what it adds to the step's own work, as in effects",
        )
    )


async def _flatness(room: Room) -> None:
    """Does the last tenth of a long run cost more than its first?"""
    tenths: list[float] = []
    for _ in range(max(room.rounds // 2, 3)):
        ride = await alone(room, Plan(800))
        first, last = ride.part(0, 80), ride.part(720, 800)
        tenths.append(last.process / first.process)
    name = "effects, last tenth of 800 steps divided by the first"
    room.lines.append(Line(GROUP, name, "x", statistics.median(tenths), most=1.2))


async def _counts(room: Room) -> None:
    """How many commits a run of 200 steps waits for."""
    steps = 200
    targets: dict[Durability, float] = {"effects": 1.0, "step": steps + 1.0, "strict": 2 * steps + 1.0}
    for durability, most in targets.items():
        found = await counted(room, Plan(steps, durability=durability))
        room.lines.append(
            Line(
                GROUP,
                f"{durability}: commits waited for in {steps} steps",
                "",
                found.waited,
                most=most,
                note=f"{found.commits} commits with the claim; the end waits for one",
            )
        )
    tool = await counted(room, Plan(steps, tool=True))
    name = f"effects with an idempotent call: commits waited for in {steps} steps"
    room.lines.append(Line(GROUP, name, "", tool.waited, most=steps + 1.0, note=f"{tool.commits} commits"))
