"""One run simulated: the run is read, and today's code is executed in a thread apart, in bounded time.

Only reads the store (law 14).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from perdure.agent import Agent, families
from perdure.clock import Clock
from perdure.codec.sealed import Vault
from perdure.errors import BadPoint, NotServed, StepHangs
from perdure.journal import Past, history
from perdure.runtime.aside import Aside, TookTooLong
from perdure.runtime.execution import Live
from perdure.runtime.spectator import spectator
from perdure.runtime.vaults import entered, vault_of
from perdure.state.record import RunRecord
from perdure.store.protocol import Store
from perdure.timeline.plain import clean
from perdure.timeline.simulated import Simulated
from perdure.timeline.simulation import Given, Simulation

STEP_SECONDS = 5.0
"""So long a step may compute between two things that it asks for."""

STAND_IN_SECONDS = 600.0
"""So long stand-ins and models may take to say what the things come to that are asked for at once."""


async def simulate(
    store: Store,
    agents: Sequence[Agent[Any, Any, Any]],
    clock: Clock,
    run_id: str,
    given: Given,
    *,
    seconds: float = STEP_SECONDS,
) -> Simulated:
    """What these agents would do in the place of a run. Raises NotServed, StepHangs, BadPoint, Damaged,
    NewerFormat, NoSuchRun, RunGone, and what a goal or a state raises that does not fit.
    """
    row = await store.row(run_id)
    known = {agent.name: agent for agent in families(agents)}
    if row.agent not in known:
        served = ", ".join(sorted(known)) or "none"
        raise NotServed(
            f"run {run_id} was made by agent {row.agent}; this code has {served}",
            run_id=run_id,
            remedy=f"name the code that has agent {row.agent}",
        )
    for agent in known.values():
        agent.validate()
    events = await history(store, run_id)
    if not 0 <= given.at <= len(events):
        raise BadPoint(f"run {clean(run_id)} has the events 1 to {len(events)}, and no event {given.at}")
    host, vault = spectator(store, clock, known, "simulate"), await vault_of(store, run_id)
    past = Past(row, RunRecord(), b"", ())
    try:
        async with host.providers:
            with entered(vault), Aside() as aside:
                simulation = Simulation(host, known[row.agent], past, events, given)
                await _gone_through(simulation, aside, vault, seconds)
                return simulation.found(run_id)
    finally:
        host.threads.shutdown(wait=False)


async def _gone_through(simulation: Simulation, aside: Aside, vault: Vault | None, seconds: float) -> None:
    """Execute and give, in turns, until it is over."""

    async def round_() -> list[Live]:
        with entered(vault):
            return await simulation.round()

    async def give(lives: Sequence[Live]) -> None:
        with entered(vault):
            await simulation.give(lives)

    while not simulation.over:
        try:
            lives = await aside.play(round_, seconds)
        except TookTooLong as late:
            if (execution := simulation.execution) is not None:  # what it does when it wakes up is no part
                execution.over = True
                execution.drive.stopping = True
            what = f"its step came to no call, wait or end within {seconds:g} s"
            raise StepHangs(what + (f" ({late.place})" if late.place else "")) from None
        if lives:
            await _given(aside, lives[0].what, partial(give, lives))


async def _given(aside: Aside, what: str, give: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        await aside.play(give, STAND_IN_SECONDS)
    except TookTooLong as late:
        said = f"what stands in for {what} took more than {STAND_IN_SECONDS:g} s"
        raise StepHangs(said + (f" ({late.place})" if late.place else "")) from None
