"""What a fork knows of its origin's acts, and what a person's decision about one of them means for it.

Pure, like every meaning of a message: who makes the call that is decided about is `standins`.
"""

from __future__ import annotations

from typing import Any

from perdure.state import events as e
from perdure.state.record import AskedEffect, RunRecord

REASON = "origin-acted"
"""Why a fork is held that would do again what its origin has done."""


def known(act: e.OriginAct) -> bool:
    """Whether there is a result of it that can be taken."""
    return act.outcome in ("done", "failed") and bool(act.value)


def effect_events(record: RunRecord, data: dict[str, Any], by: str) -> tuple[e.AnyBody, ...]:
    """What a person's decision makes of a run; nothing if it is none that the run waits for any more."""
    one = None if record.fork is None else record.fork.asked.get(str(data["path"]))
    if one is None or one.how or one.digest != data["digest"]:
        return ()
    note = str(data.get("note", ""))
    decided = e.EffectDecided(one.path, data["how"], by, data.get("value", b""), note)
    if record.held is not None and record.held.path == one.path and record.held.reason == REASON:
        return (decided, e.RunReleased(by, "effect", note))
    return (decided,)


def undecided(record: RunRecord) -> list[AskedEffect]:
    """The calls that wait for a decision."""
    return [] if record.fork is None else [one for one in record.fork.asked.values() if not one.how]


def may_reuse(record: RunRecord, one: AskedEffect) -> bool:
    """Whether the origin has left a result that can be taken."""
    return record.fork is not None and one.act >= 0 and known(record.fork.acts[one.act])
