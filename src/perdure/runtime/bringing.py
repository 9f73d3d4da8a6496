"""Parked runs are brought to today's code without executing a step of theirs: `perdure migrate`.

Beside running workers: each run is claimed like by a worker, and whoever is quicker brings it over. What is
written is what a resume writes, in one commit that also gives the lease back; a run whose turn has not come
is as it was. So it can be stopped at any moment and begun again (law 19).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as evolve
from typing import Any, Literal, TypeAlias, get_args

from perdure import codec
from perdure.agent import Agent
from perdure.errors import Damaged, NewerFormat, NoSuchRun, PerdureError, RunEnded, RunGone
from perdure.journal import Journal, Past, SnapshotPolicy, restore
from perdure.recovery.deploys import RunKey
from perdure.runtime import budgets
from perdure.runtime.adoption import Adoption, Judged, adopt, judge, key_change, refuse, taken_over
from perdure.runtime.boundary import reached
from perdure.runtime.drive import Host
from perdure.runtime.manifest import refusal_of
from perdure.runtime.rowinfo import asks_people, row_info
from perdure.runtime.runner import died_at
from perdure.runtime.vaults import entered, vault_of
from perdure.state import events as e
from perdure.store.pages import every
from perdure.store.protocol import Batch, Claim, Claimed, Message, Query, RowChange, RunRow

log = logging.getLogger("perdure.run")

How: TypeAlias = Literal["migrated", "current", "busy", "asks", "failed", "stranded"]
"""What came of one run."""

HOWS: tuple[How, ...] = get_args(How)
"""All of them."""

MEANING: Mapping[How, str] = {
    "migrated": "brought to today's version",
    "current": "of today's state version already; perdure preflight tells whether it fits",
    "busy": "a worker has it, and brings it over if it runs this code",
    "asks": "a person decides about what has changed; nothing was written",
    "failed": "its state could not be brought over; it is as it was",
    "stranded": "this code does not carry it on; it is as it was",
}
"""In words."""

Progress: TypeAlias = Callable[[int, int], None]
"""Told how many runs of how many are done."""


@dataclass(frozen=True, slots=True)
class Brought:
    """What came of one run, and why if there is more to say. `from_version`, `to_version`: of its state."""

    run_id: str
    agent: str
    how: How
    from_version: int
    to_version: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Migration:
    """What came of every open run of some agents. `planned`: nothing was written."""

    runs: tuple[Brought, ...]
    planned: bool = False

    @property
    def counts(self) -> dict[How, int]:
        """How many came to what, without those that none came to."""
        found = Counter(run.how for run in self.runs)
        return {how: found[how] for how in HOWS if found[how]}

    @property
    def ok(self) -> bool:
        """Whether no run failed, is stranded or asks a person."""
        return not any(run.how in ("asks", "failed", "stranded") for run in self.runs)


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be brought over: all open runs, or one. `plan`: only look."""

    run_id: str | None = None
    plan: bool = False
    progress: Progress = lambda done, total: None


async def bring_over(host: Host, agents: Sequence[Agent[Any, Any, Any]], order: Order) -> Migration:
    """Bring the open runs of these agents to their code, newest first. Raises StoreError, NoSuchRun."""
    known = {agent.name: agent for agent in agents}
    if order.run_id is not None:
        rows = [await host.store.row(order.run_id)]
    else:
        wanted = [Query(agent=name, open_only=True) for name in known]
        rows = [row for query in wanted async for row in every(host.store, query)]
    found: list[Brought] = []
    for done, row in enumerate(rows, 1):
        if row.agent in known and not row.terminal:
            found.append(await _bring(host, known[row.agent], row, plan=order.plan))
        order.progress(done, len(rows))
    return Migration(tuple(found), order.plan)


async def _bring(host: Host, agent: Agent[Any, Any, Any], row: RunRow, *, plan: bool) -> Brought:
    key = RunKey.read(row.version)
    about = Brought(row.run_id, row.agent, "busy", key.state, agent.state_version)
    if (refusal := refusal_of(agent, row, again=True)) is not None:
        return evolve(about, how="stranded", detail=_said(refusal))
    if key.state == agent.state_version and not key.unfit:
        return evolve(about, how="current")
    if row.worker is not None and not plan:
        return about
    with entered(await vault_of(host.store, row.run_id)):
        if plan:
            return await _planned(host, agent, about)
        return await _tried(host, agent, row, about)


