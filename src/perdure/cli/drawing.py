"""One run's timeline as it is drawn in a terminal: a line for each call, a notch for each crash."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from perdure.cli.screen import Row, Screen, word
from perdure.cli.text import Text
from perdure.state.events import Event
from perdure.state.record import RunRecord
from perdure.state.wording import money
from perdure.store.protocol import NEVER, RunRow
from perdure.timeline.amounts import counted, duration, elapsed, moment, stamp
from perdure.timeline.document import event_document
from perdure.timeline.plain import brief, clean, quoted
from perdure.timeline.reason import Why
from perdure.timeline.reply import answer
from perdure.timeline.spending import spending
from perdure.timeline.view import Call, Line, Reference, plain

FOLD_ABOVE = 60  # lines
KEEP_FIRST, KEEP_LAST = 6, 40
"""A timeline of more than FOLD_ABOVE lines is drawn as its first and last lines, and a fold between them."""

_CALL_MARKS = {
    "done": ("✓", "green"),
    "failed": ("✗", "red"),
    "unknown": ("?", "bold yellow"),
    "open": ("…", "yellow"),
    "retrying": ("↺", "yellow"),
    "not_done": ("○", "yellow"),
    "left-unknown": ("?", "yellow"),
}

_MARKS = {
    "started": ("●", "bold"),
    "interrupted": ("✗", "bold red"),
    "resumed": ("↻", "cyan"),
    "migrated": ("⇧", "cyan"),
    "unknown": ("?", "bold yellow"),
    "reconciled": ("=", "bold cyan"),
    "late": ("«", "yellow"),
    "checked": ("≡", "dim"),
    "changed": ("≠", "bold yellow"),
    "wait": ("⏸", "blue"),
    "woke": ("▶", "blue"),
    "asked": ("⏸", "bold magenta"),
    "granted": ("▶", "green"),
    "denied": ("⊘", "red"),
    "expired": ("⊘", "yellow"),
    "voided": ("⊘", "yellow"),
    "used": ("▶", "dim"),
    "signal": ("✉", "blue"),
    "cancel": ("⊘", "red"),
    "undo": ("↶", "bold"),
    "raised": ("+", "green"),
    "step": ("─", "dim"),
    "restarted": ("↶", "bold yellow"),
    "held": ("⏸", "bold magenta"),
    "released": ("▶", "magenta"),
    "finished": ("■", "bold"),
    "forked": ("⑂", "bold cyan"),
    "matched": ("≈", "bold magenta"),
    "decided": ("▶", "magenta"),
}

_WORDS = {"cancel": "cancel asked for by", "raised": "budget raised by", "undo": "to be undone:"}

_SAID = {
    "migrated": ": brought to today's version",
    "checked": ": read before the call that rests on it",
    "changed": " has changed",
}

VERDICTS = {
    "done": "it had happened; not repeated",
    "not_done": "it had not happened; may be made again",
    "failed": "it had failed",
    "left-unknown": "left unknown, as the tool asks for",
}
"""What became of an unknown call, in words."""

DECISIONS = {
    "reuse": "the origin's result is taken",
    "act": "it is made again",
    "simulate": "a given result is taken",
}
"""What was decided about a call that a fork's origin has made, in words."""

CAUSES = {
    "crash": "the worker died inside it",
    "timeout": "no reply in time",
    "cancelled": "it was cancelled while it ran",
    "connection": "the connection was lost",
    "error": "it raised an error that tells nothing of the outcome",
}
"""Why an outcome is unknown, in words."""


HEADS = ("@", "AT", "STEP", "", "WHAT", "CLASS", "TOOK", "")
"""Point, time since the start, step, mark, what, effect class, time taken, and what came of it."""


def draw_timeline(screen: Screen, lines: Sequence[Line], *, whole: bool, between: int = 0) -> None:
    """Draw the lines, a call or a notch each; a long timeline is folded in the middle unless `whole`.

    `between`: events that were not read, in the middle.
    """
    start = lines[0].at if lines else 0
    drawn = [line for line in lines if line.kind != "step"]
    folded = 0 if whole or len(drawn) <= FOLD_ABOVE else len(drawn) - KEEP_FIRST - KEEP_LAST
    shown = drawn[:KEEP_FIRST] if folded else drawn
    rows: list[Row] = [_row(line, start, before) for line, before in _with_before(shown)]
    if folded:
        rows.append(["", "", "", "", Text(f"… {_folded(folded, between)}, --all shows them", "dim")])
        rows += [_row(line, start, before) for line, before in _with_before(drawn[-KEEP_LAST:])]
    screen.draw_columns(HEADS, rows)


