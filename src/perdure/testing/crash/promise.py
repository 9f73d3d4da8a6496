"""What was acknowledged, held against what lies on disk: laws 1, 6, 9 and 17 as a caller sees them."""

from __future__ import annotations

from collections.abc import Iterator

from perdure.state import events as e
from perdure.testing.crash.look import Look
from perdure.testing.crash.witness import Acknowledged


def broken_promises(told: Acknowledged, run_id: str, seen: Look | None) -> Iterator[str]:
    """Everything that a run's callers were told and that is not so. `seen`: the run on disk, if it is
    there.
    """
    yield from _events(told, run_id, {} if seen is None else seen.digests)
    yield from _messages(told, run_id, seen)
    yield from _intents(told, run_id, () if seen is None else seen.events)
    status = told.told.get(run_id, "")
    if status not in ("", "waiting", "held") and (seen is None or seen.record.ended != status):
        yield f"the caller was told {status}, and the run is not"


def _events(told: Acknowledged, run_id: str, digests: dict[int, str]) -> Iterator[str]:
    for (owner, seq), digest in told.events.items():
        if owner == run_id and digests.get(seq) != digest:
            yield f"event {seq} was acknowledged and is {'another now' if seq in digests else 'gone'}"


def _messages(told: Acknowledged, run_id: str, seen: Look | None) -> Iterator[str]:
    inbox = 0 if seen is None else seen.row.inbox
    accepted = {position: message for (owner, position), message in told.messages.items() if owner == run_id}
    for position, message in accepted.items():
        if position > inbox:
            yield f"message {message} was accepted and is gone"
    if seen is not None:
        taken = inbox - seen.row.pending
        traces = sum(_by_message(event.body) for event in seen.events)
        traces += sum(message.startswith("migrate ") for message in accepted.values())  # it means nothing
        if traces < taken:
            yield f"{taken} messages were taken, and the journal shows what {traces} of them meant"


def _by_message(body: e.AnyBody) -> bool:
    match body:
        case e.CallReconciled(by=by):
            return by.startswith("person:")
        case e.RunReleased(how=how):
            return how != "resolve"  # that one comes with its verdict
        case (
            e.CancelRequested() | e.CallLate() | e.SignalReceived() | e.ApprovalGranted() | e.ApprovalDenied()
        ):
            return True
        case e.WaitClosed(how=how):
            return how in ("answer", "child")  # a signal was received before
        case _:
            return False


def _intents(told: Acknowledged, run_id: str, events: tuple[e.Event, ...]) -> Iterator[str]:
    for event in events:
        accepted = told.before.get((run_id, event.seq), 0)
        if isinstance(event.body, e.CallIntended) and event.body.inbox < accepted:
            yield f"call {event.body.path} was intended after a cancel had been accepted"
