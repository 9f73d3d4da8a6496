"""One run that this process drives: what its calls and steps need, in one place.

Also the one door of messages into a live run: `apply_inbox` turns cancels, verdicts and late results into
events,
each taken once and in the commit that records it (laws 10 and 17).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from perdure import codec
from perdure.agent import Agent, Principal, Providers
from perdure.clock import SECOND, Clock
from perdure.errors import LeaseLost
from perdure.journal import Fences, Journal
from perdure.runtime.boundary import reached
from perdure.runtime.leases import Leases
from perdure.runtime.limits import Limits
from perdure.runtime.tree import LiveState
from perdure.state import events as e
from perdure.state.fold import recorded_values
from perdure.state.record import CallRecord, RunRecord
from perdure.store.protocol import Inbound, Store


@dataclass
class Host:
    """What the runs of one process share."""

    store: Store
    clock: Clock
    leases: Leases
    limits: Limits
    providers: Providers
    threads: ThreadPoolExecutor
    worker: str


@dataclass
class Drive:
    """One claimed run. `inbox_seen` is the position up to which its messages were read."""

    host: Host
    agent: Agent[Any, Any, Any]
    run_id: str
    journal: Journal
    live: LiveState[Any]
    goal: Any
    principal: Principal | None
    inbox_seen: int
    died_at: int
    check: bool = False
    publish: Callable[[object], None] | None = None
    holding: list[e.RunHeld] = field(default_factory=list)

    @property
    def record(self) -> RunRecord:
        """The run as folded so far."""
        return self.journal.record

    @property
    def fences(self) -> Fences:
        """What an intent rests on."""
        return Fences(inbox_seen=self.inbox_seen)

    async def read_inbox(self) -> None:
        """Fetch and apply what has come since the last look."""
        await self.apply_inbox(await self.host.store.inbox(self.run_id, self.inbox_seen))

    async def apply_inbox(self, messages: Sequence[Inbound]) -> None:
        """Turn each message into events, once."""
        for message in messages:
            reached("inbox.apply")
            bodies = message_events(self.record, message)
            await self.journal.append(*bodies, taken=(message.position,))
            self.inbox_seen = max(self.inbox_seen, message.position)

    async def lease_outlasts(self, seconds: float) -> None:
        """Extend the lease until it covers an act of `seconds`.

        Raises LeaseLost: then nothing may be acted.
        """
        if not await self.host.leases.cover(self.run_id, seconds):
            raise LeaseLost(f"run {self.run_id} is owned by another worker")

    def arguments(self, call: CallRecord) -> dict[str, Any]:
        """A recorded call's arguments as plain data."""
        values = recorded_values(self.record)
        return {name: resolve(self.record.state, value, values) for name, value in call.args}


def resolve(state: Any, argument: e.Argument, values: dict[int, bytes]) -> Any:
    """What a recorded argument stands for, as plain data. `state` is the run's committed state."""
    match argument:
        case e.Ref():
            return codec.decode(values[argument.seq][argument.start : argument.start + argument.length])
        case e.StateList():
            place = state
            for key in argument.path:
                place = place[codec.decode(key.data) if isinstance(key, e.OddKey) else key]
            return [*place[: argument.count], *(resolve(state, item, values) for item in argument.extra)]
        case e.Omitted():
            return f"({argument.size} bytes, not kept)"
        case _:
            return codec.decode(argument)


def message_events(record: RunRecord, message: Inbound) -> tuple[e.AnyBody, ...]:
    """What a message means for a run, as events. A message that no longer fits anything means nothing."""
    data: dict[str, Any] = codec.decode(message.data)
    by = str(data.get("by", ""))
    match message.kind:
        case "cancel":
            return (e.CancelRequested(by, str(data.get("note", ""))),)
        case "resolve":
            return _resolved(record, data, by)
        case "release" | "retry":
            return _released(record, message.kind, data, by)
        case "late":
            return _late(record, data)
        case _:
            return ()


def _resolved(record: RunRecord, data: dict[str, Any], by: str) -> tuple[e.AnyBody, ...]:
    call = record.calls.get(str(data["path"]))
    if call is None or call.standing not in ("open", "unknown"):
        return ()
    if data.get("attempt", call.attempt) != call.attempt:
        return ()  # it speaks of an earlier attempt
    value = data.get("value", b"")
    verdict = e.CallReconciled(call.path, data["verdict"], f"person:{by}", value, str(data.get("note", "")))
    if record.held is not None and record.held.path == call.path:
        return (verdict, e.RunReleased(by, "resolve", str(data.get("note", ""))))
    return (verdict,)


def _released(record: RunRecord, kind: str, data: dict[str, Any], by: str) -> tuple[e.AnyBody, ...]:
    if record.held is None:
        return ()
    released = e.RunReleased(by, kind, str(data.get("note", "")))
    if data.get("restart"):
        return (released, e.StepRestarted(f"asked for by {by}", 0, fresh=True))
    return (released,)


def _late(record: RunRecord, data: dict[str, Any]) -> tuple[e.AnyBody, ...]:
    path, attempt, outcome = str(data["path"]), int(data["attempt"]), data["outcome"]
    call = record.calls.get(path)
    open_still = (
        call is not None and call.key == data["key"] and not call.settled and call.standing != "retrying"
    )
    late = e.CallLate(path, attempt, outcome, data["value"], used=open_still)
    if (
        call is not None
        and not open_still
        and outcome == "done"
        and _acted_again(call, attempt, data["value"])
    ):
        detail = (
            f"attempt {attempt} of call {path} ({call.name}) had happened after all, and it was made again"
        )
        return (late, e.RunHeld("conflict", detail, (f"perdure release RUN --call {path}",), path))
    return (late,)


def _acted_again(call: CallRecord, attempt: int, value: bytes) -> bool:
    return call.effect == "irreversible" and call.attempt != attempt and call.value != value


def moment(at: int) -> float:
    """Microseconds since the epoch as seconds."""
    return at / SECOND
