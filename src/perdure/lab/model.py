"""The storage models on paper: small enough to be read in five minutes, and to be changed.

An agent takes steps; each adds one message to what it knows. So that a crash loses nothing, something has to
be written after every step. There are three ways:

    snapshot    write the whole state, every time. To resume: read the last one.
    log         write only what was added. To resume: read everything and apply it again ("replay").
    hybrid      the log, and a snapshot at every k-th event. To resume: the last snapshot and what follows.

Size is the length of the JSON. Nothing else is counted: no pages, no indexes, no compression, no digests.
Everything here is pure arithmetic; the same runs on real stores are in `experiment`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache


def message(size: int) -> str:
    """A message of so many bytes."""
    return "x" * size


def state(step: int, size: int) -> object:
    """What the agent knows after so many steps."""
    return {"n": step, "messages": [message(size)] * step}


def event(step: int, size: int) -> object:
    """What one step adds."""
    return {"n": step, "add": message(size)}


@cache
def state_bytes(step: int, size: int) -> int:
    """What a snapshot after so many steps takes."""
    return len(json.dumps(state(step, size)))


@cache
def event_bytes(step: int, size: int) -> int:
    """What one event takes."""
    return len(json.dumps(event(step, size)))


@dataclass(frozen=True)
class Cost:
    """Bytes written over the run; events replayed on average, and at most, when it is resumed."""

    written: int
    replayed: float
    most: int


def snapshot(steps: int, size: int = 300) -> Cost:
    """The whole state after each step. Grows with the square of the steps; nothing is replayed."""
    return Cost(sum(state_bytes(step, size) for step in _each(steps)), 0.0, 0)


def log(steps: int, size: int = 300) -> Cost:
    """One event after each step. Grows with the steps; everything is replayed."""
    return _cost(sum(event_bytes(step, size) for step in _each(steps)), list(_each(steps)))


def hybrid(steps: int, every: int, size: int = 300) -> Cost:
    """One event after each step, and the whole state after every k-th."""
    kept = sum(state_bytes(step, size) for step in _each(steps) if step % every == 0)
    return _cost(log(steps, size).written + kept, [step % every for step in _each(steps)])


def _each(steps: int) -> range:
    return range(1, steps + 1)


def _cost(written: int, replayed: list[int]) -> Cost:
    """A crash after each of the steps is as likely: `replayed` has what it would replay."""
    return Cost(written, sum(replayed) / len(replayed), max(replayed))
