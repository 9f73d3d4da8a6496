"""The closed set of facts that a journal may hold.

Every event has a number (`seq`), a moment (`at`, microseconds, UTC), the epoch of the lease under which it
was written,
and one of the bodies below. Kinds are short stable words, never import paths. User values inside a body are
*value
bytes* (`perdure.codec.encode`); what a body stores elsewhere already, it refers to. This file knows no bytes
on disk
and reads no clock; docs/format.md specifies each body field by field.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from perdure.state.amount import Amount, Limits
from perdure.state.forking import EffectAsked, EffectDecided, Effects, OriginAct, RunForked, Standin
from perdure.state.parts import (
    Argument,
    Body,
    Delete,
    Effect,
    Key,
    OddKey,
    Omitted,
    Op,
    Ref,
    Set,
    Splice,
    StateList,
    Value,
)

__all__ = [
    "Argument",
    "Body",
    "Delete",
    "Effect",
    "EffectAsked",
    "EffectDecided",
    "Effects",
    "Key",
    "OddKey",
    "Omitted",
    "Op",
    "OriginAct",
    "Ref",
    "RunForked",
    "Set",
    "Splice",
    "Standin",
    "StateList",
    "Value",
]
"""Names of other files that are given on; this file's own are public all the same."""

Usage: TypeAlias = tuple[int, ...]
"""What a call used: input and output tokens, then billionths of a dollar if the price is known. An empty one:
nobody can tell, and what the call had reserved counts. None in its place: nothing was used."""

SINCE = "run.since"
"""The name under which the answer to a marker is recorded."""

DRAWN: frozenset[str] = frozenset({"run.now", "run.random", "run.new_id", "run.gather", SINCE})
"""What is recorded like a call and asks nothing of the outside."""

Outcome: TypeAlias = Literal["done", "failed", "not_done"]
"""What a receipt says."""


class Doubt(Struct, frozen=True, array_like=True):
    """Another incarnation of a run may have gone on from here, between these moments (microseconds)."""

    since: int
    until: int


class RunStarted(Body, frozen=True, array_like=True, tag="run.started"):
    """A run began.

    `state` is the state that the agent made of the goal; `manifest` describes the agent's code; `budget` is
    the most that the run may use (None: no limits). `path`: the wait of its `parent` to which it tells its
    end, empty if none spawned it. `trace`: 32 hex digits, the same for a run and everything that it spawns.
    `doubt`: its parent's, when it was spawned.
    """

    agent: str
    version: str
    state_version: int
    goal: bytes
    state: bytes
    manifest: bytes
    principal: bytes | None = None
    parent: str | None = None
    budget: Limits | None = None
    path: str = ""
    trace: str = ""
    doubt: Doubt | None = None


class RunResumed(Body, frozen=True, array_like=True, tag="run.resumed"):
    """A worker claimed the run. `open_calls` are the paths that had an intent and no receipt.

    `ran`: how long (microseconds) the last owner, which died, may have been executing after its last event.
    `manifest`: of the code that has taken the run over, and `version` its version, if the code is not what
    it was; `differences` tells in words what of it is worth telling.
    """

    worker: str
    open_calls: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    ran: int = 0
    manifest: bytes = b""
    version: str = ""


class RunMigrated(Body, frozen=True, array_like=True, tag="run.migrated"):
    """The state was brought from one version to another; its patch turns the one into the other.

    `heads`: arguments of the open step's calls and requests, by their paths, that referred to the state as it
    was. `original`: the whole state before, kept here if the migration leaves something out (`lossy`).
    """

    from_version: int
    to_version: int
    patch: tuple[Op, ...] = ()
    heads: tuple[tuple[str, tuple[tuple[str, Argument], ...]], ...] = ()
    lossy: bool = False
    original: bytes = b""


class CallHead(Struct, frozen=True, array_like=True, gc=False):
    """Which call it is. `digest` is over tool name and arguments."""

    name: str
    effect: Effect
    args: tuple[tuple[str, Argument], ...]
    digest: bytes


class CallIntended(Body, frozen=True, array_like=True, tag="call.intended"):
    """A call is about to be made. `deadline` is the moment by which it must have ended.

    `reserved` is what it may use at worst of a budget's money and tokens; None if it has no part in one.
    `premises`: the `fact.read` events that it rests on.
    """

    path: str
    head: CallHead
    key: str
    attempt: int
    deadline: int
    inbox: int = 0
    reserved: Amount | None = None
    premises: tuple[int, ...] = ()


class CallSettled(Body, frozen=True, array_like=True, tag="call.settled"):
    """A call's outcome is known. `head` is there when no intent was written. `final`: no retry may follow.

    `value` holds the result, or the error (`perdure.codec.encode_error`). `usage`: see `Usage`. `premises`:
    the `fact.read` events that a transactional call rests on.
    """

    path: str
    outcome: Outcome
    value: bytes
    head: CallHead | None = None
    final: bool = True
    attempt: int = 1
    key: str = ""
    usage: Usage | None = None
    premises: tuple[int, ...] = ()


