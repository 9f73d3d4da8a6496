"""One execution of a step function: its branches, what blocks it, and how it unwinds.

A step is executed once live, again after each suspension or crash (its recorded calls served), and once more
when it is checked. No branch cancels another: the step unwinds when every branch is finished or blocked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextvars import ContextVar
from typing import Any, NoReturn

from msgspec import Struct

from perdure.errors import ForeignTask, Signal, StoreError, Suspend
from perdure.journal import Journal
from perdure.runtime.caller import line_of_step
from perdure.runtime.difference import Sides
from perdure.runtime.drive import Drive
from perdure.runtime.mismatch import call_words, never_asked
from perdure.runtime.replay import Replay
from perdure.runtime.tree import LiveState
from perdure.state import events as e
from perdure.state.fold import recorded_values
from perdure.state.record import RunRecord

NOTHING: Any = object()
"""Not there yet: None is something."""


class Interrupted(Suspend):
    """A call that acts was cancelled inside the step; once its outcome is known.

    The step is executed again.
    """


class Branch(Struct, eq=False):
    """A place in the step from which calls are made: the step itself, or one branch of a gather.

    `acting`: the body of an act runs now. `given_up`: the gather around it was; its end is recorded there.
    """

    prefix: str
    task: asyncio.Task[Any] | None
    index: int = 0
    unwinding: Signal | None = None
    acting: bool = False
    given_up: bool = False

    @property
    def upcoming(self) -> str:
        """The path of the next call made here."""
        return f"{self.prefix}{self.index}"

    def next_path(self) -> str:
        """The same, and go on to the one after it."""
        path = f"{self.prefix}{self.index}"
        self.index += 1
        return path

    def enter(self) -> None:
        """Before anything: is this task ours, and is the branch still going?"""
        if self.unwinding is not None:
            raise self.unwinding
        if asyncio.current_task() is not self.task:
            raise ForeignTask("a call was made from a task that the run did not create")

    def unwind(self, why: str) -> NoReturn:
        """This branch can go no further now."""
        self.unwinding = Suspend(why)
        raise self.unwinding


branch_scope: ContextVar[Branch | None] = ContextVar("perdure_branch", default=None)
"""The branch in whose task this code runs."""


class Ending(Struct):
    """What run.finish or run.fail asked for; takes effect when the function has returned."""

    status: str
    value: bytes


class Live(Struct, frozen=True):
    """Where a rehearsed branch would ask for something that has no recorded outcome. `place`: file:line.

    `recorded`: it was asked for before, and is still open. `wanted`: the `Wanted` of a call, the `Awaited` of
    a wait, None of what is drawn.
    """

    path: str
    what: str
    place: str
    recorded: bool
    wanted: Any = None


class Execution(Struct, eq=False):
    """The state of one execution.

    `called`: the calls that the step has made, by their tools' names, awaited or not.
    `mismatch` is the event that the code no longer agrees with, `sides` both sides of that, `place` the line
    of code; `broken` why nothing new can be intended.
    `wake_at`: when a blocked branch can go on at the latest, whatever comes. `blocked_at`: up to which
    message the inbox had been read when the first of them was blocked. `task` executes the step itself.
    `kept`: arguments that the journal does not keep, by their call's digest, while the step is checked.
    `told`: the calls by which this execution has learned what has become of a fact. `lives`: where a
    rehearsal came to something that is not recorded; None while nothing is rehearsed. `awaiting`: places of
    open approvals to which the code has not come yet. `undoing`: it is none of the step, but undoes what a
    cancelled run has done. `committed`: the step has been committed, and its record is whole.
    """

    drive: Drive
    live: LiveState[Any]
    checking: bool = False
    undoing: bool = False
    committed: bool = False
    ending: Ending | None = None
    called: list[tuple[str, Coroutine[Any, Any, Any]]] = []
    holds: list[e.RunHeld] = []
    wake_at: list[int] = []
    blocked_at: int | None = None
    mismatch: int | None = None
    mismatch_detail: str = ""
    mismatch_reason: str = "diverged"
    sides: Sides | None = None
    place: str = ""
    broken: StoreError | None = None
    over: bool = False
    spawning: set[str] = set()  # where children got a part of the budget just now
    task: asyncio.Task[Any] | None = None
    kept: dict[bytes, dict[str, bytes]] = {}
    told: set[str] = set()
    lives: list[Live] | None = None
    awaiting: set[str] = set()
    prefix: str = ""
    room: asyncio.Semaphore | None = None
    replay: Replay = NOTHING
    journal: Journal = NOTHING

    def __post_init__(self) -> None:
        self.journal = self.drive.journal
        record = self.journal.record
        self.replay = Replay(record)
        if record.approvals:
            self.awaiting = {asked.path for asked in record.approvals.values() if asked.open}
        restart = f"r{record.restart}" if record.restart else ""
        self.prefix = f"{record.step + 1}{restart}:"
        most = self.drive.agent.max_concurrency
        if most is not None:
            self.room = asyncio.Semaphore(most)

    @property
    def record(self) -> RunRecord:
        """The run as folded so far."""
        return self.journal.record

    def forbid(self, branch: Branch) -> None:
        """What a message may forbid: unwinds the branch if the run is cancelled or held.

        Where fences are taken this is asked again, with no await between: another branch may have read the
        message meanwhile, and then the fence would let the act pass.
        """
        record = self.journal.record
        if record.cancel is not None and not self.undoing:
            branch.unwind("cancelled")
        if record.held is not None:
            branch.unwind("held")

    @property
    def ended(self) -> tuple[str, bytes] | None:
        """Status and value of the ending that the step has asked for."""
        return None if self.ending is None else (self.ending.status, self.ending.value)

    def is_live(self) -> bool:
        """Whether `go_live` would return at once: what is asked for now has not been recorded."""
        replay = self.replay
        return not (replay.expected or replay.mismatch is not None or self.checking) and self.lives is None

    @property
    def values(self) -> Mapping[int, bytes]:
        """What the open step has recorded, by event."""
        return recorded_values(self.journal.record)

    def diverge(self, branch: Branch, seq: int, sides: Sides, reason: str = "diverged") -> NoReturn:
        """The code asks for something else than event `seq` recorded (0: than anything recorded)."""
        if self.mismatch is None:
            place = self.place = line_of_step(self.task)
            self.mismatch, self.mismatch_detail = seq, sides.detail + (f" ({place})" if place else "")
            self.mismatch_reason, self.sides = reason, sides
        branch.unwind("the step does not match its record")

    def hold(self, branch: Branch, held: e.RunHeld) -> NoReturn:
        """Only a person can let this branch go on."""
        self.holds.append(held)
        branch.unwind(held.reason)

    def suspend(self, branch: Branch, until: int, why: str) -> NoReturn:
        """Nothing lets this branch go on but a message, or the moment `until` (by the store's clock)."""
        self.wake_at.append(until)
        if self.blocked_at is None:
            self.blocked_at = self.drive.inbox_seen
        branch.unwind(why)

    @property
    def news(self) -> bool:
        """Whether a message has come since the first branch was blocked: it may be what that waits for."""
        return self.blocked_at is not None and self.drive.inbox_seen > self.blocked_at

    async def given(self, branch: Branch, seq: int) -> None:
        """Wait until the outcome of event `seq` is the next one that the step is given."""
        if not await self.replay.given(seq):
            self._stalled(branch)

    async def go_live(self, branch: Branch, path: str, what: str, wanted: Any = None) -> None:
        """Wait until everything recorded has been served; a checked or rehearsed one does nothing live.

        `wanted`: as in `Live`.
        """
        await self.caught_up(branch)
        self.only_live(branch, path, what, wanted)

    async def caught_up(self, branch: Branch) -> None:
        """Wait until everything recorded has been served."""
        if not await self.replay.live():
            self._stalled(branch)

    def only_live(self, branch: Branch, path: str, what: str, wanted: Any = None) -> None:
        """Unwind the branch if this execution may do nothing live: it is checked, or rehearsed."""
        if self.checking:
            words = f"at {path} it asked for {what}, which the first execution did not"
            self.diverge(branch, 0, Sides(path, "nothing", _asked(what, wanted), words))
        if self.lives is not None:
            recorded = path in self.record.calls or path in self.record.waits
            self.lives.append(Live(path, what, line_of_step(self.task), recorded, wanted))
            branch.unwind("the rehearsal ends here")

    def asked_for_all(self) -> None:
        """Unwind unless all that was recorded was asked for, and every call has an outcome."""
        seq = self.replay.never_asked() if self.replay.unasked else None
        if seq is not None and self.mismatch is None:
            self.mismatch, self.sides = seq, never_asked(self.drive, seq)
            self.mismatch_detail = self.sides.detail
            raise Interrupted("the step does not match its record")
        for call in self.journal.record.calls.values():
            if call.standing in ("open", "unknown"):
                raise Interrupted("a call has no known outcome yet")

    def _stalled(self, branch: Branch) -> NoReturn:
        seq = self.replay.mismatch or 0
        self.diverge(branch, seq, never_asked(self.drive, seq))


def _asked(what: str, wanted: Any) -> str:
    """What is asked for, with its arguments if it is a call."""
    args = getattr(wanted, "args", None)
    return what if args is None else call_words(what, args)


def here(execution: Execution) -> Branch:
    """The branch that is running now, checked."""
    branch = branch_scope.get()
    if branch is None:
        raise ForeignTask("a call was made from a task that the run did not create")
    branch.enter()
    if execution.drive.stopping:  # the step has caught the cancellation by which this process stops
        raise asyncio.CancelledError
    return branch


def as_error(ending: BaseException) -> Exception:
    """What would end the process, as an error that is told like any other: it is a run's own, not its
    neighbours'.
    """
    said = f"{type(ending).__name__}({', '.join(map(repr, ending.args))})"
    return RuntimeError(f"the code raised {said}").with_traceback(ending.__traceback__)
