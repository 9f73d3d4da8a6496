"""How a signal or an answer gets into a run's inbox, from any process, with or without the agent's code.

What the run could not take is refused before anything is sent, with the reason. A sender's id stands for one
message: sent again with the same content it is known again, with another it is refused; that holds after the
message was taken, and after the run has ended. Waits for no worker.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from perdure import codec
from perdure.agent import Principal
from perdure.clock import Clock
from perdure.codec.redaction import refuse_leak
from perdure.codec.sealed import Seen
from perdure.codec.sealing import by_schema, personal_in
from perdure.errors import (
    AlreadyAnswered,
    AnswerLate,
    AnswerUnfit,
    BadArguments,
    IdReused,
    NoSuchQuestion,
    PerdureError,
    RunEnded,
    SignalUnfit,
    WaitError,
)
from perdure.journal import Past, load, retold
from perdure.runtime.boundary import reached
from perdure.runtime.questions import ANSWER, SIGNAL, open_waits, terms_of
from perdure.runtime.vaults import entered, vault_of
from perdure.state import events as e
from perdure.state.fork import own_events
from perdure.state.record import WaitRecord
from perdure.store.protocol import Message, Store

LONGEST = 200
"""Characters of a signal's name or of a sender's id."""


class Sending(Struct, frozen=True):
    """One message before it is sent. `id`: the sender's, None if it gave none. `what`: it in a few words."""

    run_id: str
    kind: str
    prefix: str
    id: str | None
    data: dict[str, Any]
    what: str


def name_of(by: str | Principal) -> str:
    """Who sends, as it is recorded."""
    return by.id if isinstance(by, Principal) else by


async def signal(
    store: Store, clock: Clock, run_id: str, name: str, payload: object, *, sent_as: str | None, by: str
) -> bool:
    """Send a signal. True: it is durable now; False: this very message had come before.

    Raises SignalUnfit where the run waits for it with another type, IdReused, NotStorable, BadArguments, and
    NoSuchRun, RunEnded, RunGone.
    """
    _check_text(name, "a signal's name")
    value = codec.encode(payload, where="$.payload")
    past = await load(store, run_id)
    waiting = [wait for wait in open_waits(past.record, "signal") if wait.name == name]
    value = await _private(store, run_id, value, waiting[:1])
    data = {"name": name, "value": value, "by": by}
    sending = Sending(run_id, "signal", SIGNAL, sent_as, data, f"signal {name!r}")
    problem = None if past.row.terminal else _unfit(past, name, value)
    return await _send(store, clock, sending, problem)


async def _private(store: Store, run_id: str, value: bytes, waits: list[WaitRecord]) -> bytes:
    """The value with what is waited for as personal data sealed: from a command line it comes as it is."""
    schema = next((terms_of(wait).schema for wait in waits), None)
    if not personal_in(schema):
        return value
    Seen.personal = True
    with entered(await vault_of(store, run_id, make=True)):
        return codec.encode(by_schema(schema, codec.decode(value)))


def _unfit(past: Past, name: str, value: bytes) -> WaitError | None:
    """Whether the wait that would take this signal waits for another type."""
    ahead = sum(signal.name == name for signal in past.record.signals)
    ahead += sum(item.kind == "signal" and codec.decode(item.data)["name"] == name for item in past.inbox)
    waiting = [wait for wait in open_waits(past.record, "signal") if wait.name == name]
    if ahead >= len(waiting):
        return None
    wrong = terms_of(waiting[ahead]).misfit(codec.decode(value))
    if not wrong:
        return None
    return SignalUnfit(f"run {past.row.run_id} waits for {name!r}, and this does not fit: {wrong}", name=name)


async def answer(
    store: Store,
    clock: Clock,
    run_id: str,
    value: object,
    *,
    question: str | None,
    sent_as: str | None,
    by: str,
) -> bool:
    """Answer an open question. True: it is durable now; False: this very message had come before.

    `question`: the place of the question, None for the only one. Raises NoSuchQuestion, AlreadyAnswered,
    AnswerLate, AnswerUnfit, IdReused, NotStorable, and NoSuchRun, RunEnded, RunGone.
    """
    stored = codec.encode(value, where="$.answer")
    past = await load(store, run_id)
    problem: PerdureError | None
    wait, problem = _meant(past, question)
    if wait is not None:
        stored = await _private(store, run_id, stored, [wait])
        problem = _judged(past, wait, stored, store.now())
    elif question is not None:
        problem = await _answered_before(store, run_id, question) or problem
    if past.row.terminal:
        problem = RunEnded(f"run {run_id} has ended as {past.row.status}", run_id=run_id)
    path, seq = (wait.path, wait.seq) if wait is not None else (question or "", 0)
    data = {"path": path, "seq": seq, "value": stored, "by": by}
    sending = Sending(run_id, "answer", ANSWER, sent_as, data, f"the answer to {path}")
    fresh = await _send(store, clock, sending, problem)
    if wait is not None and fresh and store.now() >= wait.deadline:
        await _in_time(store, run_id, wait)
    return fresh


def _waiting_answers(past: Past) -> list[dict[str, Any]]:
    """What lies in the inbox as answers, not taken yet."""
    return [codec.decode(item.data) for item in past.inbox if item.kind == "answer"]


