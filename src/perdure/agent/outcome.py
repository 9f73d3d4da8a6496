"""What a caller gets back from `Agent.run`: how the run stands when nothing more can be done here and now.

A closed set, made for `match`. Only `Finished` has a result; the others say what is missing and what can be
done.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Generic, Literal, NoReturn, TypeAlias, TypeVar

from msgspec import Struct

from perdure.agent.policy import ApprovalRequest
from perdure.errors import RunCancelled, RunFailed, RunHeld, RunRetired, RunWaiting

R = TypeVar("R")

Status: TypeAlias = Literal["succeeded", "waiting", "held", "failed", "cancelled", "retired"]
"""The statuses in which a run is handed back."""


class _HandedBack(Struct, frozen=True, kw_only=True):
    """Which run it is."""

    run_id: str = ""


class Finished(_HandedBack, Generic[R], frozen=True):
    """The run succeeded with this result."""

    status: ClassVar[Status] = "succeeded"
    result: R

    def unwrap(self) -> R:
        """The result."""
        return self.result


class Waiting(_HandedBack, Generic[R], frozen=True):
    """The run waits: for whom or what, and until when at the latest (UTC)."""

    status: ClassVar[Status] = "waiting"
    reasons: tuple[str, ...]
    approvals: tuple[ApprovalRequest, ...] = ()
    until: datetime | None = None

    def unwrap(self) -> NoReturn:
        """Raises RunWaiting (R209)."""
        raise RunWaiting(
            f"{_run(self.run_id)} waits: {'; '.join(self.reasons)}",
            reasons=self.reasons,
            until=self.until,
            run_id=self.run_id,
        )


class Held(_HandedBack, Generic[R], frozen=True):
    """The run needs a person: why, and what they can do."""

    status: ClassVar[Status] = "held"
    reason: str
    remedies: tuple[str, ...] = ()
    detail: str = ""

    def unwrap(self) -> NoReturn:
        """Raises RunHeld (R208)."""
        told = f": {self.detail}" if self.detail else ""
        raise RunHeld(
            f"{_run(self.run_id)} is held, {self.reason}{told}",
            remedy=" | ".join(self.remedies) or None,
            reason=self.reason,
            remedies=self.remedies,
            run_id=self.run_id,
        )


class Failed(_HandedBack, Generic[R], frozen=True):
    """The run failed for good: its step called `run.fail(error)`.

    `type_name` is the error's class, if it had one.
    """

    status: ClassVar[Status] = "failed"
    error: str
    type_name: str = ""

    def unwrap(self) -> NoReturn:
        """Raises RunFailed (R210)."""
        kind = f"{self.type_name}: " if self.type_name else ""
        raise RunFailed(
            f"{_run(self.run_id)} failed: {kind}{self.error}",
            error=self.error,
            type_name=self.type_name,
            run_id=self.run_id,
        )


class Cancelled(_HandedBack, Generic[R], frozen=True):
    """The run was cancelled: by whom, and their note.

    `undone`: the paths of the calls that a compensating cancel has undone, the newest first; `left`: of those
    with an undo hook that it has not: a person let them stay, or nobody knows whether they happened.
    """

    status: ClassVar[Status] = "cancelled"
    by: str = ""
    note: str = ""
    undone: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    def unwrap(self) -> NoReturn:
        """Raises RunCancelled (R211)."""
        raise RunCancelled(
            f"{_run(self.run_id)} was cancelled{_told(self.by, self.note)}", run_id=self.run_id
        )


class Retired(_HandedBack, Generic[R], frozen=True):
    """The run was deliberately ended because no code can carry it on: by whom, and their note."""

    status: ClassVar[Status] = "retired"
    by: str = ""
    note: str = ""

    def unwrap(self) -> NoReturn:
        """Raises RunRetired (R212)."""
        raise RunRetired(f"{_run(self.run_id)} was retired{_told(self.by, self.note)}", run_id=self.run_id)


Outcome: TypeAlias = Finished[R] | Waiting[R] | Held[R] | Failed[R] | Cancelled[R] | Retired[R]
"""How a run stands."""


def _run(run_id: str) -> str:
    return f"run {run_id}" if run_id else "the run"


def _told(by: str, note: str) -> str:
    return (f" by {by}" if by else "") + (f": {note}" if note else "")
