"""What to do with a call whose outcome is not known, and with a step that no longer matches its record.

Pure: facts in, a decision out. Laws 2 and 3 rest on `after_unknown`: an irreversible call is acted again only
after the verdict not_done, an idempotent one only with its own key.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

from perdure.clock import SECOND
from perdure.state.record import CallRecord, RunRecord, WaitRecord

GRACE_SECONDS = 2.0
"""How long after its end a call without a declared timeout may still land at the other side."""

ASK_SECONDS = 60.0
"""How long a reconcile hook that answers Unknown is asked again, at least, before a person is asked."""


class Again(Struct, frozen=True):
    """Make the call again, with the same key."""


class Ask(Struct, frozen=True):
    """Ask the reconcile hook.

    A NotDone counts from `trust_from` on; an Unknown at `until` goes to a person.
    """

    trust_from: int
    until: int


class Person(Struct, frozen=True):
    """Hold the run: only a person can tell."""

    why: str


class LeaveUnknown(Struct, frozen=True):
    """Record that nobody knows, and let the agent look around."""


Action: TypeAlias = Again | Ask | Person | LeaveUnknown
"""What is done about a call whose outcome is not known."""


class CallPolicy(Struct, frozen=True):
    """What the tool declared."""

    has_hook: bool
    unknown: Literal["hold", "raise"] = "hold"
    timeout_seconds: float | None = None
    key_ttl_seconds: float | None = None


def after_unknown(call: CallRecord, policy: CallPolicy, now: int) -> Action:
    """What an open or unknown call asks for, by its effect class."""
    if call.effect == "read":
        return Again()
    if call.effect == "idempotent":
        ttl = policy.key_ttl_seconds
        if ttl is None or now < call.intended_at + int(ttl * SECOND):
            return Again()
        if not policy.has_hook:
            return Person(
                "the receiver no longer remembers the call's key (key_ttl); sent again, it could happen twice"
            )
    if policy.has_hook:
        trust_from = settle_from(call, policy)
        return Ask(trust_from, trust_from + int(max(policy.timeout_seconds or 0.0, ASK_SECONDS) * SECOND))
    if call.cause == "restored":
        return Person(
            "it may have been made after the backup or export that this run comes from, and the tool has no"
            " reconcile hook that could find out"
        )
    if policy.unknown == "raise":
        return LeaveUnknown()
    return Person("the reply never came, and the tool has no reconcile hook that could find out")


def settle_from(call: CallRecord, policy: CallPolicy) -> int:
    """From when on "it did not happen" can be believed: the request may still be on its way before.

    The end of what the old owner could do (`call.over_at`) plus the time that the call was allowed to take.
    """
    seconds = policy.timeout_seconds if policy.timeout_seconds is not None else GRACE_SECONDS
    return call.over_at + int(seconds * SECOND)


class DropTail(Struct, frozen=True):
    """Forget the records after event `keep`, of which none acted, and go on live."""

    keep: int


class HoldDiverged(Struct, frozen=True):
    """Something that acts was recorded from the mismatch on: a person decides."""

    may_restart: bool


def after_mismatch(record: RunRecord, seq: int) -> DropTail | HoldDiverged:
    """The open step asked for something else than event `seq` recorded.

    If only what did not act and unanswered waits were recorded from there on, that tail is dropped.
    """
    tail = [item for item in records(record) if first_seq(item) >= seq]
    if all(_harmless(item) for item in tail):
        return DropTail(seq - 1)
    return HoldDiverged(may_restart(record))


def may_restart(record: RunRecord) -> bool:
    """Whether the open step may begin anew: nothing that acts was made in it, open or settled, and no child
    spawned.
    """
    spawned = any(wait.kind == "child" for wait in record.waits.values())
    return not spawned and not any(map(may_have_acted, record.calls.values()))


def may_have_acted(call: CallRecord) -> bool:
    """Whether the outside may know of this call: no read, nothing refused before it was made, and nothing
    that a transaction took back.
    """
    return call.effect != "read" and not (call.standing == "failed" and not call.intent)


def records(record: RunRecord) -> Iterable[CallRecord | WaitRecord]:
    """Everything that the open step recorded, in order."""
    return sorted((*record.calls.values(), *record.waits.values()), key=first_seq)


def first_seq(item: CallRecord | WaitRecord) -> int:
    """The first event that speaks of a call or wait."""
    if isinstance(item, WaitRecord):
        return item.seq
    return item.intent or item.seq


def _harmless(item: CallRecord | WaitRecord) -> bool:
    if isinstance(item, CallRecord):
        return not may_have_acted(item)
    return not item.closed and item.kind != "child"  # a child acts
