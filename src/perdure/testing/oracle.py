"""What must hold between a run's journal and what the outside saw of it.

`offences` holds a run's events against the acts that the outside recorded, and says in words what should
not be: laws 2, 3, 4, 8, 10, 15 and 17, the life of each call, and what acts rest on. It judges what is
written and never asks the engine, so that a broken engine cannot excuse itself. It reads no store, no clock
and no file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure import codec
from perdure.agent import Call
from perdure.state import events as e
from perdure.state.record import RunRecord
from perdure.testing.account import Account
from perdure.testing.grounds import unfounded
from perdure.testing.permits import Permits
from perdure.testing.undone import Undone


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that a tool's body did outside. `number` is its place in the outside's own order.

    `args` is a digest of the arguments, `reply` the value bytes of what was answered, whether or not the
    answer arrived; both in hex.
    """

    number: int
    run_id: str
    path: str
    key: str
    attempt: int
    effect: str
    tool: str
    args: str
    reply: str

    @classmethod
    def of(cls, number: int, call: Call, reply: object) -> Act:
        """What the body of this call does, and answers."""
        args, told = codec.digest(codec.encode(dict(call.args))).hex(), codec.encode(reply).hex()
        about = (call.run_id, call.path, call.key, call.attempt, call.effect, call.tool)
        return cls(number, *about, args, told)


@dataclass(slots=True)
class _Life:
    """What the journal has said of one call so far. `first`: the first event that speaks of it."""

    standing: str = "new"
    effect: str = ""
    key: str = ""
    digest: bytes = b""
    attempt: int = 0
    epoch: int = 0
    first: int = 0


@dataclass(slots=True)
class _Book:
    """A journal being read, beside the acts."""

    acts: Mapping[tuple[str, int], list[Act]]
    lives: dict[str, _Life] = field(default_factory=lambda: defaultdict(_Life))
    account: Account = field(default_factory=Account)
    waits: dict[str, int] = field(default_factory=dict)
    closed: dict[str, int] = field(default_factory=dict)  # path -> the signal that the wait took
    signals: dict[int, str] = field(default_factory=dict)  # event -> the sender's id
    taken: set[int] = field(default_factory=set)  # by waits of committed steps
    permits: Permits = field(default_factory=Permits)
    cancelled: bool = False
    ended: bool = False
    given: set[str] = field(default_factory=set)  # what a fork was given: nothing was sent for it in the fork
    inherited: set[str] = field(default_factory=set)  # the keys of a fork's origin
    keys: set[str] = field(default_factory=set)


def offences(events: Sequence[e.Event], acts: Iterable[Act], undoable: Iterable[str] = ()) -> list[str]:
    """Everything that should not be, of one run.

    `acts`: what the outside recorded of it, reads included, and of a fork also what was done for its origin.
    `undoable`: the tools that have an undo hook.
    """
    by_attempt: dict[tuple[str, int], list[Act]] = defaultdict(list)
    acting = [act for act in acts if act.effect != "read"]
    for act in acting:
        by_attempt[act.key, act.attempt].append(act)
    book, undone = _Book(by_attempt), Undone(frozenset(undoable))
    found: list[str] = []
    for before, event in zip([None, *events], events, strict=False):
        found += [f"event {event.seq}: {what}" for what in _order(before, event)]
        found += [f"event {event.seq} ({event.kind}): {what}" for what in _event(book, event)]
        found += [f"event {event.seq} ({event.kind}): {what}" for what in book.permits.see(event)]
        found += [f"event {event.seq} ({event.kind}): {what}" for what in undone.see(event)]
    found += _unintended(events, acting)
    found += unfounded(events)
    found += [
        f"{len(same)} acts of {same[0].tool} under key {key}, attempt {attempt}"
        for (key, attempt), same in by_attempt.items()
        if len(same) > 1
    ]
    return found


def concerning(run_id: str, events: Iterable[e.Event], acts: Iterable[Act]) -> list[Act]:
    """The acts of a run, and of a fork also those of its origin that it has inherited."""
    intents = {
        (event.body.key, event.body.attempt) for event in events if isinstance(event.body, e.CallIntended)
    }
    return [act for act in acts if act.run_id == run_id or (act.key, act.attempt) in intents]


def _order(before: e.Event | None, event: e.Event) -> Iterator[str]:
    if event.seq != (before.seq if before else 0) + 1:
        yield "the numbers have a gap"
    if before is not None and event.epoch < before.epoch:
        yield f"epoch {event.epoch} writes after epoch {before.epoch}"


