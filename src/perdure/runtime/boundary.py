"""Named boundaries: the places where a crash is worth aiming at.

In production `reached` does nothing but one comparison. `perdure.testing` sets a hook that kills the process
there.
"""

from __future__ import annotations

from collections.abc import Callable

BOUNDARIES: dict[str, str] = {
    "run.create": "the run is about to be made durable",
    "run.created": "the run is durable, its caller does not know yet",
    "run.claimed": "the lease is taken, nothing was loaded",
    "run.loaded": "the run is loaded and folded, nothing was written",
    "run.resumed": "run.resumed is queued",
    "migrate.nudge": "a parked run is about to be sent a message, so that it can be claimed",
    "migrate.claimed": "a parked run is claimed only to be brought to today's version",
    "migrate.done": "it is durable at today's version, and its lease is given back",
    "migrate.write": "the state is brought to today's version, nothing of it is queued",
    "migrate.queued": "run.migrated is queued, with the new code's manifest",
    "message.send": "a signal or an answer is about to be made durable",
    "message.sent": "it is durable, its sender does not know yet",
    "inbox.apply": "a message is about to become events",
    "authorize.ask": "the agent is about to be asked whether the principal may make a call",
    "authorize.answered": "it has answered, nothing of it is written",
    "premise.read": "a fact that a call rests on is about to be read",
    "premise.found": "the fact is read, nothing of it is queued",
    "premise.same": "what the call rests on is queued, it is the same",
    "premise.changed": "the change and the failure of the call are queued",
    "intent.queue": "a read under a budget may be made, its intent is not queued",
    "intent.queued": "the intent of a read is queued with its reservation, nothing was sent",
    "intent.write": "the guard has passed, the intent is not durable",
    "intent.durable": "the intent is durable, nothing was sent",
    "call.act": "the body is about to run",
    "call.acted": "the body has returned, the receipt is not queued",
    "receipt.queued": "the receipt is queued, it is not durable",
    "receipt.served": "the step is about to get the result",
    "call.unknown": "the outcome is unknown, this is queued",
    "doubt.raise": "an act may have been made by another incarnation, this is not queued",
    "doubt.raised": "it is queued, and is looked up next",
    "reconcile.ask": "the hook is about to be asked",
    "reconcile.answered": "the hook has answered, the verdict is not queued",
    "reconcile.queued": "the verdict is queued",
    "transact.enter": "a transactional call is about to enter the store's transaction",
    "transact.inside": "a transactional body has run inside the open transaction",
    "transact.committed": "the transaction is durable",
    "approval.request": "a request for a permission is about to be queued",
    "approval.requested": "the request is queued",
    "approval.tell": "the intent to tell people is durable, nobody was told",
    "approval.told": "people were told, this is queued",
    "approval.voided": "it is queued that a request is void",
    "approval.refused": "it is queued that a call was denied",
    "approval.expire": "a request's time is over, this is not written",
    "approval.expired": "it is durable that nobody decided in time",
    "wait.opened": "a wait is queued",
    "child.create": "the wait for a child is durable, the child is about to be made so",
    "child.created": "the child is durable, its parent goes on",
    "child.cancel": "a cancelled run is about to ask a child to end",
    "undo.plan": "a cancelled run has found what it owes, this is not queued",
    "undo.planned": "what is to be undone is queued, nothing is undone",
    "undo.done": "an act is undone, or a person has settled that, the next one is not begun",
    "wait.closed": "the end of a wait is queued",
    "effect.asked": "a call of a fork is matched with one of its origin's, this is queued",
    "effect.decided": "it is queued that the origin's result stands in for a call",
    "effect.settled": "a result that stands in for a call is queued, nothing was sent",
    "fork.create": "a fork is about to be made durable, with all that it inherits",
    "fork.created": "the fork is durable, its maker does not know yet",
    "step.commit": "the step function has returned, its patch is not queued",
    "step.queued": "the patch is queued",
    "step.committed": "the step is committed and folded",
    "snapshot.queued": "a snapshot is queued",
    "run.suspend": "the step has unwound, the suspension is not durable",
    "run.suspended": "the suspension is durable and the lease given back",
    "run.hold": "a hold is about to be made durable",
    "run.finish": "the end is about to be made durable",
    "run.finished": "the end is durable, its caller does not know yet",
    "compact.write": "a run's early past is folded and abridged, nothing of it is taken away",
    "compact.done": "it is taken away, its caller does not know yet",
    "prune.write": "what a run leaves behind is gathered, the run is there",
    "prune.done": "the run is removed, its caller does not know yet",
    "import.write": "an exported run is checked, nothing of it is written",
    "import.done": "the run is written, its messages are not sent on",
    "import.sent": "a message that the run had not taken is sent on",
}
"""Every boundary and what holds there."""

_hook: Callable[[str], None] | None = None


def reached(name: str) -> None:
    """Tell the hook, if there is one, that the engine is at this boundary."""
    if _hook is not None:
        _hook(name)


def set_hook(hook: Callable[[str], None] | None) -> None:
    """Call `hook` with each boundary's name from now on; None ends it. For tests."""
    global _hook
    _hook = hook
