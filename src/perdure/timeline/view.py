"""What happened in a run, as the lines that every face shows.

`lines` turns decoded events into a list in the order of their numbers. A call is one line, at its first
event; what later became of it (retry, unknown, verdict, late result) is both on that line and, where
something interrupted it, a line of its own. Values are plain data: no object of a user's is built. Pure, and
it knows neither terminal nor page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from perdure.codec import decode
from perdure.state import events as e
from perdure.state.amount import KINDS
from perdure.state.undo import undone_path
from perdure.state.wording import told
from perdure.timeline.amounts import size
from perdure.timeline.plain import brief, quoted

SHOWN = 120
"""Characters of a fact's value on a line."""

Kind: TypeAlias = Literal[
    "started",
    "interrupted",
    "resumed",
    "migrated",
    "call",
    "unknown",
    "reconciled",
    "late",
    "checked",
    "changed",
    "wait",
    "woke",
    "signal",
    "asked",
    "granted",
    "denied",
    "expired",
    "voided",
    "used",
    "cancel",
    "undo",
    "raised",
    "step",
    "restarted",
    "held",
    "released",
    "finished",
    "forked",
    "matched",
    "decided",
]
"""What a line is about."""

Standing: TypeAlias = Literal["open", "unknown", "done", "failed", "not_done", "retrying", "left-unknown"]
"""What is known of a call, as `perdure.state.record` has it."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call, with everything that is known of it. Moments in microseconds; 0 where nothing was recorded.

    `began` is the moment of its first intent (a read has none), `ended` of its outcome. `receipt` is the
    event that settled it. `value` is its result, or its error as plain data. `verdict` and `by` tell how an
    unknown outcome was answered, by a hook or by a person. `premises`: the events of the facts that it rests
    on. `undoes`: the path of the call that it takes back.
    """

    path: str
    name: str
    effect: str
    args: dict[str, Any]
    key: str = ""
    standing: Standing = "open"
    attempts: int = 1
    began: int = 0
    ended: int = 0
    intent: int = 0
    receipt: int = 0
    value: Any = None
    cause: str = ""
    verdict: str = ""
    by: str = ""
    evidence: str = ""
    usage: e.Usage | None = None
    model: str = ""
    premises: tuple[int, ...] = ()
    undoes: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a timeline. `seq` is its point (RUN@seq), `step` the step it belongs to (1, 2, 3 …).

    `until` is a wait's deadline in microseconds, 0 on every other line.
    """

    seq: int
    at: int
    step: int
    kind: Kind
    text: str
    detail: tuple[str, ...] = ()
    call: Call | None = None
    until: int = 0


@dataclass(slots=True)
class _Draft:
    """A call while its events are still being read."""

    line: int
    parts: dict[str, Any]


@dataclass(slots=True)
class _Scan:
    """What has been read so far: the lines, the calls that may still change, values that references point
    into.
    """

    lines: list[Line] = field(default_factory=list)
    drafts: dict[str, _Draft] = field(default_factory=dict)
    values: dict[int, bytes] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    step: int = 1

    def add(self, event: e.Event, kind: Kind, text: str, *detail: str) -> None:
        self.lines.append(Line(event.seq, event.at, self.step, kind, text, detail))

    def draft(self, event: e.Event, path: str, head: e.CallHead | None, key: str) -> dict[str, Any]:
        """The call at this path; a new line if it is not there yet."""
        if path not in self.drafts:
            parts: dict[str, Any] = {"path": path, "name": "?", "effect": "read", "args": {}, "key": key}
            if head is not None:
                args = {name: argument(value, self.values) for name, value in head.args}
                parts |= {"name": head.name, "effect": head.effect, "args": args}
                parts["model"] = self.models.get(head.name, "")
            if undone := undone_path(path):
                parts["undoes"] = undone
            self.drafts[path] = _Draft(len(self.lines), parts)
            self.add(event, "call", parts["name"])
        return self.drafts[path].parts

    def close(self, keep: int = 0) -> None:
        """Write the drafts into their lines; those that began at event `keep` or before stay open."""
        for path, draft in list(self.drafts.items()):
            line = self.lines[draft.line]
            call = Call(**draft.parts)
            self.lines[draft.line] = Line(line.seq, line.at, line.step, "call", call.name, line.detail, call)
            if line.seq > keep:
                del self.drafts[path]


def lines(events: Iterable[e.Event]) -> list[Line]:
    """The lines of a run's events, in order. The events may begin in the middle of a run."""
    scan = _Scan()
    for event in events:
        value = e.recorded_value(event.body)
        if value:
            scan.values[event.seq] = value
        _READERS[type(event.body)](scan, event, event.body)
    scan.close()
    return scan.lines