def _event(book: _Book, event: e.Event) -> Iterator[str]:
    body = event.body
    yield from book.account.read(event)
    if book.ended:
        yield "something follows the end"
    match body:
        case e.CallIntended():
            yield from _intended(book, event, body)
        case e.CallSettled():
            yield from _settled(book, event, body)
        case e.FactRead(check=False):
            receipt = e.CallSettled(body.path, "done", body.value, body.head, attempt=body.attempt)
            yield from _settled(book, event, receipt)
        case e.CallUnknown():
            yield from _must_be(book, body.path, "open", "unknown")
            book.lives[body.path].standing = "unknown"
        case e.CallReconciled():
            yield from _reconciled(book, body)
        case e.CallLate(used=True):
            yield from _must_be(book, body.path, "open", "unknown", "not_done")
            book.lives[body.path].standing = body.outcome
        case e.RunForked() | e.EffectAsked() | e.EffectDecided():
            _forked(book, body)
        case e.WaitOpened() | e.WaitClosed() | e.SignalReceived() | e.AnswerRefused():
            yield from _waiting(book, event, body)
        case e.CancelRequested():
            book.cancelled = True
        case e.StepCommitted() | e.RunFinished():
            yield from _all_settled(book)
            book.lives.clear()
            book.taken |= {took for took in book.closed.values() if took}
            book.waits, book.closed = {}, {}
            book.ended = isinstance(body, e.RunFinished)
        case e.StepRestarted():
            for path in [path for path, life in book.lives.items() if life.first > body.keep]:
                del book.lives[path]
            book.waits = {path: seq for path, seq in book.waits.items() if seq <= body.keep}
            dropped = {path for path in book.closed if path not in book.waits}
            book.closed = {path: took for path, took in book.closed.items() if path not in dropped}
        case _:
            return


def _forked(book: _Book, body: e.RunForked | e.EffectAsked | e.EffectDecided) -> None:
    """Law 13 from the fork's side: what was open is not its own, what it is given was not sent by it."""
    if isinstance(body, e.EffectAsked):  # what was decided before, if anything was, is open again
        book.given.discard(body.path)
        return
    if isinstance(body, e.EffectDecided):
        book.given |= set() if body.how == "act" else {body.path}
        return
    settled = {
        path for path, life in book.lives.items() if life.standing in ("done", "failed", "left-unknown")
    }
    for path in [path for path in book.lives if path not in settled and path not in body.given]:
        del book.lives[path]
    for path in body.given:
        if path in book.lives:
            book.lives[path].standing = "open"
        book.closed.pop(path, None)
    book.waits = {path: seq for path, seq in book.waits.items() if path in {*book.closed, *body.given}}
    book.given |= set(body.given)
    book.inherited |= book.keys
    book.cancelled = False


def _waiting(
    book: _Book, event: e.Event, body: e.WaitOpened | e.WaitClosed | e.SignalReceived | e.AnswerRefused
) -> Iterator[str]:
    match body:
        case e.WaitOpened():
            if body.path in book.waits:
                yield f"wait {body.path} is opened a second time"
            book.waits[body.path] = event.seq
        case e.WaitClosed():
            yield from _closed(book, body)
        case e.AnswerRefused():
            if book.closed.pop(body.path, None) is None:
                yield f"an answer to {body.path} is refused, and there was none"
        case e.SignalReceived():
            if body.id in book.signals.values():
                yield f"signal {body.id} is received a second time"
            book.signals[event.seq] = body.id


def _closed(book: _Book, body: e.WaitClosed) -> Iterator[str]:
    """Law 10: a wait ends once, and takes a signal that is there and that nobody else took."""
    if body.path not in book.waits or body.path in book.closed:
        yield f"wait {body.path} is closed and was not open"
    if body.signal and (
        body.signal not in book.signals or body.signal in {*book.taken, *book.closed.values()}
    ):
        yield f"wait {body.path} takes signal {body.signal}, which is not there or was taken"
    book.closed[body.path] = body.signal


def _intended(book: _Book, event: e.Event, body: e.CallIntended) -> Iterator[str]:
    life = book.lives[body.path]
    call = f"call {body.path} ({body.head.name})"
    if book.cancelled and body.head.effect != "read" and not body.path.startswith("undo:"):
        yield f"{call} is intended after a cancel"
    if body.path in book.given:
        yield f"{call} is made although a result stands in for it"
    if body.key in book.inherited:
        yield f"{call} is sent under a key of the run that it was forked from"
    book.keys.add(body.key)
    if body.attempt != life.attempt + 1:
        yield f"{call}: attempt {body.attempt} follows attempt {life.attempt}"
    if life.standing in ("done", "failed", "left-unknown"):
        yield f"{call} is made again after it was settled"
    elif life.standing in ("open", "unknown") and body.head.effect == "irreversible":
        yield f"{call} is irreversible and is made again without a verdict"
    elif life.standing == "open":
        yield f"{call} is made again and was never said to be unknown"
    if life.standing in ("open", "unknown", "not_done") and (body.key, body.head.digest) != (
        life.key,
        life.digest,
    ):
        yield f"{call} is sent again with another key or other arguments"
    book.lives[body.path] = _Life(
        "open",
        body.head.effect,
        body.key,
        body.head.digest,
        body.attempt,
        event.epoch,
        life.first or event.seq,
    )


