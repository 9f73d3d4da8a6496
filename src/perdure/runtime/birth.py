"""How a run begins: its first event, and the row that is made with it.

One way for a run that a caller starts and for one that another run spawns. Decides nothing: the same agent,
goal and circumstances make the same event.
"""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import Struct

from perdure import codec
from perdure.agent import Agent, Principal
from perdure.codec.redaction import refuse_leak
from perdure.errors import NoSuchRun, ShapeMismatch
from perdure.journal import outline
from perdure.recovery.deploys import RunKey
from perdure.runtime.manifest import manifest_bytes, read_manifest
from perdure.state import events as e
from perdure.state.amount import Limits
from perdure.state.record import RunRecord
from perdure.store.protocol import GENESIS, NewRun, Placement, Store, Stored

G = TypeVar("G")

DEFAULT_PLACEMENT = Placement()
"""Where a run stands for which nothing was asked."""


class Circumstances(Struct, frozen=True):
    """What a run is begun with beside its agent and goal. `principal`: value bytes.

    `trace`: 32 hex digits, of the run at the root. `parent` and `path`: the run that spawned it, and where.
    `budget`: the most that it may use.
    """

    trace: str
    principal: bytes | None = None
    parent: str | None = None
    path: str = ""
    budget: Limits | None = None


def trace_of(run_id: str) -> str:
    """The trace of a run that nobody spawned: 32 hex digits, derived from its id."""
    return codec.digest(b"trace", run_id.encode("utf-8", "surrogatepass")).hex()


def principal_bytes(principal: Principal | None) -> bytes | None:
    """On whose behalf a run acts, as it is stored."""
    if principal is None:
        return None
    return codec.encode({"id": principal.id, "roles": sorted(principal.roles)})


def principal_of(record: RunRecord) -> Principal | None:
    """On whose behalf the run acts, as it was recorded."""
    if record.principal is None:
        return None
    stored = codec.decode(record.principal)
    return Principal(stored["id"], frozenset(stored["roles"]))


def goal_bytes(agent: Agent[Any, G, Any], goal: G) -> bytes:
    """A goal as value bytes, alike for alike goals. Raises ShapeMismatch, NotStorable."""
    given = codec.plain(goal, where="$.goal")
    return codec.encode(agent.goal_shape.restore(given, where="$.goal"), where="$.goal")


def same_goal(agent: Agent[Any, Any, Any], recorded: bytes, goal: bytes) -> bool:
    """Whether a run that was started for the one is a run for the other.

    What was recorded is read as today's type reads it: a field that came later has its default.
    """
    if recorded == goal:
        return True
    try:
        today = agent.goal_shape.restore(codec.decode(recorded), where="$.goal")
    except ShapeMismatch:
        return False  # it is none of today's goals
    return codec.encode(today, where="$.goal") == goal


def read_goal(agent: Agent[Any, G, Any], record: RunRecord) -> G:
    """What the run was started for, as today's code has it. Raises ShapeMismatch (M301)."""
    try:
        return agent.goal_shape.restore(codec.decode(record.goal), where="$.goal")
    except ShapeMismatch as error:
        error.remedy = (
            "give what the goal's type has gained a default, or take the change back; the run can also go on "
            "from its start with another goal: perdure fork RUN@1 --goal"
        )
        raise


def started(agent: Agent[Any, G, Any], goal: G, begun: Circumstances) -> e.RunStarted:
    """The first event of a run. Raises ShapeMismatch, NotStorable, SecretLeaked for a goal that is none."""
    goal_data = goal_bytes(agent, goal)
    state = codec.encode(agent.first_state(goal), where="$.state")
    refuse_leak(goal_data, "the goal")
    refuse_leak(state, "the first state")
    return e.RunStarted(
        agent.name,
        agent.version,
        agent.state_version,
        goal_data,
        state,
        manifest_bytes(agent),
        principal=begun.principal,
        parent=begun.parent,
        budget=begun.budget,
        path=begun.path,
        trace=begun.trace,
    )


def unfit_state(agent: Agent[Any, Any, Any], body: e.RunStarted) -> ShapeMismatch | None:
    """Why no step could read the state that a run would begin with."""
    try:
        agent.state_shape.restore(codec.decode(body.state), where="$.state")
    except ShapeMismatch as error:
        error.safe = "No run was started."
        error.remedy = f"give {agent.name} a start that returns what its state's type takes, or mend the type"
        return error
    return None


async def check_exists(store: Store, run_id: str, unfit: ShapeMismatch) -> None:
    """A run that exists has a state of its own, whatever `start` gives it now. Raises `unfit` if none is."""
    try:
        await store.row(run_id)
    except NoSuchRun:
        raise unfit from None


def new_run(run_id: str, body: e.RunStarted, at: int, placement: Placement = DEFAULT_PLACEMENT) -> NewRun:
    """The run as a store makes it, begun at the moment `at`."""
    slim, blobs = outline(body)
    data = codec.pack(e.Event(1, at, 0, slim))
    stored = Stored(1, data, codec.chain(GENESIS, data))
    key = RunKey(body.version, body.state_version, read_manifest(body.manifest).pinned, codec.FORMAT)
    return NewRun(
        run_id,
        body.agent,
        str(key),
        "ready",
        (stored,),
        parent=body.parent,
        blobs=tuple(blobs),
        placement=placement,
    )