def _folded(count: int, between: int) -> str:
    return f"{count + between:,} lines and events folded" if between else f"{count} lines folded"


def _with_before(lines: Sequence[Line]) -> Iterable[tuple[Line, Line | None]]:
    return zip(lines, [None, *lines], strict=False)


def _row(line: Line, start: int, before: Line | None) -> Row:
    """The cells of one line; the step's number stands at its first call only."""
    at = Text(f"+{elapsed(line.at - start)}", "dim")
    new_step = before is None or before.step != line.step or before.kind == "started"
    step = str(line.step) if new_step and line.kind not in ("started", "finished") else ""
    if line.call is None:
        mark, style = _MARKS[line.kind]
        what, more = _notch(line)
        said = Text.of((what, style), f"   {more}" if more else "")
        return [str(line.seq), at, step, Text(mark, style), said]
    call = line.call
    mark, style = _CALL_MARKS[call.standing]
    kind = f"model {clean(call.model)}" if call.model else call.effect
    name = clean(call.name)
    return [str(line.seq), at, step, Text(mark, style), name, kind, _took(call), _came(call)]


def _took(call: Call) -> str:
    return duration(call.ended - call.began) if call.began and call.ended else ""


def _came(call: Call) -> Text:
    """Outcome first, then the arguments, so that a narrow terminal shows what matters."""
    if call.standing == "done":
        text = Text(f"→ {answer(call.value)}" if call.model else f"→ {brief(call.value, 48)}")
    elif call.standing in ("failed", "retrying"):
        text = Text(f"→ {fault(call.value)}", "red")
    else:
        text = Text(f"→ {call.standing.replace('_', ' ')}", "yellow")
    if call.verdict:
        text.append(f", known since @{call.receipt}" if call.receipt else f", {VERDICTS[call.verdict]}")
    if call.attempts > 1:
        text.append(f", attempt {call.attempts}")
    if call.undoes:
        text.append(f"   undoes {call.undoes}", "dim")
    if call.args and not call.model:
        text.append(f"   {arguments(call)}", "dim")
    return text


def arguments(call: Call) -> str:
    """The arguments, shortened."""
    return ", ".join(f"{clean(name)}={_argument(value)}" for name, value in call.args.items())


def _argument(value: Any) -> str:
    if isinstance(value, Reference):
        return clean(value.where)
    return brief([value], 42)[1:-1] if isinstance(value, str) else brief(value, 40)


def fault(value: Any) -> str:
    """A recorded error in one line."""
    if isinstance(value, dict) and isinstance(value.get("type"), str):
        said = str(value.get("message", "")).partition("\n")[0]  # our own errors tell a remedy below
        return brief(f"{value['type']}: {said}", 90)
    return brief(value, 90)


def _notch(line: Line) -> tuple[str, str]:
    """What a line that is no call says, and what it adds."""
    detail = [clean(part) for part in line.detail]
    text = clean(line.text)
    if (told := _TOLD.get(line.kind)) is not None:
        return told(line, text, detail)
    match line.kind:
        case "started":
            return f"started {text}", moment(line.at)
        case "interrupted":
            inside, rest = _inside(detail)
            return f"interrupted{inside}", " · ".join([f"carried on by worker {text}", *rest])
        case "resumed":
            return "taken up", " · ".join([f"by worker {text}", *detail])
        case "unknown":
            return f"{text}: outcome unknown", " · ".join([CAUSES.get(detail[0], detail[0]), *detail[1:]])
        case "reconciled":
            verdict, by, *evidence = detail
            return f"{text}: {VERDICTS.get(verdict, verdict)}", " · ".join(_given([_said_by(by), *evidence]))
        case "late":
            return f"{text}: a reply came late", " · ".join(detail)
        case "wait":
            return f"waits: {text}", "for ever" if line.until >= NEVER else f"until {moment(line.until)}"
        case "cancel" | "raised" | "undo":
            return f"{_WORDS[line.kind]} {text}", " · ".join(detail)
        case "woke" | "signal":
            said = "wait ended" if line.kind == "woke" else "signal came"
            return f"{said}: {text}", " · ".join(detail)
        case "restarted":
            return "step begun anew", " · ".join([text, *detail])
        case "held":
            return f"held: {text}", " · ".join(detail)
        case "released":
            return f"released by {text}", " · ".join(_given(detail))
        case _:
            return text + _SAID.get(line.kind, ""), " · ".join(detail)


def _forked(line: Line, text: str, detail: list[str]) -> tuple[str, str]:
    """What a line says that tells of a fork and its origin."""
    match line.kind:
        case "forked":
            return f"forked from {text}", " · ".join(detail)
        case "matched":
            return f"call {text} is what its origin did", " · ".join(detail)
        case _:
            how, by, *note = detail
            return f"{DECISIONS[how]} for {text}", " · ".join([f"by {by}", *note])


