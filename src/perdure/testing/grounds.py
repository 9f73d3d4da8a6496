"""What the acts of a run rest on, judged by its journal alone: no act follows a premise that had changed.

Every act of a tool that declares premises names the events in which they were read: under the claim under
which it acts, none of them found changed since, and none of them older than a change that was found for this
very call. Knows no engine, no clock and no values: whether two values are the same is a matter of the fact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from perdure import codec
from perdure.state import events as e


def unfounded(events: Sequence[e.Event]) -> Iterator[str]:
    """What is wrong with the grounds of each act, in words."""
    reads: dict[int, e.Event] = {}
    newest_change: dict[tuple[str, bytes], int] = {}
    told: dict[str, int] = {}
    resting: dict[str, int] = {}
    stood_in: set[str] = set()
    for event in events:
        match event.body:
            case e.RunStarted(manifest=manifest) | e.RunResumed(manifest=manifest) if manifest:
                resting = _resting(codec.decode(manifest))
            case e.FactRead(head=head, changed=changed):
                reads[event.seq] = event
                if changed:
                    newest_change[head.name, head.digest] = event.seq
            case e.FactChanged(path=path):
                told[path] = event.seq
            case e.CallIntended(path=path, head=head, premises=premises):
                act = f"event {event.seq}: {head.name} at {path}"
                yield from _judged(act, event, premises, reads, newest_change, told.get(path, 0))
                yield from _counted(act, len(premises), resting.get(head.name, 0))
            case e.EffectDecided(path=path, how="reuse" | "simulate"):
                stood_in.add(path)
            case e.CallSettled(path=path, outcome="done", premises=premises) as settled:
                if path in stood_in:
                    continue
                act = f"event {event.seq}: the call at {path}"
                yield from _judged(act, event, premises, reads, newest_change, told.get(path, 0))
                if settled.head is not None and settled.head.effect == "transactional":
                    yield from _counted(act, len(premises), resting.get(settled.head.name, 0))
            case e.StepRestarted(keep=keep):
                told = {path: seq for path, seq in told.items() if seq <= keep}
            case _:
                pass


def _resting(manifest: dict[str, Any]) -> dict[str, int]:
    """How many premises each tool of the run declares."""
    tools: dict[str, dict[str, Any]] = manifest.get("tools", {})
    return {name: len(entry["premises"]) for name, entry in tools.items() if entry.get("premises")}


def _counted(act: str, found: int, due: int) -> Iterator[str]:
    if found != due:
        yield f"{act} rests on {found} facts and declares {due}"


def _judged(
    act: str,
    event: e.Event,
    premises: Sequence[int],
    reads: dict[int, e.Event],
    newest_change: dict[tuple[str, bytes], int],
    told: int,
) -> Iterator[str]:
    for seq in premises:
        read = reads.get(seq)
        if read is None or not isinstance(read.body, e.FactRead):
            yield f"{act} rests on event {seq}, which read no fact"
            continue
        name, digest = read.body.head.name, read.body.head.digest
        if read.epoch != event.epoch:
            yield f"{act} rests on {name} as it was read before the last pause (event {seq})"
        if newest_change.get((name, digest), 0) > seq:
            yield f"{act} rests on {name} as it was before it changed (event {seq})"
        if seq < told:
            yield f"{act} rests on {name} of event {seq}, and was told of a change at event {told}"