def _meant(past: Past, question: str | None) -> tuple[WaitRecord | None, WaitError | None]:
    """The question that is answered, or why there is none."""
    run_id, record = past.row.run_id, past.record
    sent = {(data["path"], data["seq"]) for data in _waiting_answers(past)}
    asked = open_waits(record, "answer")
    asked = [wait for wait in asked if (wait.path, wait.seq) not in sent] or asked
    if question is not None:
        wait = record.waits.get(question)
        if wait is None or wait.kind != "answer":
            return None, NoSuchQuestion(f"run {run_id} asks nothing at {question}", run_id=run_id)
        return wait, None
    if len(asked) == 1:
        return asked[0], None
    if not asked:
        return None, NoSuchQuestion(f"run {run_id} asks nothing now", run_id=run_id)
    places = ", ".join(f"{wait.path} ({wait.name[:60]})" for wait in asked)
    what = f"run {run_id} asks several questions, at {places}"
    return None, NoSuchQuestion(
        what, remedy=f"perdure answer {run_id} VALUE --question {asked[0].path}", run_id=run_id
    )


async def _answered_before(store: Store, run_id: str, path: str) -> WaitError | None:
    """Whether the question was asked and answered in a step that is over."""
    for event in (await retold(store, run_id)).events:
        if isinstance(event.body, e.WaitClosed) and event.body.path == path and event.body.how == "answer":
            return _answered(run_id, path, event.body.by)
    return None


def _answered(run_id: str, path: str, by: str) -> AlreadyAnswered:
    what = f"question {path} of run {run_id} has been answered by {by or 'somebody'}"
    return AlreadyAnswered(what, run_id=run_id, path=path, by=by)


def _judged(past: Past, wait: WaitRecord, value: bytes, now: int) -> WaitError | None:
    """Why this answer to this question cannot count; None if it can."""
    run_id = past.row.run_id
    waiting = _waiting_answers(past)
    first = next((data for data in waiting if (data["path"], data["seq"]) == (wait.path, wait.seq)), None)
    if wait.how == "answer" or first is not None:
        return _answered(run_id, wait.path, wait.by if first is None else str(first["by"]))
    if wait.closed or now >= wait.deadline:
        return _late(run_id, wait)
    if wrong := terms_of(wait).misfit(codec.decode(value)):
        where, _, expected = wrong.partition(" should be ")
        return AnswerUnfit(
            f"this does not answer {wait.name!r:.120} of run {run_id}: {wrong}",
            run_id=run_id,
            path=where,
            expected=expected,
        )
    return None


def _late(run_id: str, wait: WaitRecord) -> AnswerLate:
    return AnswerLate(
        f"question {wait.path} of run {run_id} could be answered until its deadline, which has passed",
        run_id=run_id,
        path=wait.path,
    )


async def _in_time(store: Store, run_id: str, wait: WaitRecord) -> None:
    """The deadline passed while the answer was sent: was it accepted before? Raises AnswerLate if not."""
    for item in await store.inbox(run_id):
        if item.kind == "answer" and item.at >= wait.deadline:
            data = codec.decode(item.data)
            if (data["path"], data["seq"]) == (wait.path, wait.seq):
                raise _late(run_id, wait)


# -- one message, once


async def _send(store: Store, clock: Clock, sending: Sending, problem: PerdureError | None) -> bool:
    """Deliver it, unless it had come before (False) or there is a problem, which is raised."""
    if sending.id is not None:
        _check_text(sending.id, "a sender's id")
    if problem is not None:
        if await _known(store, sending):
            return False
        raise problem
    data = codec.encode(sending.data)
    refuse_leak(data, sending.what)
    message_id = sending.prefix + (clock.new_id() if sending.id is None else sending.id)
    reached("message.send")
    try:
        delivered = await store.deliver(Message(sending.run_id, message_id, sending.kind, data))
    except RunEnded:
        if await _known(store, sending):
            return False
        raise
    reached("message.sent")
    if not delivered.fresh:
        await _known(store, sending)  # what is not found any more counts as this one
    return delivered.fresh


async def _known(store: Store, sending: Sending) -> bool:
    """Whether this very message came before. Raises IdReused if its id came with other content."""
    if sending.id is None:
        return False
    found = await _came(store, sending)
    if found is not None and not _alike(sending, found):
        raise _reused(sending)
    return found is not None


def _alike(sending: Sending, found: dict[str, Any]) -> bool:
    names = ("name", "value") if sending.kind == "signal" else ("path", "value")
    return all(found[name] == sending.data[name] or not sending.data[name] for name in names)


async def _came(store: Store, sending: Sending) -> dict[str, Any] | None:
    """What came under this id: it may still lie in the inbox, or be in the run's history."""
    for item in await store.inbox(sending.run_id):
        if item.id == f"{sending.prefix}{sending.id}":
            told: dict[str, Any] = codec.decode(item.data)
            return told
    for event in own_events((await retold(store, sending.run_id)).events):
        match event.body:
            case e.SignalReceived(id=sending.id, name=name, value=value) if sending.kind == "signal":
                return {"name": name, "value": value}
            case e.WaitClosed(path=path, id=sending.id, value=value) if sending.kind == "answer":
                return {"path": path, "value": value}
            case _:
                continue
    return None


def _reused(sending: Sending) -> IdReused:
    before = f"the id {sending.id!r} was used for run {sending.run_id} before"
    return IdReused(f"{before}, for something else than {sending.what}", run_id=sending.run_id, id=sending.id)


def _check_text(text: object, what: str) -> None:
    if not isinstance(text, str) or not 0 < len(text) <= LONGEST or not text.isprintable():
        raise BadArguments(f"{what} is a text of 1 to {LONGEST} printable characters, not {text!r:.80}")