def plain(value: bytes) -> Any:
    """The plain data of value bytes; None for none."""
    return decode(value) if value else None


def place(key: e.Key) -> Any:
    """One key of a path, as plain data."""
    return plain(key.data) if isinstance(key, e.OddKey) else key


def argument(recorded: e.Argument, values: dict[int, bytes]) -> Any:
    """A recorded argument as plain data, or a `Reference` where `values` (by event) does not hold it."""
    match recorded:
        case bytes():
            return plain(recorded)
        case e.StateList(path=path, count=count, extra=extra):
            where = ".".join(str(place(key)) for key in path) or "state"
            more = f" + {len(extra)} new" if extra else ""
            return Reference(f"state.{where}[:{count}]{more}" if path else f"state[:{count}]{more}")
        case e.Ref(seq=seq, start=start, length=length):
            held = values.get(seq, b"")[start : start + length]
            return plain(held) if len(held) == length and length else Reference(f"event {seq}")
        case e.Omitted(size=length):
            return Reference(size(length))


@dataclass(frozen=True, slots=True)
class Reference:
    """An argument whose value is not shown: where it is, or how large it was."""

    where: str


# ----------------------------------------------------------------------------------- one reader for each kind


def _started(scan: _Scan, event: e.Event, body: e.RunStarted) -> None:
    manifest = plain(body.manifest)
    models = manifest.get("models") if isinstance(manifest, dict) else None
    if isinstance(models, dict):
        scan.models = {str(name): str(model) for name, model in models.items()}
    scan.add(event, "started", f"{body.agent} {body.version}".strip())


_PAUSES = frozenset(
    {
        *("forked", "migrated", "wait", "woke", "signal", "asked", "granted", "denied"),
        *("held", "released", "cancel"),
    }
)
"""After these a run lies still, so that taking it up again is no sign of an interruption."""

_BESIDE = frozenset({"raised", "voided"})
"""These come beside others, and say nothing of whether the run lies still."""


def _resumed(scan: _Scan, event: e.Event, body: e.RunResumed) -> None:
    names = [scan.drafts[path].parts["name"] for path in body.open_calls if path in scan.drafts]
    found = tuple(f"inside {name}" for name in names)
    changed = tuple(f"changed: {difference}" for difference in body.differences)
    last = next((line.kind for line in reversed(scan.lines) if line.kind not in _BESIDE), None)
    lay_still = last in _PAUSES and not body.open_calls
    scan.add(event, "resumed" if lay_still else "interrupted", body.worker, *found, *changed)


def _migrated(scan: _Scan, event: e.Event, body: e.RunMigrated) -> None:
    text = f"state {body.from_version} -> {body.to_version}"
    count = len(body.patch)
    kept = ("lossy: the state before it is kept",) if body.lossy else ()
    scan.add(event, "migrated", text, f"{count} change{'' if count == 1 else 's'} of state", *kept)


def _intended(scan: _Scan, event: e.Event, body: e.CallIntended) -> None:
    parts = scan.draft(event, body.path, body.head, body.key)
    parts |= {"attempts": body.attempt, "standing": "open", "key": body.key, "premises": body.premises}
    if not parts.get("intent"):
        parts |= {"intent": event.seq, "began": event.at}


def _settled(scan: _Scan, event: e.Event, body: e.CallSettled) -> None:
    parts = scan.draft(event, body.path, body.head, body.key)
    again = not body.final and body.outcome != "done"
    standing = "retrying" if again else "failed" if body.outcome == "not_done" else body.outcome
    parts |= {"standing": standing, "attempts": body.attempt, "receipt": event.seq, "ended": event.at}
    parts |= {"value": plain(body.value), "usage": body.usage}
    if body.premises:
        parts["premises"] = body.premises


def _fact_read(scan: _Scan, event: e.Event, body: e.FactRead) -> None:
    if not body.check:
        _settled(scan, event, e.CallSettled(body.path, "done", body.value, body.head, attempt=body.attempt))
        return
    args = {name: argument(value, scan.values) for name, value in body.head.args}
    scan.add(event, "checked", _called(body.head.name, args), brief(plain(body.value), SHOWN))