class CallUnknown(Body, frozen=True, array_like=True, tag="call.unknown"):
    """A call was made and its reply never came.

    From `over_at` on, nobody on our side could still be making it. `restored`: this attempt was not made
    here; another incarnation of the run may have made it.
    """

    path: str
    cause: Literal["crash", "timeout", "cancelled", "connection", "error", "restored"]
    over_at: int
    detail: str = ""


class CallReconciled(Body, frozen=True, array_like=True, tag="call.reconciled"):
    """What became of an unknown call: `done` and `failed` settle it with `value`.

    `not_done` lets it act again.
    """

    path: str
    verdict: Literal["done", "not_done", "failed", "left-unknown"]
    by: str
    value: bytes = b""
    evidence: str = ""


class CallLate(Body, frozen=True, array_like=True, tag="call.late"):
    """A result arrived after its run had moved on. `used`: it settled a call that was still unknown.

    `usage`: as in a receipt; it counts if the result was used. What an attempt had reserved that was made
    again, or settled otherwise, was booked then.
    """

    path: str
    attempt: int
    outcome: Outcome
    value: bytes
    used: bool
    usage: Usage | None = None


WaitKind: TypeAlias = Literal["sleep", "signal", "answer", "child"]
"""What can end a wait before its deadline: nothing, a signal of its name, an answer, a child run's end."""

Ended: TypeAlias = Literal["due", "signal", "answer", "child", "expired"]
"""How a wait ended: its time has come, what it waited for has come, or that has not come in time."""


class WaitOpened(Body, frozen=True, array_like=True, tag="wait.opened"):
    """The run waits for something by name, until a deadline at the latest (from 2**62 on: for ever).

    `detail`: value bytes of a dict with what the kind needs, empty for a sleep. `reserved`: what a child may
    use of this run's budget, None if it has none.
    """

    path: str
    name: str
    deadline: int
    kind: WaitKind = "sleep"
    detail: bytes = b""
    reserved: Amount | None = None


class WaitClosed(Body, frozen=True, array_like=True, tag="wait.closed"):
    """A wait ended. `signal`: the event that received the signal which it took, 0 for none.

    `value`: the answer, what a child came to, or the default of a wait that expired; empty for none. `id`:
    the sender's, of an answer. `used`: what a child has used of this run's budget; the rest of what was
    reserved for it comes back.
    """

    path: str
    how: Ended
    value: bytes = b""
    signal: int = 0
    by: str = ""
    id: str = ""
    used: Amount | None = None


class AnswerRefused(Body, frozen=True, array_like=True, tag="answer.refused"):
    """An answer did not fit the type in the code that asks: its wait is open again, until its deadline."""

    path: str
    why: str


class SignalReceived(Body, frozen=True, array_like=True, tag="signal.received"):
    """A signal came, and is kept until a wait takes it. `id` is the sender's, `accepted` the moment (by the
    store's clock) at which it was made durable in the inbox.
    """

    name: str
    id: str
    value: bytes
    by: str
    accepted: int


class Premised(Struct, frozen=True, array_like=True, gc=False):
    """A fact that a call rests on, as event `seq` recorded it. `digest`: of name and arguments."""

    name: str
    digest: bytes
    value: bytes
    seq: int = 0


class ApprovalRequested(Body, frozen=True, array_like=True, tag="approval.requested"):
    """A person is asked to permit one call: this head, this tool schema, on these premises.

    `by` says who may decide: "" anyone, "role:NAME", "function" (the tool declares one). `quorum`: how many
    must agree. `round`: how many requests the run had made before. A decision is in time before `deadline`.
    """

    path: str
    id: str
    head: CallHead
    schema: bytes
    deadline: int
    by: str = ""
    quorum: int = 1
    round: int = 0
    premises: tuple[Premised, ...] = ()


class ApprovalGranted(Body, frozen=True, array_like=True, tag="approval.granted"):
    """A person permits the call. `edit`: arguments, as value bytes, that shall take the place of those asked.

    `message` is the inbox position of the decision, `until` the moment before which it must be used.
    """

    path: str
    id: str
    principal: str
    note: str
    edit: tuple[tuple[str, bytes], ...]
    roles: tuple[str, ...]
    message: int
    until: int


class ApprovalDenied(Body, frozen=True, array_like=True, tag="approval.denied"):
    """A person forbids the call, or takes back what was granted and not used yet."""

    path: str
    id: str
    principal: str
    note: str
    message: int


class ApprovalExpired(Body, frozen=True, array_like=True, tag="approval.expired"):
    """Nobody decided in time."""

    path: str
    id: str


class ApprovalVoided(Body, frozen=True, array_like=True, tag="approval.voided"):
    """What was asked for is no longer what would be done."""

    path: str
    id: str
    why: str


