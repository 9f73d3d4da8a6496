"""A call that the running step asks for, and what its act rests on.

Only the noun: how a call lives is `calls`, what must hold before it is `guards`.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from perdure.agent import Tool
from perdure.runtime.drive import Drive
from perdure.runtime.execution import NOTHING, Branch, Execution
from perdure.state import events as e
from perdure.state.amount import Amount
from perdure.state.record import CallRecord


class Grounds(Struct, frozen=True):
    """What an act rests on: `facts` are written in the commit of its intent, or with its receipt if it is
    transactional; the store refuses that commit from `not_after` on (microseconds, by its clock).
    """

    facts: tuple[e.AnyBody, ...] = ()
    not_after: int | None = None


NO_GROUNDS = Grounds()
"""It rests on nothing."""


class Wanted(Struct, eq=False):
    """A call that the running step asks for.

    `result`: what it came to just now, as it was recorded. `given`: the step has been given its outcome.
    `grounds`: what the guards found when they were last asked. `reserved`: what its intent reserves of a
    budget; None if it has no part in one. `premises`: the facts that it rests on, as they are now. `known`:
    by fact, what the agent knew of it when it asked for this call; None for nothing. `as_of`: when the
    attempt of a fact began, by the store's clock. `args` and `head` are what runs: a person may have put
    other arguments in the place of those that the code asks for; `coded` then has these, `edited_for` is
    the approval, `misfit` why they do not fit. `fruitless`: how often an act has raised in this execution,
    and what became of it had to be found out.
    """

    execution: Execution
    branch: Branch
    path: str
    tool: Tool[..., Any]
    args: dict[str, Any]
    head: e.CallHead
    drive: Drive
    result: Any = NOTHING
    given: bool = False
    grounds: Grounds = NO_GROUNDS
    reserved: Amount | None = None
    premises: tuple[e.Premised, ...] = ()
    known: dict[str, bytes | None] = {}
    as_of: int = 0
    edited_for: str = ""
    misfit: str = ""
    fruitless: int = 0
    coded: tuple[dict[str, Any], e.CallHead] | None = None

    @property
    def first_args(self) -> dict[str, Any]:
        """The arguments that the code asks for."""
        return self.args if self.coded is None else self.coded[0]

    @property
    def first_head(self) -> e.CallHead:
        """The call that the code asks for."""
        return self.head if self.coded is None else self.coded[1]

    @property
    def call(self) -> CallRecord | None:
        """What is recorded of it."""
        return self.execution.drive.journal.record.calls.get(self.path)

    @property
    def settled(self) -> bool:
        """Whether its outcome is known: there is nothing left to act."""
        call = self.call
        return call is not None and call.settled

    @property
    def undoing(self) -> bool:
        """Whether it undoes another call."""
        return self.execution.undoing

    def ends(self, attempt: int, *, refused: bool = False) -> bool:
        """Whether a definite failure of this attempt (from 1) is the last word: never of an undo."""
        return not self.undoing and (refused or not may_retry(self.tool, attempt))

    @property
    def rests_on(self) -> tuple[int, ...]:
        """The events that recorded its premises."""
        return tuple(premise.seq for premise in self.premises)


def may_retry(tool: Tool[..., Any], attempt: int) -> bool:
    """Whether a definite failure of this attempt (from 1) may be tried again."""
    retry = tool.options.retry
    return retry is not None and attempt < retry.attempts
