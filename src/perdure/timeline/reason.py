"""Why a run does not move, and what makes it move: one screen, from its row and its record.

Pure; every face draws the same `Why`. Remedies are commands that can be typed as they stand, or a change of
code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from shlex import quote

from perdure.codec import decode
from perdure.codec.naming import written
from perdure.errors import Damaged, PerdureError, at_store
from perdure.recovery.deploys import RunKey
from perdure.runtime.decisions import ANYONE, FUNCTION
from perdure.runtime.questions import open_waits, terms_of, words
from perdure.state.events import Owed
from perdure.state.fork import left
from perdure.state.record import ApprovalRecord, CallRecord, ChangeRecord, RunRecord, WaitRecord
from perdure.state.undo import progress
from perdure.state.wording import money
from perdure.store.protocol import NEVER, Inbound, Placement, RunRow
from perdure.timeline.amounts import counted, duration, moment
from perdure.timeline.condition import MEANING, Condition, condition, note_of
from perdure.timeline.inbox import deciding
from perdure.timeline.late import late_results
from perdure.timeline.plain import brief, clean, jsonable, quoted
from perdure.timeline.spending import spending


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of the answer: what it is about, and what is so."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Why:
    """Why a run stands where it stands: its condition in words, the facts behind it, and what can be done."""

    run_id: str
    condition: Condition
    headline: str
    facts: tuple[Fact, ...]
    remedies: tuple[str, ...]

    def at(self, store: str | None) -> Why:
        """The same, its commands naming this store; None is the default store."""
        return replace(self, remedies=tuple(at_store(remedy, store) for remedy in self.remedies))


def why(
    row: RunRow,
    record: RunRecord,
    now: int,
    *,
    inbox: Sequence[Inbound] = (),
    note: str = "",
    children: Sequence[RunRow] = (),
    of_key: Sequence[RunRow] = (),
) -> Why:
    """Why this run does not move, at `now` by the store's clock.

    `inbox`: the messages that it has not taken yet. `note`: what the run noted about itself for lists.
    `children`: the rows of those that it waits for. `of_key`: the open runs that share its `limit_key`.
    """
    state = condition(row, now, note=note)
    facts = (
        *_facts(row, record, now, inbox),
        *_placed(row, of_key),
        *_kin(row, record, now, children),
    )
    return Why(
        row.run_id, state, _headline(state, record), facts, tuple(dict.fromkeys(remedies(row, record, state)))
    )


def unreadable(row: RunRow, now: int, error: PerdureError) -> Why:
    """Why a run whose events cannot be read does not move: damage (S107), or a newer format (M304).

    Nothing of its past is shown; all that is known is its row and what is wrong.
    """
    what = clean(error.what)
    state = condition(row, now)
    if not row.terminal and state.word != "running":
        state = Condition("held", what, "person", row.updated_at)
    damaged = isinstance(error, Damaged)
    headline = (
        "It is damaged: nothing of it is served, and it is not carried on."
        if damaged
        else "It was written by a newer perdure, and is not carried on here."
    )
    facts = (
        Fact("agent", clean(row.agent) + (f", version {clean(row.version)}" if row.version else "")),
        Fact("owner", _owner(row, now)),
        Fact("damaged" if damaged else "format", what),
        Fact("storage", f"last event @{row.seq}, row written {duration(now - row.updated_at)} ago"),
    )
    ways = (
        (f"perdure verify {clean(row.run_id)}    shows the first damage", "restore the file from a backup")
        if damaged
        else (clean(error.remedy),)
    )
    return Why(row.run_id, state, headline, facts, ways)


def _headline(state: Condition, record: RunRecord) -> str:
    if state.word == "held" and record.held is not None:
        return f"It needs a person: {clean(record.held.reason)}."
    if state.word == "held":
        return f"It is not carried on: {state.because}."
    if state.word == "waiting":
        return f"It waits {state.because}. Nothing is wrong."
    if state.needs == "worker":
        return f"It needs a worker: {state.because}."
    if state.word == "running":
        return "It is moving: a live worker holds it."
    return f"It has ended: {MEANING[state.word]}."


def _facts(row: RunRow, record: RunRecord, now: int, inbox: Sequence[Inbound]) -> Iterator[Fact]:
    yield from _code(row, record)
    yield Fact("owner", _owner(row, now))
    if row.claims > 1:
        yield Fact("claims", f"{row.claims} without progress")
    if record.held is not None:
        yield Fact(
            "held", f"for {duration(now - record.held.at)}: {clean(record.held.detail) or 'no detail'}"
        )
    yield from _cancelled(record)
    for call in record.calls.values():
        if not call.settled:
            yield Fact("call", _open_call(call, now))
    for wait in record.waits.values():
        if not wait.closed:
            yield Fact("wait", _open_wait(wait, now))
    yield from _changes(record, now)
    for signal in record.signals:
        since = duration(now - signal.accepted)
        by = f" from {clean(signal.by)}" if signal.by else ""
        yield Fact("signal", f"{clean(signal.name)!r}{by} came {since} ago; no wait has taken it")
    for asked in record.approvals.values():
        if asked.open:
            yield Fact("approval", _open_approval(row.run_id, record, asked, now))
    if row.terminal:
        for at, late in late_results(inbox):
            yield Fact("late", f"{clean(late.words)}; it was told {duration(now - at)} ago, after the end")
    for line in spending(record):
        yield Fact("budget", f"{line.words} ({line.source})")
    yield Fact("inbox", _inbox(row, inbox, now))
    yield Fact("past", _past(record))
    yield Fact("storage", f"last event @{row.seq}, written {duration(now - row.updated_at)} ago")


def _placed(row: RunRow, of_key: Sequence[RunRow]) -> Iterator[Fact]:
    place = row.placement
    if row.terminal or place == Placement():
        return
    needs = f", needs a worker with {', '.join(map(clean, place.tags))}" if place.tags else ""
    yield Fact("place", f"queue {clean(place.queue)}, priority {place.priority}{needs}")
    if place.limit_key:
        busy = [other.run_id for other in of_key if other.worker is not None and other.run_id != row.run_id]
        full = f"full: {', '.join(map(clean, busy[:3]))}" if len(busy) >= place.key_limit else "has room"
        named = f"{clean(place.limit_key)}, at most {place.key_limit} at once"
        yield Fact("key", f"{named}; {len(busy)} others are at work" + ("" if row.worker else f": {full}"))


def _code(row: RunRow, record: RunRecord) -> Iterator[Fact]:
    """Which code the run is on, and what differed when it was last taken over by another one."""
    key = RunKey.read(row.version)
    pinned = " (pinned)" if key.pinned else ""
    version = f", version {clean(key.version)}{pinned}" if row.version else ""
    yield Fact("agent", f"{clean(row.agent)}{version}, state version {record.state_version}")
    if not row.terminal and key.unfit:
        yield Fact(
            "code", f"{counted(len(key.unfit), 'code')} failed to take over its goal or state; others may"
        )
    if changed := _last_change(record):
        yield Fact("changed", f"the code, when it was last taken up: {clean('; '.join(changed))}")


def _last_change(record: RunRecord) -> tuple[str, ...]:
    """What differed in the code at the newest resume that tells of it."""
    pauses = (*record.interruption.pauses, *record.interrupted.pauses)
    return next((pause.differences for pause in reversed(pauses) if pause.differences), ())


def _cancelled(record: RunRecord) -> Iterator[Fact]:
    if record.cancel is not None:
        yield Fact("cancel", f"asked for by {clean(record.cancel)}; no new act is begun")
    if record.compensate:
        yield Fact("undo", _undos(record))


def _undos(record: RunRecord) -> str:
    """How far a compensating cancel has come; the end of the run says it in its own words."""
    if record.ended is not None:
        told = decode(record.value)
        ends = [f"{word}: {', '.join(told[name])}" for word, name in _ENDS if told.get(name)]
        return "; ".join(ends) or "nothing was to be undone"
    if record.undo is None:
        return "what it has done is undone, newest first, once every open call has a verdict"
    now = progress(record)
    parts = (("undone", now.undone), ("stays", now.kept), ("left", now.left), ("not known", record.unsure))
    return "; ".join(f"{word}: {_named(acts)}" for word, acts in parts if acts) or "nothing is to be undone"


_ENDS = (("undone", "undone"), ("not undone", "left"))


def _named(acts: Sequence[Owed]) -> str:
    names = [f"{clean(act.name)} {act.path}" for act in acts[:5]]
    return ", ".join(names) + (f" and {len(acts) - 5} more" if len(acts) > 5 else "")


def _kin(row: RunRow, record: RunRecord, now: int, children: Sequence[RunRow]) -> Iterator[Fact]:
    """The run that this one was forked from or spawned by, and how those stand that it waits for itself."""
    if (fork := record.fork) is not None:
        left_over = len(list(left(fork)))
        acts = (
            f"; {counted(left_over, 'act')} of it after that not come to yet ({fork.effects})"
            if left_over
            else ""
        )
        by = f", by {clean(fork.by)}" if fork.by else ""
        yield Fact("fork", f"of {clean(fork.run)} at event {fork.at}{by}{acts}")
    if row.parent is not None and record.path:
        yield Fact("parent", f"{clean(row.parent)} spawned it at {record.path}, and is told of its end")
    there = {child.run_id: child for child in children}
    for wait in record.waits.values():
        if wait.kind == "child" and not wait.closed:
            child = there.get(wait.name)
            yield Fact("child", _child(wait.name, child, now))


def _child(name: str, child: RunRow | None, now: int) -> str:
    if child is None:
        return f"{clean(name)} is not created yet; whoever drives this run next creates it"
    state = condition(child, now, note=note_of(child))
    if state.word == "ready":
        state = replace(state, because=f"no worker that serves agent {clean(child.agent)} has claimed it")
    because = f": {state.because}" if state.because else ""
    return f"{clean(name)} ({clean(child.agent)}) is {state.word}{because}"


def _owner(row: RunRow, now: int) -> str:
    if row.worker is not None and row.lease_until > now:
        lease = duration(row.lease_until - now)
        return f"worker {clean(row.worker)}, lease for {lease} more (epoch {row.epoch})"
    if row.lost is not None:
        end = "which has died" if row.died else "which let its lease run out"
        return f"nobody; last worker {clean(row.lost)}, {end} (epoch {row.epoch})"
    return f"nobody (epoch {row.epoch})"


_STANDINGS = {
    "open": "made, no reply recorded yet",
    "unknown": "outcome unknown",
    "retrying": "failed, may be tried again",
    "not_done": "did not happen, may be made again",
}


def _open_call(call: CallRecord, now: int) -> str:
    words = _STANDINGS.get(call.standing, call.standing)
    raised = f": {clean(call.detail)}" if call.detail and not call.settled else ""
    cause = f" ({call.cause}{raised})" if call.cause else ""
    since = f", intent written {duration(now - call.intended_at)} ago" if call.intended_at else ""
    return f"{clean(call.name)} {call.path} [{call.effect}]: {words}{cause}{since}, attempt {call.attempt}"


def _open_wait(wait: WaitRecord, now: int) -> str:
    terms = terms_of(wait)
    what = clean(wait.name) if wait.kind == "sleep" else f"{brief(words(wait), 400)} at {wait.path}"
    if terms.choices is not None:
        what += f" ({' | '.join(clean(written(choice, 80)) for choice in terms.choices)})"
    if wait.refused:
        what += f"; an answer did not fit: {clean(wait.refused)}"
    if wait.deadline >= NEVER:
        return f"{what}: for ever"
    if wait.deadline <= now:
        return f"{what}: its deadline passed {duration(now - wait.deadline)} ago"
    then = "" if wait.kind in ("sleep", "child") else f", then it {clean(terms.end)}"
    return f"{what}: until {moment(wait.deadline)}, {duration(wait.deadline - now)} from now{then}"


def _open_approval(run_id: str, record: RunRecord, asked: ApprovalRecord, now: int) -> str:
    from perdure.runtime.requests import request_of  # what runs agents is loaded only where it must be

    request = request_of(run_id, record, asked)
    args = ", ".join(f"{clean(name)}={quoted(value)}" for name, value in request.args.items())
    known = {ANYONE: "anyone", FUNCTION: "whom the agent's code admits"}
    who = known.get(asked.by, clean(asked.by.replace(":", " ", 1)))
    agreed = [clean(grant.principal) for grant in asked.grants]
    told = f"{clean(asked.id)}: may it {clean(asked.head.name)}({args})? {who} may decide"
    if asked.quorum > 1 or agreed:
        told += f", {len(agreed)} of {asked.quorum} agreed" + (f" ({', '.join(agreed)})" if agreed else "")
    until = asked.until if asked.standing == "granted" else asked.deadline
    if until >= NEVER:
        return told
    left = duration(until - now) if until > now else "over"
    return f"{told}, {left}{' left' if until > now else ''}"


def _changes(record: RunRecord, now: int) -> Iterator[Fact]:
    """The last facts that were found changed, around the open step."""
    for change in (*record.interruption.changed, *record.interrupted.changed)[-3:]:
        yield Fact("changed", _change(change, now))


def _change(change: ChangeRecord, now: int) -> str:
    """A fact that a call rested on, or that the step read again. What was too long to be kept is not told."""
    args = decode(change.args) if change.args else {}
    called = ", ".join(f"{clean(name)}={brief(value, 40)}" for name, value in args.items())
    was, is_now = (
        brief(decode(value), 80) if value else "(not kept here)" for value in (change.was, change.now)
    )
    found = duration(now - change.at)
    return f"{clean(change.fact)}({called}) was {was}, now {is_now}; found {found} ago"


def _inbox(row: RunRow, inbox: Sequence[Inbound], now: int) -> str:
    if not inbox:
        return "empty" if not row.pending else f"{row.pending} not taken yet"
    kinds = ", ".join(f"{clean(item.kind)} {duration(now - item.at)} ago" for item in inbox[:3])
    more = f" and {len(inbox) - 3} more" if len(inbox) > 3 else ""
    return f"{len(inbox)} not taken yet: {kinds}{more}"


def _past(record: RunRecord) -> str:
    spent = record.spent
    tokens = (
        f", {counted(spent.input_tokens + spent.output_tokens, 'token')}"
        if spent.input_tokens + spent.output_tokens
        else ""
    )
    again = f", resumed {record.resumes} times" if record.resumes > 1 else ""
    cost = f", {money(spent.usd)}" if spent.usd else ""
    return f"{counted(spent.steps, 'step')} and {counted(spent.calls, 'call')} done{tokens}{cost}{again}"


def _deciders(record: RunRecord) -> Iterator[str]:
    """How what a run asks for is permitted or forbidden."""
    for asked in record.approvals.values():
        if asked.standing == "pending":
            yield from deciding(asked.id, asked.by)


def _senders(run: str, record: RunRecord) -> Iterator[str]:
    """What can be sent to a run that waits."""
    questions = open_waits(record, "answer")
    for wait in questions:
        which = f" --question {wait.path}" if len(questions) > 1 else ""
        choices = terms_of(wait).choices
        shown = "VALUE" if not choices else choices[0]
        typed = shown if isinstance(shown, str) else json.dumps(jsonable(shown))
        yield f"perdure answer {run} {quote(clean(typed))}{which}"
    for wait in open_waits(record, "signal"):
        yield f"perdure signal {run} {quote(clean(wait.name))} [PAYLOAD]"


def remedies(row: RunRow, record: RunRecord, state: Condition) -> Iterator[str]:
    """What can be done about the run now, most useful first."""
    run = clean(row.run_id)
    if record.held is not None and not row.terminal and state.needs != "worker":
        yield from map(clean, record.held.remedies)
        call = record.calls.get(record.held.path)
        if (
            call is not None
            and call.standing == "unknown"
            and not any("resolve" in r for r in record.held.remedies)
        ):
            yield f"perdure resolve {run} {call.path} --done RESULT    it happened"
            yield f"perdure resolve {run} {call.path} --not-done       it did not; it may act again"
    elif state.word == "waiting" and (open_ := [*_deciders(record), *_senders(run, record)]):
        yield from open_
    elif state.word == "held" and not row.terminal:
        yield "mend the migration or the state's type, and deploy it"
        yield f"perdure migrate FILE:AGENT --id {run}    tries it again"
    elif state.needs == "worker":
        yield f"perdure run FILE:AGENT --id {run}    carry it on here"
        tags = "".join(f" --tag {quote(clean(tag))}" for tag in row.placement.tags)
        yield f"perdure worker MODULE:AGENT{tags}    serve every open run of {clean(row.agent)}"
        yield "perdure runs --stranded MODULE:AGENT    does this code carry it on?"
    for wait in record.waits.values():
        if wait.kind == "child" and not wait.closed:
            yield f"perdure why {clean(wait.name)}    what its child waits for"
    if not row.terminal and record.cancel is None:
        yield f"perdure cancel {run}"