def _fact_changed(scan: _Scan, event: e.Event, body: e.FactChanged) -> None:
    was = brief(plain(body.was), SHOWN) if body.was else "something else"
    now = brief(plain(body.now), SHOWN)
    scan.add(event, "changed", _called(body.fact, plain(body.args)), f"was {was}", f"now {now}")


def _called(name: str, args: dict[str, Any]) -> str:
    def shown(value: Any) -> str:
        return value.where if isinstance(value, Reference) else brief(value, 40)

    return f"{name}({', '.join(f'{key}={shown(value)}' for key, value in args.items())})"


def _unknown(scan: _Scan, event: e.Event, body: e.CallUnknown) -> None:
    parts = scan.draft(event, body.path, None, "")
    parts |= {"standing": "unknown", "cause": body.cause}
    scan.add(event, "unknown", parts["name"], body.cause, *((body.detail,) if body.detail else ()))


def _reconciled(scan: _Scan, event: e.Event, body: e.CallReconciled) -> None:
    parts = scan.draft(event, body.path, None, "")
    parts |= {"standing": body.verdict, "verdict": body.verdict, "by": body.by, "evidence": body.evidence}
    if body.verdict != "not_done":
        parts |= {"receipt": event.seq, "ended": event.at, "value": plain(body.value)}
    scan.add(event, "reconciled", parts["name"], body.verdict, body.by, body.evidence)


def _late(scan: _Scan, event: e.Event, body: e.CallLate) -> None:
    parts = scan.draft(event, body.path, None, "")
    if body.used:
        standing = "failed" if body.outcome == "not_done" else body.outcome
        parts |= {"standing": standing, "receipt": event.seq, "ended": event.at, "value": plain(body.value)}
    scan.add(event, "late", parts["name"], body.outcome, "used" if body.used else "not used")


def _wait_opened(scan: _Scan, event: e.Event, body: e.WaitOpened) -> None:
    text = body.name if body.kind == "sleep" else f"{body.kind} {body.name}"
    scan.lines.append(Line(event.seq, event.at, scan.step, "wait", text, until=body.deadline))


def _wait_closed(scan: _Scan, event: e.Event, body: e.WaitClosed) -> None:
    by = (f"by {body.by}",) if body.by else ()
    took = (f"took @{body.signal}",) if body.signal else ()
    scan.add(event, "woke", body.how, *by, *took)


def _refused(scan: _Scan, event: e.Event, body: e.AnswerRefused) -> None:
    scan.add(event, "woke", "answer refused", body.why)


def _signal(scan: _Scan, event: e.Event, body: e.SignalReceived) -> None:
    scan.add(event, "signal", body.name, *((f"from {body.by}",) if body.by else ()))


def _asked(scan: _Scan, event: e.Event, body: e.ApprovalRequested) -> None:
    args = {name: argument(value, scan.values) for name, value in body.head.args}
    told = ", ".join(
        f"{name}={value.where if isinstance(value, Reference) else quoted(value)}"
        for name, value in args.items()
    )
    text = f"{body.head.name}({told})"
    scan.lines.append(Line(event.seq, event.at, scan.step, "asked", text, (body.id,), until=body.deadline))


def _granted(scan: _Scan, event: e.Event, body: e.ApprovalGranted) -> None:
    edit = [f"{name}={quoted(plain(value))}" for name, value in body.edit]
    detail = [body.id, *([f"edited: {', '.join(edit)}"] if edit else []), *([body.note] if body.note else [])]
    scan.add(event, "granted", body.principal, *detail)


def _denied(scan: _Scan, event: e.Event, body: e.ApprovalDenied) -> None:
    scan.add(event, "denied", body.principal, body.id, *((body.note,) if body.note else ()))


def _expired(scan: _Scan, event: e.Event, body: e.ApprovalExpired) -> None:
    scan.add(event, "expired", body.id, "nobody decided in time")


def _voided(scan: _Scan, event: e.Event, body: e.ApprovalVoided) -> None:
    scan.add(event, "voided", body.id, body.why)


def _used(scan: _Scan, event: e.Event, body: e.ApprovalUsed) -> None:
    scan.add(event, "used", body.id)


def _cancel(scan: _Scan, event: e.Event, body: e.CancelRequested) -> None:
    undone = ("what it has done is undone first",) if body.compensate else ()
    scan.add(event, "cancel", body.by, *((body.note,) if body.note else ()), *undone)


