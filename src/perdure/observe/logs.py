"""Logs by the standard library: where a record comes from, as attributes; the life of runs, as records.

Every logger of perdure is named `perdure.…` and gets no handler from us but when asked. `Placed` puts onto
each record what run, agent, step, call, attempt, worker and epoch it comes from, whoever wrote it; the
formatters write these out. `tell` says what becomes of runs: from durable events, so that nothing is said
twice, and in words of perdure's own, so that no value of the user's is in them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from perdure.agent.scope import Call, call_scope, step_scope
from perdure.agent.tool import Tool
from perdure.codec.redaction import redacted
from perdure.runtime.listening import Doing, Driven, Over, listen, place_scope
from perdure.state import events as e
from perdure.state.record import RunRecord
from perdure.timeline.plain import clean

ATTRIBUTES: Final = ("run", "agent", "step", "call", "attempt", "tool", "worker", "epoch", "trace")
"""What `Placed` puts onto a record; None where it does not apply."""

log = logging.getLogger("perdure.life")


class Placed(logging.Filter):
    """Puts `ATTRIBUTES` onto every record, those that it has already left as they are; drops none.

    To be added to a handler: a logger's own filter does not see the records of the loggers below it.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Complete the record."""
        for name, value in _found().items():
            if getattr(record, name, None) is None:
                setattr(record, name, value)
        return True


def _found() -> dict[str, Any]:
    found: dict[str, Any] = dict.fromkeys(ATTRIBUTES)
    place, call = place_scope.get(), call_scope.get()
    if place is not None:
        found |= {"run": place.run_id, "agent": place.agent, "worker": place.worker, "epoch": place.epoch}
        found |= {"step": place.step or None, "trace": place.trace or None}
    if call is not None and call.path:
        found |= {"run": call.run_id, "call": call.path, "attempt": call.attempt, "tool": call.tool}
    return found


class QuietInReplay(logging.Filter):
    """Drops what the code of a step logs while its recorded calls are served again: it was said before.

    For the user's own loggers (`run.log` does so by itself). Bodies of tools do not run in a replay, so that
    what they log always passes.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is news."""
        scope = step_scope.get()
        return call_scope.get() is not None or scope is None or not scope.replaying