def _settled(book: _Book, event: e.Event, body: e.CallSettled) -> Iterator[str]:
    life = book.lives[body.path]
    effect = body.head.effect if body.head is not None else life.effect
    if life.standing in ("done", "failed", "left-unknown"):
        yield f"call {body.path} is settled a second time"
    if body.head is None:
        yield from _must_be(book, body.path, "open")
        if body.path not in book.given and life.standing == "open" and life.epoch != event.epoch:
            yield f"call {body.path} has a receipt of epoch {event.epoch} for an intent of {life.epoch}"
    sent = body.path not in book.given
    if sent and effect in ("idempotent", "irreversible") and body.outcome == "done":
        yield from _receipt(book, life, body.path, body.value)
    life.standing = body.outcome if body.final or body.outcome == "done" else _again(body.outcome)
    life.attempt = body.attempt
    if body.head is not None:  # without an intent: a restart goes by what was recorded last
        life.first = event.seq
    if body.final and body.outcome == "not_done":
        life.standing = "failed"


def _again(outcome: str) -> str:
    return "not_done" if outcome == "not_done" else "retrying"


def _receipt(book: _Book, life: _Life, path: str, value: bytes) -> Iterator[str]:
    done = book.acts.get((life.key, life.attempt), [])
    if not done:
        yield f"call {path} has a receipt and was never made"
    elif value.hex() not in {act.reply for act in done}:
        yield f"call {path} has a receipt that is not what the outside answered"


def _reconciled(book: _Book, body: e.CallReconciled) -> Iterator[str]:
    if body.path in book.given:
        book.lives[body.path].standing = body.verdict
        return
    also: tuple[str, ...] = ("open",) if body.by.startswith(("person:", "late")) else ()
    if also and body.path.startswith("undo:"):  # a person may settle one that did not work
        also = ("open", "retrying", "not_done")
    yield from _must_be(book, body.path, *also, "unknown")
    life = book.lives[body.path]
    first = 1 if life.effect == "idempotent" else life.attempt  # whichever was sent under the one key
    happened = [act for n in range(first, life.attempt + 1) for act in book.acts.get((life.key, n), [])]
    if body.verdict == "not_done" and happened:
        yield f"call {body.path} is said not to have happened, and it did"
    if body.verdict == "done" and not any(act.reply == body.value.hex() for act in happened):
        yield f"call {body.path} is said to have happened, and it did not, or not so"
    life.standing = body.verdict


def _must_be(book: _Book, path: str, *standings: str) -> Iterator[str]:
    if (now := book.lives[path].standing) not in standings:
        yield f"call {path} is {now} at this point"


def _all_settled(book: _Book) -> Iterator[str]:
    for path, life in book.lives.items():
        if life.standing in ("open", "unknown") and life.effect != "read":
            yield f"call {path} is still {life.standing}"


def _unintended(events: Sequence[e.Event], acting: Iterable[Act]) -> Iterator[str]:
    """Acts whose intent is not in the journal: law 1, as far as the outside can see it."""
    intents = {
        (event.body.path, event.body.key, event.body.attempt)
        for event in events
        if isinstance(event.body, e.CallIntended)
    }
    for act in acting:
        if act.effect != "transactional" and (act.path, act.key, act.attempt) not in intents:
            yield f"{act.tool} at {act.path}, attempt {act.attempt}, was made without an intent"


def made_again(settled: Iterable[str], later: Iterable[Act]) -> list[str]:
    """Law 4, reads included: acts made after the outcome of their call was recorded. `settled`: paths."""
    known = set(settled)
    return [
        f"{act.tool} at {act.path} was made again after its outcome had been recorded"
        for act in later
        if act.path in known
    ]


def settled_paths(events: Iterable[e.Event]) -> set[str]:
    """The calls that these events have settled for good."""
    since: dict[str, int] = {}
    for event in events:
        match event.body:
            case e.CallSettled(path=path, final=final, outcome=outcome) if final or outcome == "done":
                since[path] = event.seq
            case e.FactRead(path=path, check=False):
                since[path] = event.seq
            case e.CallReconciled(path=path, verdict=verdict) if verdict != "not_done":
                since[path] = event.seq
            case e.CallLate(path=path, used=True):
                since[path] = event.seq
            case e.StepRestarted(keep=keep):
                since = {path: seq for path, seq in since.items() if seq <= keep}
            case _:
                pass
    return set(since)


@dataclass(frozen=True, slots=True)
class Ending:
    """What must be the same whether a run was killed or not: value bytes in hex. Times and epochs may
    differ.
    """

    status: str
    step: int
    state: str
    value: str

    @classmethod
    def of(cls, record: RunRecord) -> Ending:
        """A run's ending, or where it stands."""
        status = record.ended or ("held" if record.held is not None else "open")
        return cls(status, record.step, codec.encode(record.state).hex(), record.value.hex())

    def told(self) -> dict[str, Any]:
        """The same, for people."""
        state = codec.decode(bytes.fromhex(self.state))
        value = codec.decode(bytes.fromhex(self.value)) if self.value else None
        return {"status": self.status, "step": self.step, "state": state, "value": value}