def _planned(scan: _Scan, event: e.Event, body: e.UndoPlanned) -> None:
    acts = [f"{act.name} {act.path}" for act in body.acts]
    unsure = [f"not known whether it happened: {act.name} {act.path}" for act in body.unsure]
    scan.add(event, "undo", f"{len(acts)} act{'' if len(acts) == 1 else 's'}", *acts, *unsure)


def _raised(scan: _Scan, event: e.Event, body: e.BudgetRaised) -> None:
    more = ", ".join(told(kind, body.more.of(kind)) for kind in KINDS if body.more.of(kind))
    scan.add(event, "raised", body.by, more, *((body.why,) if body.why else ()))


def _committed(scan: _Scan, event: e.Event, body: e.StepCommitted) -> None:
    scan.step = body.number
    count = len(body.patch)
    scan.add(event, "step", f"{count} change{'' if count == 1 else 's'} of state")
    scan.close()
    scan.values = {seq: value for seq, value in scan.values.items() if seq == 1}  # the goal stays referable
    scan.step = body.number + 1


def _restarted(scan: _Scan, event: e.Event, body: e.StepRestarted) -> None:
    scan.close(keep=body.keep)
    scan.add(event, "restarted", body.why, f"records up to @{body.keep} kept")


def _held(scan: _Scan, event: e.Event, body: e.RunHeld) -> None:
    scan.add(event, "held", body.reason, *((body.detail,) if body.detail else ()))


def _released(scan: _Scan, event: e.Event, body: e.RunReleased) -> None:
    scan.add(event, "released", body.by, body.how, *((body.note,) if body.note else ()))


def _finished(scan: _Scan, event: e.Event, body: e.RunFinished) -> None:
    scan.close()
    scan.add(event, "finished", body.status)


def _forked(scan: _Scan, event: e.Event, body: e.RunForked) -> None:
    scan.close(keep=event.seq)  # what is not settled by now is not the fork's
    scan.models |= dict(body.models)
    changed = [
        *(["goal changed"] if body.goal else []),
        *(
            [f"state changed in {len(body.patch)} place{'' if len(body.patch) == 1 else 's'}"]
            if body.patch
            else []
        ),
        *(f"outcome of {path} follows" for path in body.given),
        *(f"model of {name}: {model}" for name, model in body.models),
        *(["budget changed"] if body.budget is not None else []),
    ]
    acts = (
        f"{len(body.acts)} act{'' if len(body.acts) == 1 else 's'} of its origin after that: {body.effects}"
    )
    scan.add(event, "forked", f"{body.run}@{event.seq - 1}", *changed, *([acts] if body.acts else []))


def _effect_asked(scan: _Scan, event: e.Event, body: e.EffectAsked) -> None:
    scan.add(
        event,
        "matched",
        body.path,
        f"act {body.act + 1} of its origin" if body.act >= 0 else "no act is left",
    )


def _effect_decided(scan: _Scan, event: e.Event, body: e.EffectDecided) -> None:
    scan.add(event, "decided", body.path, body.how, body.by, *([body.note] if body.note else []))


_READERS: dict[type, Callable[[_Scan, e.Event, Any], None]] = {
    e.RunStarted: _started,
    e.RunResumed: _resumed,
    e.RunMigrated: _migrated,
    e.CallIntended: _intended,
    e.CallSettled: _settled,
    e.CallUnknown: _unknown,
    e.CallReconciled: _reconciled,
    e.CallLate: _late,
    e.FactRead: _fact_read,
    e.FactChanged: _fact_changed,
    e.WaitOpened: _wait_opened,
    e.WaitClosed: _wait_closed,
    e.AnswerRefused: _refused,
    e.SignalReceived: _signal,
    e.ApprovalRequested: _asked,
    e.ApprovalGranted: _granted,
    e.ApprovalDenied: _denied,
    e.ApprovalExpired: _expired,
    e.ApprovalVoided: _voided,
    e.ApprovalUsed: _used,
    e.CancelRequested: _cancel,
    e.UndoPlanned: _planned,
    e.BudgetRaised: _raised,
    e.StepCommitted: _committed,
    e.StepRestarted: _restarted,
    e.RunHeld: _held,
    e.RunReleased: _released,
    e.RunFinished: _finished,
    e.RunForked: _forked,
    e.EffectAsked: _effect_asked,
    e.EffectDecided: _effect_decided,
}
