"""What a run remembers of facts: the newest value of each, across steps, within a bound.

Pure. Beyond the bound the facts that were read longest ago are forgotten here, and only here: the journal has
their events still, and whoever misses one looks there.
"""

from __future__ import annotations

from typing import Final

from perdure.state.events import Event, FactRead
from perdure.state.record import FactRecord, Facts

FACTS: Final = 1024
"""So many facts are kept at most …"""

FACT_BYTES: Final = 1 << 18
"""… and so many bytes of their values …"""

NEWEST: Final = 16
"""… but so many in any case, however long: what one call rests on must not push each other out."""


def fact_key(name: str, digest: bytes) -> str:
    """By what a fact with its arguments is found; the digest is that of its call, over name and arguments."""
    return f"{name}:{digest.hex()}"


def remember(facts: Facts, event: Event, body: FactRead) -> Facts:
    """The facts after one was read. What it was before its last change is kept with it."""
    key = fact_key(body.head.name, body.head.digest)
    kept, size = dict(facts.kept), facts.size
    before = kept.pop(key, None)
    was, changed, told = b"", 0, ""
    if before is not None:
        size -= _size(before)
        was, changed, told = before.was, before.changed, before.told
    if body.changed:
        was = b"" if before is None else before.value
        changed, told = event.seq, body.path.partition("?")[0]
    newest = kept[key] = FactRecord(
        body.head.name,
        body.head.digest,
        body.value,
        body.as_of,
        event.epoch,
        event.seq,
        was,
        changed,
        told,
    )
    size += _size(newest)
    forgotten = facts.forgotten
    while len(kept) > FACTS or (size > FACT_BYTES and len(kept) > NEWEST):
        size -= _size(kept.pop(next(iter(kept))))
        forgotten += 1
    return Facts(kept, size, forgotten)


def _size(fact: FactRecord) -> int:
    return len(fact.value) + len(fact.was)
