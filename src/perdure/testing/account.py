"""Law 7, kept in a book of its own: what events say was spent and reserved, and where they cross a limit.

It adds up events and never asks the engine or its fold, so that a broken sum cannot excuse itself. It reads
no store, no clock and no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from perdure.state import events as e
from perdure.state.amount import NOTHING, Amount, Kind, Limits
from perdure.state.record import RunRecord

_ASKED: tuple[Kind, ...] = ("usd", "tokens", "calls")
"""What one call may use. Time is not reserved: it is looked at before each call."""


class Account:
    """One run's budget, read event by event."""

    def __init__(self) -> None:
        self.limits = Limits()
        self.spent = NOTHING
        self.reserved: dict[str, Amount] = {}
        self._first: dict[str, int] = {}

    def read(self, event: e.Event) -> Iterator[str]:
        """Book one more event; yields what should not be."""
        body = _as_receipt(event.body)
        if isinstance(body, e.CallIntended | e.CallSettled):
            self._first.setdefault(body.path, event.seq)
        match body:
            case e.RunStarted(budget=limits) | e.RunForked(budget=limits):
                # What a fork's origin has spent is spent, what it had reserved is not; limits may stay.
                self.limits = limits or self.limits
                self.reserved = {}
            case e.BudgetRaised(more=more):
                self.limits = self.limits.raised(more)
            case e.CallIntended():
                yield from self._intended(body)
            case e.CallSettled():
                yield from self._settled(body)
            case e.CallReconciled(path=path, verdict=verdict):
                self._end(path, spent=verdict in ("done", "left-unknown"))
            case e.CallLate(used=True):
                self._late(body)
            case e.StepRestarted(keep=keep):
                for path in [path for path, first in self._first.items() if first > keep]:
                    del self._first[path]
                    self._end(path, spent=True)
            case e.WaitOpened() | e.WaitClosed():
                yield from self._child(body)
            case e.StepCommitted():
                yield from self._committed()
            case e.RunFinished():
                for path in list(self.reserved):
                    self._end(path, spent=True)
            case _:
                return

    def _late(self, body: e.CallLate) -> None:
        """What it used is spent if it says so, else, where it was done, all that was reserved."""
        self._end(body.path, spent=body.outcome == "done" and not body.usage)
        if body.usage:
            self.spent += Amount(usd=sum(body.usage[2:]), tokens=body.usage[0] + body.usage[1])

    def _child(self, body: e.WaitOpened | e.WaitClosed) -> Iterator[str]:
        """A child has a part of the budget; at its end what it used is spent, and the rest is free."""
        if isinstance(body, e.WaitOpened) and body.reserved is not None:
            self.reserved[body.path] = body.reserved
            yield from self._crossed(f"child {body.path}", body.reserved)
        elif isinstance(body, e.WaitClosed) and body.used is not None:
            self._end(body.path, spent=False)
            self.spent += Amount(body.used.usd, body.used.tokens, body.used.calls, body.used.steps)

    def _intended(self, body: e.CallIntended) -> Iterator[str]:
        self._end(body.path, spent=True)  # nobody knows what the attempt before it used
        asked = (body.reserved or NOTHING) + Amount(calls=1)
        if min(asked.usd, asked.tokens) < 0:
            yield f"call {body.path} reserves less than nothing"
        self.spent += Amount(calls=1)
        if body.reserved is not None:
            self.reserved[body.path] = body.reserved
        if not body.path.startswith("undo:"):  # those count, and nothing keeps them back
            yield from self._crossed(f"call {body.path} ({body.head.name})", asked)

    def _settled(self, body: e.CallSettled) -> Iterator[str]:
        head = body.head
        if head is not None and head.name not in e.DRAWN:
            self.spent += Amount(calls=1)
            if body.outcome == "done":
                yield from self._crossed(f"call {body.path} ({head.name})", Amount(calls=1))
        if body.usage == () and body.path not in self.reserved:
            yield f"call {body.path} books a reservation that it does not have"
        if body.usage and len(body.usage) == 2 and self.limits.usd is not None:
            yield f"call {body.path} used tokens without a price under a budget in dollars"
        self._end(body.path, spent=body.usage == ())
        if body.usage:
            used_in, used_out, *cost = body.usage
            if min(body.usage) < 0:
                yield f"call {body.path} used less than nothing"
            self.spent += Amount(usd=sum(cost), tokens=used_in + used_out)

    def _committed(self) -> Iterator[str]:
        self._first.clear()
        self.spent += Amount(steps=1)
        yield from self._crossed("the step", Amount(steps=1))
        for path, amount in self.reserved.items():
            yield f"the step ends, and {amount} is still reserved for call {path}"

    def _end(self, path: str, *, spent: bool) -> None:
        amount = self.reserved.pop(path, NOTHING)
        if spent:
            self.spent += amount

    def _crossed(self, what: str, asked: Amount) -> Iterator[str]:
        taken = self.spent + sum(self.reserved.values(), NOTHING)
        for kind in (*_ASKED, "steps"):
            limit = self.limits.of(kind)
            if limit is not None and asked.of(kind) and taken.of(kind) > limit:
                sums = f"{taken.of(kind)} {kind} spent or reserved, the limit is {limit}"
                yield f"{what} crosses the budget: {sums}"


def account_of(events: Iterable[e.Event]) -> Account:
    """The account after these events."""
    account = Account()
    for event in events:
        for _ in account.read(event):
            pass
    return account


def misread(events: Iterable[e.Event], record: RunRecord) -> list[str]:
    """Where the folded run's sums are not those of its events."""
    account, spent = account_of(events), record.spent
    folded = Amount(spent.usd, spent.input_tokens + spent.output_tokens, spent.calls, spent.steps)
    reserved = {} if record.ledger is None else record.ledger.reserved
    found = []
    if folded != account.spent:
        found.append(f"the run says that it spent {folded}, its events say {account.spent}")
    if record.ledger is not None and reserved != account.reserved:
        found.append(f"the run says that it reserved {reserved}, its events say {account.reserved}")
    return found


def _as_receipt(body: e.AnyBody) -> e.AnyBody:
    """A fact that the step has read is a call like any other."""
    if isinstance(body, e.FactRead) and not body.check:
        return e.CallSettled(body.path, "done", body.value, body.head, attempt=body.attempt)
    return body
