"""What a run asks for and what it is sent, as both are recorded, and what the one means for the other.

Pure: a signal or an answer is judged by its place in the inbox and by the moment at which the store accepted
it, never by when somebody looks. What was accepted before a deadline beats it. Keeps law 10: an answer closes
its wait once, a signal is kept until one wait takes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from perdure import codec
from perdure.clock import SECOND
from perdure.codec.naming import written
from perdure.state import events as e
from perdure.state.record import RunRecord, SignalRecord, WaitRecord
from perdure.store.protocol import NEVER, Inbound

NAMED = 3
"""So many open waits are named where a list has one line for a run."""

SHOWN = 60
"""Characters of a name in such a line."""

SIGNAL, ANSWER = "signal:", "answer:"
"""What the ids of these messages begin with: a sender's own id follows."""


class Terms(Struct, frozen=True):
    """What a wait declares: what may come, and what its end does.

    `schema`: of the type that is waited for, None where any plain data is. `choices`: the only answers, as
    plain data. `expiry`: raise, deny or default; `default`: as plain data.
    """

    expiry: str = "raise"
    default: Any = None
    schema: dict[str, Any] | None = None
    choices: list[Any] | None = None

    @property
    def data(self) -> bytes:
        """Value bytes, as they are recorded with the wait."""
        told = {name: getattr(self, name) for name in self.__struct_fields__}
        return codec.encode({name: value for name, value in told.items() if value is not None}, where="$")

    def misfit(self, value: Any) -> str:
        """Why this plain value is none that may come; empty if it is."""
        if self.choices is not None:
            if any(codec.encode(choice) == codec.encode(value) for choice in self.choices):
                return ""
            return f"$ should be {one_of(self.choices)}, and is {written(value, 80)}"
        return codec.misfit(self.schema, value) if self.schema is not None else ""

    @property
    def end(self) -> str:
        """What happens at the deadline, in words."""
        match self.expiry:
            case "default":
                return f"goes on with {written(self.default, 60)}"
            case "deny":
                return "counts as no"
            case _:
                return "raises WaitExpired"


def one_of(choices: Sequence[Any]) -> str:
    """What may be answered, in words."""
    return "one of " + ", ".join(written(choice, 80) for choice in choices)


def terms_of(wait: WaitRecord) -> Terms:
    """What a recorded wait for a signal or an answer declares."""
    told: dict[str, Any] = codec.decode(wait.detail) if wait.detail else {}
    return Terms(**{name: told[name] for name in Terms.__struct_fields__ if name in told})


def open_waits(record: RunRecord, kind: e.WaitKind) -> list[WaitRecord]:
    """The open waits of one kind, in the order of their opening."""
    return [wait for wait in record.waits.values() if wait.kind == kind and not wait.closed]


# -- what a message means


def signal_events(message: Inbound, data: dict[str, Any]) -> tuple[e.AnyBody, ...]:
    """A signal is kept, whether or not anybody waits for it."""
    sent_as = message.id.removeprefix(SIGNAL)
    return (e.SignalReceived(str(data["name"]), sent_as, data["value"], str(data["by"]), message.at),)


def answer_events(record: RunRecord, message: Inbound, data: dict[str, Any]) -> tuple[e.AnyBody, ...]:
    """An answer closes its wait, unless that is closed, was over when it came, or asks for something else."""
    path = str(data["path"])
    wait = record.waits.get(path)
    if wait is None or wait.closed or wait.kind != "answer" or message.at >= wait.deadline:
        return ()
    if wait.seq != data["seq"] or terms_of(wait).misfit(codec.decode(data["value"])):
        return ()
    sent_as = message.id.removeprefix(ANSWER)
    return (e.WaitClosed(path, "answer", data["value"], by=str(data["by"]), id=sent_as),)


def next_signal(record: RunRecord, wait: WaitRecord, now: int) -> SignalRecord | None:
    """The oldest signal of the wait's name; once its deadline is over, only one that came before that, or
    that was there when the wait began.
    """
    for signal in record.signals:
        in_time = now < wait.deadline or signal.accepted < wait.deadline or signal.seq < wait.seq
        if signal.name == wait.name and in_time:
            return signal
    return None


def asked(record: RunRecord) -> list[dict[str, Any]]:
    """The open questions, for lists: `path`, `question`, and `until` in microseconds (None: for ever)."""
    return [
        {
            "path": wait.path,
            "question": wait.name[:200],
            "until": None if wait.deadline >= NEVER else wait.deadline,
        }
        for wait in open_waits(record, "answer")
    ]


# -- in words


def moment_of(at: int) -> str:
    """A moment (microseconds) as people read it, UTC."""
    return "for ever" if at >= NEVER else datetime.fromtimestamp(at // SECOND, UTC).isoformat(" ")


def words(wait: WaitRecord) -> str:
    """What a wait is for, in a few words."""
    return named(wait.kind, wait.name)


def named(kind: e.WaitKind, name: str) -> str:
    """What a wait of this kind is for, in a few words."""
    if kind == "sleep":
        return "a sleep"
    noun = {"signal": "signal", "answer": "an answer to", "child": "child run"}[kind]
    return f"{noun} {name!r}"


def reasons(record: RunRecord) -> list[str]:
    """What the run waits for, each open wait in a few words and with its place."""
    return [f"{_short(wait)} at {wait.path}" for wait in record.waits.values() if not wait.closed]


def summary(record: RunRecord) -> str:
    """The same in one line, for lists."""
    open_ = [wait for wait in record.waits.values() if not wait.closed]
    named = ", ".join(_short(wait) for wait in open_[:NAMED])
    return named + (f" and {len(open_) - NAMED} more" if len(open_) > NAMED else "")


def _short(wait: WaitRecord) -> str:
    name = wait.name if len(wait.name) <= SHOWN else f"{wait.name[: SHOWN - 1]}…"
    return "sleep" if wait.kind == "sleep" else named(wait.kind, name)