async def _tried(host: Host, agent: Agent[Any, Any, Any], row: RunRow, about: Brought) -> Brought:
    try:
        return await _claimed(host, agent, row, about)
    except (RunEnded, NoSuchRun, RunGone):
        return evolve(about, how="current", detail="it has ended meanwhile")


async def _planned(host: Host, agent: Agent[Any, Any, Any], about: Brought) -> Brought:
    """What would come of it, from a look alone."""
    try:
        past = await restore(host.store, await host.store.load(about.run_id))
        adoption, judged = _judged(agent, past)
    except (NoSuchRun, RunGone):
        return evolve(about, how="current", detail="it has ended meanwhile")
    except PerdureError as error:
        return evolve(about, how="failed", detail=_said(error))
    if judged.hold is not None:
        return evolve(about, how="asks", detail=judged.hold.detail)
    return evolve(about, how="migrated" if adoption.migrated is not None else "current")


def _judged(agent: Agent[Any, Any, Any], past: Past) -> tuple[Adoption, Judged]:
    policy = evolve(agent.on_change, state_older="migrate")
    adoption = adopt(agent, past.record, policy)
    if adoption.migrated is None:
        agent.state_shape.restore(past.record.state, where="$.state")
    return adoption, judge(agent, past.row.run_id, past.record, adoption, policy)


def _said(error: PerdureError) -> str:
    return f"[{error.code}] {error.what}"


async def _claimed(host: Host, agent: Agent[Any, Any, Any], row: RunRow, about: Brought) -> Brought:
    """A message makes the run claimable, and is taken in the commit that brings it over."""
    reached("migrate.nudge")
    message = Message(row.run_id, f"migrate {host.clock.new_id()}", "migrate", codec.encode({}))
    nudge = await host.store.deliver(message)
    served = {agent.name: frozenset({row.version})}
    claim = Claim(host.worker, host.leases.seconds, served, run_id=row.run_id, drives=False)
    claims = await host.store.claim(claim)
    for claimed in claims:
        reached("migrate.claimed")
        return await _brought(host, agent, claimed, nudge.position, about)
    return about


async def _brought(
    host: Host, agent: Agent[Any, Any, Any], claimed: Claimed, nudge: int, about: Brought
) -> Brought:
    store, run_id = host.store, claimed.row.run_id
    try:
        past = await restore(store, await store.load(run_id))
    except (Damaged, NewerFormat) as error:
        await store.release(run_id, claimed.row.epoch)
        return evolve(about, how="failed", detail=_said(error))
    taken = (nudge,) if any(item.position == nudge for item in past.inbox) else ()
    try:
        adoption, judged = _judged(agent, past)
    except PerdureError as error:
        await refuse(store, claimed.row, agent, past.record, error, taken=taken)
        return evolve(about, how="failed", detail=_said(error))
    if judged.hold is not None or not adoption.manifest:
        row, hold = claimed.row, judged.hold
        change = key_change(agent, row) if hold is None else None
        await store.append(Batch(run_id, row.epoch, row.seq, row=change, taken=taken, release=True))
        return evolve(about, how="current") if hold is None else evolve(about, how="asks", detail=hold.detail)
    journal = Journal(store, past, policy=SnapshotPolicy(None, None), durability="effects", clock=host.clock)
    resumed = e.RunResumed(host.worker, ran=budgets.ran_on(past.record, claimed, host))
    facts = taken_over(agent, past.record, adoption, judged, resumed, died_at(claimed, store.now()))
    reached("migrate.write")
    await journal.append(*facts, taken=taken)
    await journal.close(_row(agent, claimed.row, journal, anew=bool(judged.voids)))
    reached("migrate.done")
    return evolve(about, how="migrated")


def _row(agent: Agent[Any, Any, Any], row: RunRow, journal: Journal, *, anew: bool) -> RowChange:
    """The run lies as it lay, for whoever takes it up next. `anew`: what it asked people for is void, so that
    nobody can let it go on: a worker takes it up, and asks again.
    """
    record = journal.record
    key = key_change(agent, row) or RowChange()
    if (row.status == "waiting" and not anew) or (row.status == "held" and record.held is not None):
        return RowChange(status=row.status, due_at=row.due_at, version=key.version)
    info, asks = row_info(record, ""), asks_people(record)
    return RowChange(status="ready", due_at=0, version=key.version, info=info, asks=asks)
