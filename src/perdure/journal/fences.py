"""What must still hold when a write is made, and which refusals leave the rest of a run as it was.

It knows no journal. Kept here: an intent that rested on what is no longer so is not written (laws 8 and 17).
"""

from __future__ import annotations

from msgspec import Struct

from perdure.errors import DiskFull, Expired, InboxMoved


class Fences(Struct, frozen=True):
    """What must still hold when a fenced append is written: see `perdure.store.protocol.Batch`."""

    inbox_seen: int | None = None
    not_after: int | None = None


def leaves_whole(error: BaseException) -> bool:
    """The write was refused alone: a fence no longer held, or there was no room for an intent."""
    return isinstance(error, InboxMoved | Expired | DiskFull)
