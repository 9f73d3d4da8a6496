"""The value that a run's events add up to.

A `RunRecord` is immutable: `fold` makes a new one for each event. The user's state is plain data (what the
codec decodes); recorded results stay value bytes until someone asks for them.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from perdure.state.amount import NOTHING, Amount, Limits
from perdure.state.events import (
    Argument,
    CallHead,
    Doubt,
    Effect,
    Effects,
    OriginAct,
    Owed,
    Premised,
    Standin,
    WaitKind,
)

Status: TypeAlias = Literal[
    "ready", "running", "waiting", "held", "succeeded", "failed", "cancelled", "retired"
]
"""A run's status. The last four are terminal."""

TERMINAL: frozenset[str] = frozenset({"succeeded", "failed", "cancelled", "retired"})
"""The statuses after which no event follows (law 15)."""

Standing: TypeAlias = Literal["open", "unknown", "done", "failed", "not_done", "retrying", "left-unknown"]
"""What is known of a call: an intent without receipt is `open`; `retrying` may be made again.

As may `not_done`.
"""

SETTLED: frozenset[Standing] = frozenset({"done", "failed", "left-unknown"})
"""Recorded outcomes that are served on replay; such a call is never acted again."""


class CallRecord(Struct, frozen=True, array_like=True, gc=False):
    """A call of the open step.

    `seq` is the event that settled it (0: none yet), `intent` its first intent, `intended_at` when its key
    was first used.
    """

    path: str
    name: str
    effect: Effect
    args: tuple[tuple[str, Argument], ...]
    digest: bytes
    key: str
    standing: Standing
    attempt: int
    round: int = 0
    intent: int = 0
    seq: int = 0
    value: bytes = b""
    deadline: int = 0
    intended_at: int = 0
    intended_epoch: int = 0
    cause: str = ""
    over_at: int = 0  # when the attempt that is unknown was surely over on our side
    detail: str = ""  # what that attempt raised: type and message

    @property
    def settled(self) -> bool:
        """A recorded outcome that is served on replay; the call is never acted again."""
        return self.standing in SETTLED


class SignalRecord(Struct, frozen=True, array_like=True, gc=False):
    """A signal that has come; `seq` is the event that received it."""

    seq: int
    name: str
    id: str
    value: bytes
    by: str
    accepted: int


class WaitRecord(Struct, frozen=True, array_like=True, gc=False):
    """A wait of the open step; `closed` is the event that ended it (0: still open).

    `value`: what it came to, as value bytes; `signal`: the one that it took. `refused`: why its last answer
    did not fit.
    """

    path: str
    name: str
    deadline: int
    seq: int
    closed: int = 0
    how: str = ""
    kind: WaitKind = "sleep"
    detail: bytes = b""
    value: bytes = b""
    by: str = ""
    signal: SignalRecord | None = None
    refused: str = ""


Permission: TypeAlias = Literal["pending", "granted", "used", "denied", "expired", "voided"]
"""How a request for a permission stands."""


class Grant(Struct, frozen=True, array_like=True, gc=False):
    """One person's yes, and when it was given."""

    principal: str
    roles: tuple[str, ...]
    note: str
    at: int


class ApprovalRecord(Struct, frozen=True, array_like=True, gc=False):
    """The newest request for a permission at one path of the open step.

    `edit`: arguments that the people who agreed have put in the place of those asked; what they agreed to is
    used before `until`. `decided_by`, `note` and `decided_at` tell of the decision that made it what it is.
    """

    path: str
    id: str
    head: CallHead
    schema: bytes
    deadline: int
    by: str
    quorum: int
    round: int
    premises: tuple[Premised, ...]
    seq: int
    asked_at: int
    standing: Permission = "pending"
    grants: tuple[Grant, ...] = ()
    edit: tuple[tuple[str, bytes], ...] = ()
    until: int = 0
    decided_by: str = ""
    decided_at: int = 0
    note: str = ""

    @property
    def open(self) -> bool:
        """Whether it can still be used or forbidden."""
        return self.standing in ("pending", "granted")


class Hold(Struct, frozen=True, array_like=True, gc=False):
    """Why the run needs a person, and what they can do."""

    reason: str
    detail: str
    remedies: tuple[str, ...]
    path: str
    at: int
    code: bytes = b""


class Spent(Struct, frozen=True, array_like=True, gc=False):
    """What the run has used. Never falls, never resets.

    `calls` counts attempts. `usd` in billionths of a dollar; `unpriced` replies used tokens whose price is
    not known, and are not in it. `micros` of executing time, kept only for a run that has a budget: without
    the lease under which it now runs.
    """

    calls: int = 0
    steps: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: int = 0
    unpriced: int = 0
    micros: int = 0


class Ledger(Struct, frozen=True, array_like=True, gc=False):
    """A run's budget: the limits it was started with, what was added since, and what is reserved by name.

    `since`: the first event (its moment) under the newest lease, whose epoch is `epoch`.
    """

    limits: Limits
    raised: Amount = NOTHING
    reserved: dict[str, Amount] = {}
    since: int = 0
    epoch: int = 0

    @property
    def now(self) -> Limits:
        """The limits as they stand."""
        return self.limits.raised(self.raised)


