"""What a run did after one of its points: the receipts of calls open there, and every act that came later.

Read from its journal, and from those of its children, by folding; writes nothing (law 14). A run that is
still going on may do more: what is told is so up to its last event.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from perdure import codec
from perdure.errors import NoSuchRun, RunGone
from perdure.journal import resolve, retold
from perdure.runtime.lineage import Begun, child_digest
from perdure.state import events as e
from perdure.state.fold import fold_each, recorded_values
from perdure.state.fork import NOTICE
from perdure.state.record import RunRecord, WaitRecord
from perdure.state.undo import undone_path
from perdure.store.protocol import Store

SHOWN_BYTES = 4096
"""A longer argument of an act is not told: its place among the arguments is."""

STRICTEST: dict[str, int] = {"irreversible": 0, "transactional": 1, "idempotent": 2, "read": 3}
"""Effect classes, what can be repeated least first."""


class Aftermath(Struct, frozen=True):
    """`receipts`: what became of the calls that were open at the point, by path, as it came; one that is not
    there has no receipt. `acts`: what was done after it, irreversible first.
    """

    receipts: dict[str, e.AnyBody]
    acts: tuple[e.OriginAct, ...]


async def aftermath(
    store: Store,
    run_id: str,
    record: RunRecord,
    later: Sequence[e.Event],
    *,
    before: Sequence[e.Event] = (),
) -> Aftermath:
    """What the run did after the point at which `record` was folded; `later` are its events from there on.

    `before`: of a run that was compacted, what is kept of its events up to there counts as well.

    Raises Damaged, NewerFormat, StoreError.
    """
    scan = _Scan(run_id, record)
    for event in before:
        if event.seq <= record.seq:
            scan.read(RunRecord(), event)
    for until_now, event in fold_each(record, later, codec.decode):
        scan.read(until_now, event)
    acts = [*scan.before, *scan.acts.values()]
    children = [await _child(store, run_id, wait, scan.told.get(wait.path)) for wait in scan.children]
    acts += [child for child in children if child is not None]
    return Aftermath(scan.receipts, in_order(acts))


def in_order(acts: Iterable[e.OriginAct]) -> tuple[e.OriginAct, ...]:
    """Irreversible ones first; among equals as they were made, what is undone last."""
    return tuple(sorted(acts, key=lambda act: (act.undone, STRICTEST[act.effect], act.at, act.seq)))


class _Scan:
    """What is read of the events after the point."""

    def __init__(self, run_id: str, record: RunRecord) -> None:
        self.run_id = run_id
        unknown = [call for call in record.calls.values() if call.standing in ("open", "unknown")]
        self.open = {call.path: call.digest for call in unknown}
        self.receipts: dict[str, e.AnyBody] = {}
        self.acts: dict[str, e.OriginAct] = {}
        self.before: list[e.OriginAct] = []
        self.taken: set[str] = {call.path for call in unknown}
        self.stood_in: set[str] = set()
        self.children = [wait for wait in record.waits.values() if wait.kind == "child" and not wait.closed]
        self.told: dict[str, bytes] = {}

    def read(self, before: RunRecord, event: e.Event) -> None:
        """One event, and the run before it."""
        match event.body:
            case e.CallIntended(path=path, head=head):
                self._made(before, event, path, head)
            case e.CallSettled() as body:
                if body.head is not None and body.outcome == "done" and body.head.effect == "transactional":
                    self._made(before, event, body.path, body.head)
                self._came(before, body, body.outcome, body.value)
            case e.CallReconciled() as body:
                self._came(before, body, body.verdict, body.value)
            case e.CallLate(used=True) as body:
                self._came(before, body, body.outcome, body.value)
            case e.FactRead(check=False) as body:
                self._came(before, body, "done", body.value)
            case e.WaitOpened(kind="child") as body:
                wait = WaitRecord(body.path, body.name, body.deadline, event.seq, kind="child")
                self.children.append(replace(wait, detail=body.detail))
            case e.WaitClosed(path=path, how="child", value=value):
                self.told[path] = value
            case e.EffectDecided(path=path, how="reuse" | "simulate"):
                self.stood_in.add(path)
            case e.RunForked() as body:
                self._forked(body)
            case e.StepCommitted() | e.RunFinished():
                self.open.clear()
            case _:
                pass

    def _forked(self, body: e.RunForked) -> None:
        """The run is a fork itself, and the point lies before it was: so far it was its origin that acted."""
        self.before += [replace(act, run=body.run) for act in self.acts.values()]
        self.before += body.acts
        self.acts, self.stood_in = {}, set()

    def _made(self, before: RunRecord, event: e.Event, path: str, head: e.CallHead) -> None:
        if head.effect == "read" or NOTICE in path or path in self.taken or path in self.stood_in:
            return
        if undone := undone_path(path):
            if undone in self.acts:
                self.acts[undone] = replace(self.acts[undone], undone=True)
            return
        if path in self.acts:  # another try
            return
        args = tuple((name, _shown(before, value)) for name, value in head.args)
        self.acts[path] = e.OriginAct(
            path, head.name, head.effect, head.digest, "unknown", b"", args, self.run_id, event.seq, event.at
        )

    def _came(self, before: RunRecord, body: Any, outcome: str, value: bytes) -> None:
        """What is known of a call now; of one that was open at the point its last word is its receipt."""
        path = body.path
        if path in self.acts:
            came = "unknown" if outcome == "left-unknown" else outcome
            self.acts[path] = replace(self.acts[path], outcome=came, value=value)
            return
        call = before.calls.get(path)
        if path in self.open and call is not None and call.digest == self.open[path] and _last_word(body):
            del self.open[path]
            self.receipts[path] = _receipt(body)


def _last_word(body: Any) -> bool:
    """Whether nothing more can come of a call after this."""
    if isinstance(body, e.CallReconciled):
        return body.verdict != "not_done"
    return not isinstance(body, e.CallSettled) or body.final or body.outcome == "done"


def _receipt(body: Any) -> e.AnyBody:
    """The same receipt for a fork, in which it is the first and only one."""
    if isinstance(body, e.CallLate):
        return e.CallSettled(body.path, body.outcome, body.value, attempt=body.attempt, usage=body.usage)
    if isinstance(body, e.CallSettled):
        return replace(body, head=None, key="")
    kept: e.AnyBody = body
    return kept


def _shown(before: RunRecord, value: e.Argument) -> bytes:
    """An argument's value bytes; empty if it is too long to be told, or was not kept."""
    if isinstance(value, bytes):
        return value if len(value) <= SHOWN_BYTES else b""
    if isinstance(value, e.Omitted):
        return b""
    data = codec.encode(resolve(before.state, value, recorded_values(before)))
    return data if len(data) <= SHOWN_BYTES else b""


async def _child(store: Store, run_id: str, wait: WaitRecord, told: bytes | None) -> e.OriginAct | None:
    """A child that the run spawned, as one act of its strictest class; None if it has not acted."""
    begun = Begun.of(wait).started
    effect, count, at = "irreversible", 0, 0
    try:
        past = await retold(store, wait.name)
    except RunGone:
        pass  # its past is gone: it may have done anything
    except NoSuchRun:
        return None  # a crash kept it from being created
    else:
        inner = (await aftermath(store, wait.name, past.base, past.later, before=past.events)).acts
        if not inner:
            return None
        effect = min((act.effect for act in inner), key=STRICTEST.__getitem__)
        count, at = sum(act.acts or 1 for act in inner), past.events[0].at
    return e.OriginAct(
        wait.path,
        begun.agent,
        effect,  # type: ignore[arg-type]
        child_digest(begun.agent, begun.goal),
        "unknown" if told is None else "done",
        told or b"",
        (("goal", begun.goal if len(begun.goal) <= SHOWN_BYTES else b""),),
        run_id,
        wait.seq,
        at,
        wait.name,
        count,
    )
