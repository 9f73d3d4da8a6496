"""What a compacted run keeps of its early events: what was done outside, who permitted it, what came in.

The events that an open run may still be asked for are among them (law 12): its acts, its approvals, its
answers, what it owes. What goes is the bulk: replies of models, reads, the changes of the state, which the
snapshot that the run begins with has in their sum. The kept events stand in one frame with a digest of its
own, for the chain cannot be followed through what is gone (law 21). Pure; it knows no store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from perdure import codec
from perdure.errors import Damaged
from perdure.state import events as e
from perdure.state.facts import fact_key

Keep: TypeAlias = Literal["keys", "audit"]
"""What is left of events that go: the keys of the acts, or also what is needed to account for them."""

DIGEST_BYTES = 16
"""The length of the digest in front of the frame."""

_ALWAYS: tuple[type, ...] = (
    e.ApprovalRequested,
    e.ApprovalGranted,
    e.ApprovalDenied,
    e.ApprovalExpired,
    e.ApprovalVoided,
    e.ApprovalUsed,
    e.CancelRequested,
    e.RunHeld,
    e.RunReleased,
    e.RunFinished,
    e.RunForked,
    e.EffectAsked,
    e.EffectDecided,
)
_OF_ACTS: tuple[type, ...] = (
    e.CallIntended,
    e.CallSettled,
    e.CallUnknown,
    e.CallReconciled,
    e.CallLate,
)
_OF_LIFE: tuple[type, ...] = (
    e.RunResumed,
    e.WaitOpened,
    e.WaitClosed,
    e.AnswerRefused,
    e.SignalReceived,
    e.FactChanged,
    e.UndoPlanned,
    e.BudgetRaised,
    e.StepRestarted,
)


class Abridged(Struct, frozen=True, array_like=True):
    """What is kept of the events 1 to `upto`: frames, in order, and the keys of all acts, each once.

    `removed` of them are gone; `at`: when the last of them went, microseconds.
    """

    upto: int
    at: int
    removed: int
    keys: tuple[str, ...]
    events: tuple[bytes, ...]

    def told(self) -> list[e.Event]:
        """The kept events; large values stand out of line."""
        return [codec.unpack(frame, e.Event) for frame in self.events]


def abridged(events: Sequence[e.Event], keep: Keep) -> list[e.Event]:
    """What stays of a run's first events, which may have been abridged before."""
    return list(_lasting(events)) if keep == "audit" else [one for one in events if _is_end(one.body)]


def packed(left: Abridged, digest: bytes) -> bytes:
    """The frame behind its digest. `digest`: of the chain, after the last event that it stands for."""
    frame = codec.pack(left)
    return codec.digest(digest, frame) + frame


def unpacked(data: bytes, digest: bytes) -> Abridged:
    """What `packed` made, checked. Raises Damaged, NewerFormat."""
    check, frame = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
    if codec.digest(digest, frame) != check:
        raise Damaged("what is kept of the compacted events does not match its digest")
    return codec.unpack(frame, Abridged)


def accounted(events: Sequence[e.Event]) -> Iterator[e.Event]:
    """What is needed to say what was done outside, and who permitted it; neither reads nor states."""
    acts = _acts(events)
    for event in events:
        match event.body:
            case e.StepCommitted(number=number):
                yield e.Event(event.seq, event.at, event.epoch, e.StepCommitted(number))
            case body if isinstance(body, _ALWAYS):
                yield event
            case body if isinstance(body, _OF_ACTS) and getattr(body, "path", "") in acts:
                yield event


def keys_of(events: Iterable[e.Event]) -> tuple[str, ...]:
    """The keys under which the run acted, each once, in order."""
    found: dict[str, None] = {}
    for event in events:
        body = event.body
        if isinstance(body, e.CallIntended | e.CallSettled) and body.key:
            found[body.key] = None
    return tuple(found)


def _acts(events: Sequence[e.Event]) -> set[str]:
    bodies = [event.body for event in events]
    acts = {
        body.path
        for body in bodies
        if isinstance(body, e.CallIntended | e.CallSettled)
        and body.head is not None
        and body.head.effect != "read"
    }
    return acts | {body.path for body in bodies if isinstance(body, e.ApprovalRequested)}


def _lasting(events: Sequence[e.Event]) -> Iterator[e.Event]:
    """What is accounted for, how the run lived, and the newest value of each fact."""
    acts = {event.seq for event in accounted(events)}
    facts = {
        fact_key(event.body.head.name, event.body.head.digest): event.seq
        for event in events
        if isinstance(event.body, e.FactRead)
    }
    newest = set(facts.values())
    for event in events:
        body = event.body
        if isinstance(body, e.StepCommitted | e.RunMigrated | e.RunStarted):
            yield e.Event(event.seq, event.at, event.epoch, _light(body))
        elif event.seq in acts or event.seq in newest or isinstance(body, _OF_LIFE):
            yield event


def _light(body: e.StepCommitted | e.RunMigrated | e.RunStarted) -> e.AnyBody:
    """The same without state."""
    if isinstance(body, e.StepCommitted):
        return e.StepCommitted(body.number)
    if isinstance(body, e.RunMigrated):
        return replace(body, patch=())
    return replace(body, state=codec.encode(None))


def _is_end(body: e.AnyBody) -> bool:
    return isinstance(body, e.RunStarted | e.RunFinished)