class FactRecord(Struct, frozen=True, array_like=True, gc=False):
    """The newest value of a fact with its arguments (`digest` covers them), and that before its last change.

    `seq` is the event that recorded it, `changed` the one that found it changed (0: it never was), `told` the
    call that was told so. `as_of` by the store's clock, `epoch` that of the lease under which it was read.
    """

    name: str
    digest: bytes
    value: bytes
    as_of: int
    epoch: int
    seq: int
    was: bytes = b""
    changed: int = 0
    told: str = ""


class Facts(Struct, frozen=True, array_like=True, gc=False):
    """What the run knows of facts, by name and arguments, the newest last. `size`: bytes of all values kept.

    `forgotten`: how many had to make room for newer ones; the journal has them still.
    """

    kept: dict[str, FactRecord] = {}
    size: int = 0
    forgotten: int = 0


class Pause(Struct, frozen=True, array_like=True, gc=False):
    """A time in which nobody drove the run, and what was found open after it. Microseconds."""

    since: int
    until: int
    open_calls: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()


class DoneRecord(Struct, frozen=True, array_like=True, gc=False):
    """A call that acts, of a step that was interrupted. `lost`: its reply did not come at first.

    A value or argument that is too long to be kept here is empty.
    """

    path: str
    name: str
    args: tuple[tuple[str, bytes], ...]
    standing: Standing
    value: bytes
    lost: bool


class ChangeRecord(Struct, frozen=True, array_like=True, gc=False):
    """A fact that was found changed. Values that are too long to be kept here are empty."""

    fact: str
    args: bytes
    was: bytes
    now: bytes
    at: int


class Interruption(Struct, frozen=True, array_like=True, gc=False):
    """What happened around the pauses of a step; the oldest entries make room for new ones.

    `left_out`: how many have.
    """

    pauses: tuple[Pause, ...] = ()
    done: tuple[DoneRecord, ...] = ()
    changed: tuple[ChangeRecord, ...] = ()
    left_out: int = 0


NOT_INTERRUPTED = Interruption()
"""Nothing happened around a step."""


class AskedEffect(Struct, frozen=True, array_like=True, gc=False):
    """A call of the open step that acts, as a fork has it decided. `act`: which of its origin's, -1 for none.

    `how` is empty until it is decided; `value`: the given result, as value bytes. `seq`: the event that
    asked.
    """

    path: str
    act: int
    digest: bytes
    seq: int
    how: Standin | Literal[""] = ""
    value: bytes = b""
    by: str = ""


class ForkRecord(Struct, frozen=True, array_like=True, gc=False):
    """Where a fork comes from: `run` up to its event `at`; its own events begin after `at`.

    `acts`: what its origin did after that, `used` those (by their place) of which it was decided in steps
    that are committed, `asked` by path in the open one. `given`: paths whose outcomes were changed. `trace`:
    the origin's.
    """

    run: str
    at: int
    by: str
    effects: Effects
    given: tuple[str, ...] = ()
    acts: tuple[OriginAct, ...] = ()
    used: tuple[int, ...] = ()
    asked: dict[str, AskedEffect] = {}
    trace: str = ""


class RunRecord(Struct, frozen=True, array_like=True, gc=False):
    """A run, folded up to event `seq`."""

    seq: int = 0
    agent: str = ""
    version: str = ""
    state_version: int = 1
    goal: bytes = b""
    manifest: bytes = b""
    principal: bytes | None = None
    parent: str | None = None
    started_at: int = 0
    updated_at: int = 0
    state: Any = None
    step: int = 0
    restart: int = 0
    calls: dict[str, CallRecord] = {}
    waits: dict[str, WaitRecord] = {}
    held: Hold | None = None
    cancel: str | None = None
    ended: str | None = None
    value: bytes = b""
    spent: Spent = Spent()
    resumes: int = 0
    failures: int = 0  # executions of the open step that ended in an exception, since a person looked
    signals: tuple[SignalRecord, ...] = ()  # those that no wait has taken yet, in their order
    ledger: Ledger | None = None  # None: no budget, and nothing to keep of it
    approvals: dict[str, ApprovalRecord] = {}
    asked: int = 0  # requests for a permission, in the whole run
    path: str = ""  # the wait of the parent that this run tells its end to
    trace: str = ""
    begun: int = 0  # the event after which the open step began
    facts: Facts = Facts()
    interruption: Interruption = NOT_INTERRUPTED  # before the open step
    interrupted: Interruption = NOT_INTERRUPTED  # in the open step, for the next one
    accepted: bytes = b""  # the digest of the code's manifest to which a person said yes
    compensate: bool = False  # a cancel asked for what was done to be undone
    undo: tuple[Owed, ...] | None = None  # what is undone, in this order; None: not looked up
    unsure: tuple[Owed, ...] = ()  # acts that may have happened, and are not undone
    cancel_note: str = ""  # of who asked first
    fork: ForkRecord | None = None  # None: the run began as itself
    models: dict[str, str] = {}  # models that a fork calls in the place of those declared, by function
    doubt: Doubt | None = None  # None: nothing was done that the journal does not know
