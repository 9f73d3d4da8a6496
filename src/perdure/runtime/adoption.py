"""A code takes over a run that another one left: what differs, what of it is refused, what is written.

Law 11: what this code cannot carry on is found before anything is written, and then nothing of the journal
is; at most the run's row tells which code has failed at it, so that this code does not claim it again. What
is accepted is written as one group of facts, a migrated state with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from perdure import codec
from perdure.agent import Agent
from perdure.codec import Shape
from perdure.errors import (
    CodeChanged,
    MigrationFailed,
    MigrationGap,
    NewerFormat,
    NotServed,
    PerdureError,
    ShapeMismatch,
    StateNewer,
)
from perdure.journal import resolve
from perdure.recovery.deploys import DeployPolicy, RunKey
from perdure.recovery.manifest import Difference, compare
from perdure.recovery.migrations import Migrated
from perdure.runtime.birth import read_goal
from perdure.runtime.manifest import carrier_of, key_of, manifest_bytes, manifest_of, read_manifest
from perdure.runtime.migrating import migrated
from perdure.runtime.scribe import Scribe
from perdure.runtime.tree import LiveState
from perdure.state import events as e
from perdure.state.fold import recorded_values
from perdure.state.patch import compare as changes_of
from perdure.state.record import RunRecord
from perdure.store.protocol import Batch, RowChange, RunRow, Store


class Adoption(Struct, frozen=True):
    """What a code finds before it writes anything. `manifest`: its own as value bytes, if it is another.

    `migrated`: the run's state at today's version, None if it is that already or a person is to be asked.
    """

    manifest: bytes
    migrated: Migrated | None


def adopt(agent: Agent[Any, Any, Any], record: RunRecord, policy: DeployPolicy) -> Adoption:
    """What it takes for this code to carry the run on, under this policy.

    Raises NotServed, StateNewer, MigrationGap or NewerFormat where the code cannot; MigrationFailed and
    ShapeMismatch where its migrations, or the type of its state, do not take this run's state.
    """
    data = manifest_bytes(agent)
    if data == record.manifest and record.state_version == agent.state_version:
        return Adoption(b"", None)
    for one in compare(record, read_manifest(record.manifest), manifest_of(agent), policy):
        if one.verdict == "stranded":
            raise _stranded(agent, record, one)
    made = None
    if record.state_version < agent.state_version and policy.state_older == "migrate":
        made = migrated(record.state, record.state_version, agent)
    return Adoption(data, made)


def _stranded(agent: Agent[Any, Any, Any], record: RunRecord, one: Difference) -> PerdureError:
    here = f"agent {agent.name} {agent.version} with state version {agent.state_version}"
    match one.kind:
        case "state-newer":
            return StateNewer(f"the run's state has version {one.was}; here is {here}")
        case "state-gap":
            return MigrationGap(f"{one.why}; here is {here}")
        case "format-newer":
            return NewerFormat(f"the run was written in format {one.was}; this perdure reads {one.now}")
        case _:
            why = one.why or "another version"
            return NotServed(f"the run is on version {record.version}, and {why}; here is {here}")


def live_of(agent: Agent[Any, Any, Any], record: RunRecord, adoption: Adoption) -> LiveState[Any]:
    """The state that steps work on, at today's version; of a run that waits for a person's yes, as it is.

    Raises ShapeMismatch where the type of the state, or of the goal, does not take what the run has.
    """
    read_goal(agent, record)  # what the steps could not read stops the run here, untouched, and not half-way
    if adoption.migrated is not None:
        return LiveState(agent.state_shape, adoption.migrated.state)
    older = record.state_version < agent.state_version
    return LiveState(Shape.of(Any) if older else agent.state_shape, record.state)


# ------------------------------------------------------------------------------------------- refusals


def is_misfit(error: BaseException) -> bool:
    """Whether this code will fail again at the same run, until the code changes."""
    return isinstance(error, MigrationFailed | ShapeMismatch)


async def refuse(
    store: Store,
    row: RunRow,
    agent: Agent[Any, Any, Any],
    record: RunRecord,
    error: PerdureError,
    *,
    taken: tuple[int, ...] = (),
) -> None:
    """Give back a run that this code cannot carry on: its row tells what it needs, nothing else changes."""
    pinned = read_manifest(record.manifest).pinned
    key = RunKey(record.version, record.state_version, pinned, unfit=RunKey.read(row.version).unfit)
    change = RowChange(version=str(key))
    if is_misfit(error):
        what = f"[{error.code}] {error.what}"[:500]
        info = codec.encode({"reason": "migration-failed", "detail": what, "step": record.step})
        change = RowChange(version=str(key.failed(carrier_of(agent).mark)), status="held", info=info)
    await store.append(Batch(row.run_id, row.epoch, row.seq, row=change, taken=taken, release=True))


# --------------------------------------------------------------------------------------- what is written


class Judged(Struct, frozen=True):
    """What the differences mean for the run as it is. `voids`: requests that are void, each with why.

    `hold`: a person decides; then nothing else is taken over.
    """

    differences: tuple[Difference, ...] = ()
    voids: tuple[e.ApprovalVoided, ...] = ()
    hold: e.RunHeld | None = None


def judge(
    agent: Agent[Any, Any, Any], run_id: str, record: RunRecord, adoption: Adoption, policy: DeployPolicy
) -> Judged:
    """Compare again, with what messages have changed, and ask a person unless they have said yes.

    A yes does not bring a state to today's version: only `perdure migrate` does where the policy holds it.
    """
    if not adoption.manifest:
        return Judged()
    now = manifest_of(agent)
    found = compare(record, read_manifest(record.manifest), now, policy)
    open_ = {asked.id: path for path, asked in record.approvals.items()}
    voids = tuple(
        e.ApprovalVoided(open_[one.name], one.name, one.why) for one in found if one.verdict == "void"
    )
    digest = codec.digest(adoption.manifest)
    agreed = record.accepted == digest
    holding = [one for one in found if one.verdict == "hold" and not (agreed and one.kind != "state-older")]
    if not holding:
        return Judged(found, voids)
    return Judged(found, voids, _hold(run_id, holding, digest))


def _hold(run_id: str, holding: list[Difference], digest: bytes) -> e.RunHeld:
    said = "; ".join(f"{one} ({one.why})" if one.why else str(one) for one in holding)
    remedies = []
    if any(one.kind == "state-older" for one in holding):
        remedies.append(f"perdure migrate FILE:AGENT --id {run_id}    brings its state to today's version")
    if any(one.kind != "state-older" for one in holding):
        remedies.append(f"perdure release {run_id}    accepts the change")
    remedies += ["deploy the code that the run knows", f"perdure cancel {run_id}"]
    return e.RunHeld("changed", f"[{CodeChanged.code}] {said}", tuple(remedies), "", digest)


def told(judged: Judged) -> tuple[str, ...]:
    """The differences that `run.resumed` tells, in words."""
    return tuple(
        str(one)
        for one in judged.differences
        if one.verdict != "go-on" and one.kind not in ("approval", "state-older")
    )


def taken_over(
    agent: Agent[Any, Any, Any],
    record: RunRecord,
    adoption: Adoption,
    judged: Judged,
    resumed: e.RunResumed,
    died_at: int,
) -> tuple[e.AnyBody, ...]:
    """One group of facts: the resume, what differs in the code, the state at today's version, unknown calls.

    `resumed`: who resumes it, to be completed; `died_at`: when the last owner could surely do nothing more.
    """
    open_calls = tuple(call.path for call in record.calls.values() if call.standing == "open")
    resumed = replace(resumed, open_calls=open_calls)
    facts: list[e.AnyBody] = [e.CallUnknown(path, "crash", died_at) for path in open_calls]
    facts += judged.voids
    if judged.hold is None and adoption.manifest:
        resumed = replace(
            resumed, differences=told(judged), manifest=adoption.manifest, version=agent.version
        )
        facts = [*migration_events(record, adoption), *facts]
    return (resumed, *facts)


def migration_events(record: RunRecord, adoption: Adoption) -> Iterator[e.RunMigrated]:
    """The event that brings the state to today's version, if there is any."""
    made = adoption.migrated
    if made is None:
        return
    patch = Scribe({}).ops(changes_of(record.state, made.state, ()))
    original = codec.encode(record.state) if made.lossy else b""
    heads = tuple(_heads(record))
    yield e.RunMigrated(made.from_version, made.to_version, patch, heads, made.lossy, original)


_Args = tuple[tuple[str, e.Argument], ...]


def _heads(record: RunRecord) -> Iterator[tuple[str, _Args]]:
    """The open step's arguments that refer to the state: their values from now on, of reads their sizes."""
    values = recorded_values(record)
    recorded = {path: (call.args, call.effect) for path, call in record.calls.items()}
    recorded |= {path: (asked.head.args, "irreversible") for path, asked in record.approvals.items()}
    for path, (args, effect) in recorded.items():
        if any(isinstance(value, e.StateList) for _, value in args):
            yield path, tuple((name, _settled(record, value, values, effect)) for name, value in args)


def _settled(record: RunRecord, value: e.Argument, values: dict[int, bytes], effect: str) -> e.Argument:
    if not isinstance(value, e.StateList):
        return value
    data = codec.encode(resolve(record.state, value, values))
    return e.Omitted(len(data)) if effect == "read" else data


def key_change(agent: Agent[Any, Any, Any], row: RunRow) -> RowChange | None:
    """What the row tells of a run that this code has taken over; None if it tells so already."""
    key = str(key_of(agent))
    return None if row.version == key else RowChange(version=key)
