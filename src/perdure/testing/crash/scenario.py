"""What is tried: an agent that acts on an outside world, its goal, and the people around it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

from perdure.agent import Agent, Outcome, Principal
from perdure.errors import NothingToResolve, RunEnded
from perdure.host import Runtime
from perdure.journal import load
from perdure.state.record import CallRecord
from perdure.testing.crash.outside import Outside, reply_of

RUN_ID = "crash-run"
"""The run of a trial."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a trial happens: the runtime of this process, and the outside that its tools act on."""

    runtime: Runtime
    outside: Outside


Person: TypeAlias = Callable[[Place, str, Outcome[Any]], Awaitable[bool]]
"""What people do when a run has stopped for them. False: nothing, so that the trial is stuck."""

Hands: TypeAlias = Callable[[], Runtime]
"""The runtime of the process that a tool runs in, for tools that send messages to their own run."""


async def truthful(place: Place, run_id: str, outcome: Outcome[Any]) -> bool:
    """A person who looks into the outside and says what became of the call that the run is held for.

    A run that is held because its worker died too often is let go on: here it is the trial that kills.
    """
    record = (await load(place.runtime.store, run_id)).record
    if record.held is None:
        return True  # someone was quicker
    try:
        if record.held.reason == "poison":
            await place.runtime.release(run_id, by="ada")
        elif record.held.reason == "unknown-outcome":
            await _tell(place, run_id, record.calls[record.held.path])
        else:
            return False
    except (NothingToResolve, RunEnded):
        return True
    return True


async def _tell(place: Place, run_id: str, call: CallRecord) -> None:
    found = place.outside.find(call.key)
    if found is None:
        await place.runtime.resolve(run_id, call.path, by="ada", not_done=True)
    else:
        await place.runtime.resolve(run_id, call.path, by="ada", done=reply_of(found))


@dataclass(frozen=True, slots=True)
class Scenario:
    """One agent under trial.

    `build` makes it anew in each process, around the outside; its second argument gives the runtime to
    tools that send messages. `person` acts when the run is held. `same` names what of the ending must be as
    in the run that was not killed: `status`, `step`, `state`, `value`. `kin`: the ids of the runs that this
    one may spawn, which are judged too. `undoable`: the names of tools with an undo hook. `principal`: on
    whose behalf the run acts.
    """

    name: str
    build: Callable[[Outside, Hands], Agent[Any, Any, Any]]
    goal: Any = "go"
    person: Person = truthful
    same: tuple[str, ...] = ("status", "step", "state", "value")
    kin: tuple[str, ...] = ()
    undoable: tuple[str, ...] = ()
    principal: Principal | None = None


def find_scenario(address: str) -> Scenario:
    """The scenario at `module:name`. Raises LookupError, ImportError."""
    found = find(address)
    if not isinstance(found, Scenario):
        raise LookupError(f"{address} is not a Scenario")
    return found


def find(address: str) -> Any:
    """Whatever is at `module:name`."""
    module, _, name = address.partition(":")
    place = import_module(module)
    if not hasattr(place, name):
        raise LookupError(f"{module} has no {name!r}")
    return getattr(place, name)
