"""Parents and children as facts: a child's id, what its parent records of it, what it tells at its end.

Pure: no store, no agent, no step. Laws 10 and 16 rest on it: a child tells its end once, in the commit of
that end, and whatever a parent spawns belongs to its trace.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from perdure import codec
from perdure.runtime.questions import open_waits
from perdure.state import events as e
from perdure.state.amount import KINDS, Amount
from perdure.state.ledger import spent_of
from perdure.state.record import RunRecord, WaitRecord
from perdure.store.protocol import Message

ID_CHARS = 200
"""The longest id of a run."""

OnCancel: TypeAlias = Literal["cancel", "wait"]
"""What a parent's cancellation does to a child: it is cancelled too, or the parent waits for its end."""


def child_id(parent: str, path: str) -> str:
    """The id of the child that is spawned at this place: always the same, and no other place's."""
    plain = f"{parent}.{path}"
    if len(plain) <= ID_CHARS:
        return plain
    told = codec.digest(parent.encode("utf-8", "surrogatepass"), path.encode()).hex()
    return f"{parent[: ID_CHARS - len(told) - 1]}~{told}"


def child_digest(agent: str, goal: bytes) -> bytes:
    """By which a fork knows a child of its origin's again: its agent and goal."""
    return codec.digest(b"child", agent.encode("utf-8", "surrogatepass"), goal)


class Begun(Struct, frozen=True):
    """What the wait for a child records: all that is needed to create it, again if need be.

    So a crash between the two, or a cancellation, is mended without the child's agent.
    """

    started: e.RunStarted
    on_cancel: OnCancel = "cancel"

    @property
    def detail(self) -> bytes:
        """As the wait keeps it."""
        event = codec.pack(e.Event(1, 0, 0, self.started))
        return codec.encode({"agent": self.started.agent, "on_cancel": self.on_cancel, "started": event})

    @classmethod
    def of(cls, wait: WaitRecord) -> Begun:
        """What was recorded with a child's wait."""
        told: dict[str, Any] = codec.decode(wait.detail)
        started = codec.unpack(told["started"], e.Event).body
        assert isinstance(started, e.RunStarted)
        return cls(started, told["on_cancel"])


def open_children(record: RunRecord) -> list[WaitRecord]:
    """The waits for children that have not told their end."""
    return open_waits(record, "child")


class Told(Struct, frozen=True):
    """What a child came to. `value`: its result, or why it has none, as value bytes. `used`: an amount."""

    status: str
    value: bytes
    used: tuple[int, ...] = ()

    @classmethod
    def of(cls, data: bytes) -> Told:
        """As the wait of the parent keeps it."""
        told: dict[str, Any] = codec.decode(data)
        return cls(told["status"], told["value"], tuple(told["used"]))


def report(run_id: str, record: RunRecord, end: e.RunFinished, *, steps: int = 0) -> tuple[Message, ...]:
    """What an ended run tells its parent, if it was spawned. `steps`: those that end in the same commit.

    To be sent in the commit of its end.
    """
    if record.parent is None or not record.path:
        return ()
    used = spent_of(record) + Amount(steps=steps)
    told = {"status": end.status, "value": end.value, "used": [used.of(kind) for kind in KINDS]}
    data = {"path": record.path, "child": run_id, "told": codec.encode(told)}
    return (Message(record.parent, f"end of {run_id}", "child", codec.encode(data)),)


def child_events(record: RunRecord, data: dict[str, Any]) -> tuple[e.AnyBody, ...]:
    """What a child's end means to its parent: the wait is over. Nothing if there is no such wait any more."""
    wait = record.waits.get(str(data["path"]))
    if wait is None or wait.closed or (wait.kind, wait.name) != ("child", data["child"]):
        return ()
    used = None if record.ledger is None else Amount(*Told.of(data["told"]).used)
    return (e.WaitClosed(wait.path, "child", data["told"], by=wait.name, used=used),)
