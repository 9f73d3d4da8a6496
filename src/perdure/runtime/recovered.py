"""The run's record of its interruption, as the step is told of it. Pure: a replay is told the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from perdure import codec
from perdure.agent.recovery import ChangedFact, DoneCall, Gap, Recovery
from perdure.state.record import DoneRecord, Interruption


def recovery_of(known: Interruption) -> Recovery:
    """What happened around the pauses before the open step."""
    calls = [_done(call) for call in known.done]
    return Recovery(
        tuple(Gap(_at(one.since), _at(one.until), one.open_calls, one.differences) for one in known.pauses),
        tuple(call for call in calls if call.outcome != "left-unknown"),
        tuple(call for call in calls if call.outcome == "left-unknown"),
        tuple(
            ChangedFact(one.fact, _plain(one.args) or {}, _plain(one.was), _plain(one.now), _at(one.at))
            for one in known.changed
        ),
        known.left_out,
    )


def _done(call: DoneRecord) -> DoneCall:
    args = {name: _plain(value) for name, value in call.args}
    return DoneCall(call.path, call.name, args, call.standing, _plain(call.value), call.lost)


def _plain(value: bytes) -> Any:
    return codec.decode(value) if value else None


def _at(moment: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=moment)