def _moment(created: float) -> str:
    return datetime.fromtimestamp(created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class JsonFormatter(logging.Formatter):
    """One JSON object in one line for each record: `time`, `level`, `logger`, `message`, and what is known of
    `ATTRIBUTES`; `error` with the traceback if there is one. Text is escaped, so that a record is one line.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        told: dict[str, Any] = {
            "time": _moment(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redacted(record.getMessage()),
        }
        told |= {name: value for name in ATTRIBUTES if (value := getattr(record, name, None)) is not None}
        if record.exc_info:
            told["error"] = redacted(self.formatException(record.exc_info))
        if record.stack_info:
            told["stack"] = redacted(self.formatStack(record.stack_info))
        return json.dumps(told, default=str)


class TextFormatter(logging.Formatter):
    """For people: time, level, message, and where it comes from in brackets. A record without a traceback is
    one line, whatever characters are in it.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The text."""
        known = [
            (name, getattr(record, name, None)) for name in ATTRIBUTES if name not in ("worker", "trace")
        ]
        place = " ".join(f"{name}={clean(str(value))}" for name, value in known if value is not None)
        line = f"{_moment(record.created)} {record.levelname:<7} {record.name}: {clean(record.getMessage())}"
        line += f" [{place}]" if place else ""
        if record.exc_info:
            line += "\n" + redacted(self.formatException(record.exc_info))
        return line


# ------------------------------------------------------------------------------------------ the life of runs


def tell() -> Callable[[], None]:
    """Log what becomes of the runs that this process drives, as `perdure.life`; returns what ends that.

    INFO: started, resumed, waits, questions, permissions, ends. WARNING: unknown outcomes, holds, lost
    leases. DEBUG: calls and steps. Each fact is logged once, when it is durable, by who wrote it.
    """
    return listen(_Teller())


class _Teller:
    def begun(self, driven: Driven) -> _Told:
        return _Told(driven)


class _Told:
    """What is said of one run while it is driven here."""

    def __init__(self, driven: Driven) -> None:
        self._place = {
            "run": driven.run_id,
            "agent": driven.agent.name,
            "worker": driven.worker,
            "epoch": driven.epoch,
            "trace": driven.record.trace or None,
        }
        self._step = driven.record.step + 1
        if driven.record.seq == 1:
            self._say(logging.INFO, "run started")

    def _say(self, level: int, text: str, **place: object) -> None:
        if log.isEnabledFor(level):
            log.log(level, text, extra={**self._place, "step": self._step, **place})

    def noted(self, event: e.Event) -> None:
        """It is said when it is durable."""

    def committed(self, seconds: float, refused: bool) -> None:
        """Nothing that anybody wants to read."""

    def stepping(self, number: int) -> None:
        """Nothing that anybody wants to read."""

    def acting(self, call: Call, tool: Tool[..., Any], doing: Doing) -> Over | None:
        """Its outcome is said."""

    def left(self, *, lost: bool) -> None:
        """The new owner says what becomes of the run."""
        if lost:
            self._say(logging.WARNING, "lease lost")

    def happened(self, events: Sequence[e.Event], record: RunRecord) -> None:
        """Say it."""
        for event in events:
            self._happened(event.body)

    def _happened(self, body: e.AnyBody) -> None:
        match body:
            case e.StepCommitted(number=number):
                self._say(logging.DEBUG, "step committed", step=number)
                self._step = number + 1
            case e.CallSettled(head=e.CallHead(name=name)) if name in e.DRAWN:
                pass
            case e.CallSettled(path=path, attempt=attempt, outcome=outcome):
                self._say(logging.DEBUG, f"call {outcome}", call=path, attempt=attempt)
            case e.CallIntended(path=path, attempt=attempt, head=head):
                self._say(logging.DEBUG, "call intended", call=path, attempt=attempt, tool=head.name)
            case e.CallUnknown(path=path, cause=cause):
                self._say(logging.WARNING, f"outcome unknown: {cause}", call=path)
            case e.CallReconciled(path=path, verdict=verdict, by=by):
                self._say(logging.INFO, f"outcome found out by {_by(by)}: {verdict}", call=path)
            case e.CallLate(path=path, used=used):
                level = logging.INFO if used else logging.WARNING
                self._say(level, f"late result, {'used' if used else 'not used'}", call=path)
            case e.RunFinished(status=status):
                self._say(logging.INFO, f"run {status}", step=None)
            case _:
                if (said := _said(body)) is not None:
                    level, text, path = said
                    self._say(level, text, call=path or None)


def _by(who: str) -> str:
    """Who found out: a person's name is not said."""
    return who if who in ("hook", "policy") else "a person"


def _said(body: e.AnyBody) -> tuple[int, str, str] | None:
    """Level, text and path of what is said of a fact; None if nothing is. No value of the user's."""
    text = _of_a_run(body) or _of_a_step(body)
    if text is None:
        return None
    level = logging.WARNING if isinstance(body, e.StepRestarted | e.RunHeld) else logging.INFO
    return level, text, getattr(body, "path", "")


def _of_a_run(body: e.AnyBody) -> str | None:
    match body:
        case e.RunResumed(open_calls=calls):
            return f"run resumed, {len(calls)} calls without an outcome" if calls else "run resumed"
        case e.RunMigrated(from_version=was, to_version=now):
            return f"state migrated from version {was} to {now}"
        case e.BudgetRaised():
            return "budget raised"
        case e.CancelRequested():
            return "cancel asked for"
        case e.StepRestarted():
            return "step begins anew"
        case e.RunHeld(reason=reason):
            return f"run held: {reason}"
        case e.RunReleased(how=how):
            return f"run let go: {how}"
        case _:
            return None


def _of_a_step(body: e.AnyBody) -> str | None:
    match body:
        case e.WaitOpened(kind=kind):
            return f"waits: {kind}"
        case e.WaitClosed(how=how):
            return f"wait over: {how}"
        case e.ApprovalRequested(id=name, head=head):
            return f"approval {name} asked for: {head.name}"
        case (
            e.ApprovalGranted(id=name)
            | e.ApprovalDenied(id=name)
            | e.ApprovalExpired(id=name)
            | e.ApprovalVoided(id=name)
        ):
            return f"approval {name} {e.kind_of(body).removeprefix('approval.')}"
        case e.FactChanged(fact=fact):
            return f"fact changed: {fact}"
        case _:
            return None