class ApprovalUsed(Body, frozen=True, array_like=True, tag="approval.used"):
    """The permission is used up, in the commit of the intent that it permits."""

    path: str
    id: str


class FactRead(Body, frozen=True, array_like=True, tag="fact.read"):
    """A fact was read: by the step itself or, as a `check`, just before a call that rests on it.

    `as_of`: when the reading began, by the store's clock. `changed`: it is no longer the same as what was
    recorded of it before. A check's path is that of its call, `?` and a number.
    """

    path: str
    head: CallHead
    value: bytes
    as_of: int
    attempt: int = 1
    changed: bool = False
    check: bool = False


class FactChanged(Body, frozen=True, array_like=True, tag="fact.changed"):
    """A fact is no longer the same: found by the call at `path`, its own or one that rests on it.

    `args`: its arguments, as value bytes of a dict.
    """

    path: str
    fact: str
    args: bytes
    was: bytes
    now: bytes


class CancelRequested(Body, frozen=True, array_like=True, tag="cancel.requested"):
    """Someone asked to end the run; no new intent is written from here on, but those of undos.

    `compensate`: what was done shall be undone before the run ends.
    """

    by: str
    note: str = ""
    compensate: bool = False


class Owed(Struct, frozen=True, array_like=True, gc=False):
    """An act of a tool that has an undo hook: its call, its tool, the event that settled it."""

    path: str
    name: str
    seq: int


class UndoPlanned(Body, frozen=True, array_like=True, tag="undo.planned"):
    """What a cancelled run undoes before it ends: `acts`, in this order, the newest first.

    `unsure`: acts of which nobody knows whether they happened; they are left as they are.
    """

    acts: tuple[Owed, ...]
    unsure: tuple[Owed, ...] = ()


class BudgetRaised(Body, frozen=True, array_like=True, tag="budget.raised"):
    """A person gave the run more (or took something back that it had neither spent nor reserved)."""

    by: str
    more: Amount
    why: str = ""


class StepCommitted(Body, frozen=True, array_like=True, tag="step.committed"):
    """A step ended; its patch turns the state before it into the state after it."""

    number: int
    patch: tuple[Op, ...] = ()


class StepRestarted(Body, frozen=True, array_like=True, tag="step.restarted"):
    """The open step begins anew. Records of events up to `keep` stay; `fresh` gives the step new paths.

    One that keeps every event before it counts as a failed execution: the step raised, and is tried again.
    """

    why: str
    keep: int
    fresh: bool = False


class RunHeld(Body, frozen=True, array_like=True, tag="run.held"):
    """The run needs a person. `path` is the call concerned, if one is.

    `code`: the digest of the manifest of the code that the person is asked about, if that is the question.
    `doubt`: another incarnation may have gone on from here, so that what is done next may have been done.
    """

    reason: str
    detail: str
    remedies: tuple[str, ...]
    path: str = ""
    code: bytes = b""
    doubt: bool = False


class RunReleased(Body, frozen=True, array_like=True, tag="run.released"):
    """A person let the run go on. `sure`: and has seen that no other incarnation has gone on from here."""

    by: str
    how: str
    note: str = ""
    sure: bool = False


class RunFinished(Body, frozen=True, array_like=True, tag="run.finished"):
    """The run ended, for good."""

    status: Literal["succeeded", "failed", "cancelled", "retired"]
    value: bytes


AnyBody: TypeAlias = (
    RunStarted
    | RunResumed
    | RunMigrated
    | CallIntended
    | CallSettled
    | CallUnknown
    | CallReconciled
    | CallLate
    | WaitOpened
    | WaitClosed
    | AnswerRefused
    | SignalReceived
    | ApprovalRequested
    | ApprovalGranted
    | ApprovalDenied
    | ApprovalExpired
    | ApprovalVoided
    | ApprovalUsed
    | FactRead
    | FactChanged
    | CancelRequested
    | UndoPlanned
    | BudgetRaised
    | StepCommitted
    | StepRestarted
    | RunHeld
    | RunReleased
    | RunFinished
    | RunForked
    | EffectAsked
    | EffectDecided
)
"""The closed set."""


class Event(Struct, frozen=True, array_like=True, gc=False):
    """One entry of the journal. `at` in microseconds since the epoch, UTC."""

    seq: int
    at: int
    epoch: int
    body: AnyBody

    @property
    def kind(self) -> str:
        """The kind's stable word, such as `call.settled`."""
        return kind_of(self.body)


def kind_of(body: AnyBody) -> str:
    """A body's kind."""
    tag = type(body).__struct_config__.tag
    assert isinstance(tag, str)
    return tag


def recorded_value(body: AnyBody) -> bytes:
    """The value bytes that a `Ref` to this event points into."""
    match body:
        case CallSettled(value=value) | CallReconciled(value=value) | CallLate(value=value):
            return value
        case WaitClosed(value=value) | SignalReceived(value=value) | FactRead(value=value):
            return value
        case RunStarted(goal=goal):
            return goal
        case _:
            return b""