def _permission(line: Line, text: str, detail: list[str]) -> tuple[str, str]:
    """What a line says that tells of a request for a permission."""
    match line.kind:
        case "asked":
            until = "no end" if line.until >= NEVER else f"until {moment(line.until)}"
            return f"asks whether it may: {text}", " · ".join([*detail, until])
        case "granted" | "denied":
            return f"{line.kind} by {text}", " · ".join(detail)
        case _:
            return f"approval {line.kind}", " · ".join([text, *detail])


_TOLD: dict[str, Callable[[Line, str, list[str]], tuple[str, str]]] = {
    **dict.fromkeys(("asked", "granted", "denied", "expired", "voided", "used"), _permission),
    **dict.fromkeys(("forked", "matched", "decided"), _forked),
}


def _inside(detail: list[str]) -> tuple[str, list[str]]:
    """The calls that were open, for the notch itself, and the rest of what is said."""
    calls = [part.removeprefix("inside ") for part in detail if part.startswith("inside ")]
    rest = [part for part in detail if not part.startswith("inside ")]
    return (f" inside {', '.join(calls)}" if calls else ""), rest


def _said_by(by: str) -> str:
    """Who answered what became of a call."""
    who = by.removeprefix("person:")
    return "as its reconcile hook says" if who == "hook" else f"as {who} says"


def _given(parts: Iterable[str]) -> list[str]:
    return [part for part in parts if part.strip()]


# ---------------------------------------------------------------------------------------------- whole screens


def draw_run(
    row: RunRow,
    record: RunRecord,
    answer: Why,
    lines: Sequence[Line],
    *,
    whole: bool,
    upto: int | None,
    between: int = 0,
) -> None:
    """Header, timeline, how it ended or why it does not move, and what can be done next.

    `between`: events in the middle of the timeline that were not read.
    """
    screen = Screen()
    head = Text.of((clean(row.run_id), "bold"), f"   {clean(row.agent)}   ", word(answer.condition.word))
    if answer.condition.because and not row.terminal:
        head.append(f"   {answer.condition.because}", "dim")
    screen.draw(head)
    screen.draw_hanging(Text("  "), Text(quoted(plain(record.goal), 300)))
    screen.draw_hanging(Text("  "), Text(_span(row, record), "dim"))
    if upto is not None:
        screen.draw(Text(f"  up to event {upto} of {row.seq}", "bold"))
    screen.draw()
    draw_timeline(screen, lines, whole=whole, between=between)
    if row.terminal and upto is None:
        label = "error" if record.ended == "failed" else "result"
        shown = fault(plain(record.value)) if record.ended == "failed" else brief(plain(record.value), 200)
        screen.draw("", Text.of((f"{label}  ", "bold"), shown))
    elif record.held is not None and upto is None:
        screen.draw("", Text.of(("held  ", "bold magenta"), clean(record.held.detail)))
    if answer.remedies and upto is None:
        screen.draw_commands(answer.remedies)


def _span(row: RunRow, record: RunRecord) -> str:
    spent = record.spent
    tokens = spent.input_tokens + spent.output_tokens
    parts = [
        f"started {moment(record.started_at)}",
        f"{'took' if row.terminal else 'open for'} {duration(record.updated_at - record.started_at)}",
        f"{counted(spent.steps, 'step')}, {counted(spent.calls, 'call')}",
    ]
    if tokens:
        parts.append(counted(tokens, "token"))
    lines = spending(record)
    if spent.usd and not any(line.kind == "usd" for line in lines):
        parts.append(money(spent.usd))
    parts += [line.words for line in lines]
    if record.resumes:
        parts.append(f"resumed {counted(record.resumes, 'time')}")
    return " · ".join(parts)


def draw_why(answer: Why) -> None:
    """The answer to `why`, on one screen."""
    screen = Screen()
    screen.draw(Text.of((clean(answer.run_id), "bold"), "   ", word(answer.condition.word)))
    screen.draw(Text(answer.headline, "bold"))
    screen.draw_pairs([(fact.label, fact.text) for fact in answer.facts])
    if answer.remedies:
        screen.draw_commands(answer.remedies)


def events_listed(events: Iterable[Event]) -> Iterable[str]:
    """Each event in one line: number, moment, epoch, kind, and its body, shortened."""
    for event in events:
        body = brief(event_document(event)["body"], 150)
        yield f"{event.seq:>6}  {stamp(event.at)}  e{event.epoch:<3} {event.kind:<18} {body}"
