"""A folded run as bytes, and when it is worth writing down."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from perdure import codec
from perdure.errors import Damaged
from perdure.state.record import RunRecord
from perdure.store.protocol import (
    Snapshot,
)


class _SnapshotBody(Struct, frozen=True, array_like=True):
    record: RunRecord  # with state None
    state: bytes


class SnapshotPolicy:
    """When a snapshot is due: after `every` steps, or when loading the run would take `seconds`.

    The bound by time also waits until the tail has half the bytes of the last snapshot, so that all snapshots
    together cost no more than twice the log: bytes stay linear in the length of the run.
    """

    def __init__(self, every: int | None, seconds: float | None) -> None:
        self.every = every
        self.seconds = seconds

    def due(self, steps: int, events: int, tail_bytes: int, snapshot_bytes: int) -> bool:
        """Whether what came since a snapshot of `snapshot_bytes` asks for another one."""
        if self.every is not None:
            return steps >= self.every
        if self.seconds is None:
            return False
        return (
            LOAD_COSTS.of(events, tail_bytes, snapshot_bytes) >= self.seconds
            and 2 * tail_bytes >= snapshot_bytes
        )


READ_SECONDS = 4e-4
"""What any load costs, however short the run; like what follows, measured by `python -m bench resuming`."""

READ_SECONDS_PER_BYTE = 1.2e-8
"""What a byte of events costs to fetch, verify and decode."""


class LoadCosts:
    """What loading costs in this process: begins with measured figures and learns from real loads.

    A slow moving mean, of large loads alone: small ones tell more of the moment than of the cost.
    """

    def __init__(self) -> None:
        self.seconds_per_event = 9e-6
        self.seconds_per_snapshot_byte = 1e-8

    def of(self, events: int, size: int, snapshot_bytes: int) -> float:
        """Seconds to load a snapshot and so many events after it, of `size` bytes."""
        tail = READ_SECONDS + events * self.seconds_per_event + size * READ_SECONDS_PER_BYTE
        return snapshot_bytes * self.seconds_per_snapshot_byte + tail

    def learn_events(self, events: int, size: int, seconds: float) -> None:
        """So many events of so many bytes in all were verified and folded in so many seconds."""
        if events >= 500:
            each = max(seconds - size * READ_SECONDS_PER_BYTE, 0.0) / events
            self.seconds_per_event += 0.25 * (each - self.seconds_per_event)

    def learn_snapshot(self, size: int, seconds: float) -> None:
        """A snapshot of so many bytes was unpacked in so many seconds."""
        if size >= 1 << 16:
            self.seconds_per_snapshot_byte += 0.25 * (seconds / size - self.seconds_per_snapshot_byte)


LOAD_COSTS = LoadCosts()
"""This process's."""


KEPT = SnapshotPolicy(None, 0.015)
"""Which snapshots stay when newer ones come, so that the past is read as fast as the present: one after so
much more of the log. They too cost no more than twice the log, all together.
"""

EVENT_BYTES = 250
"""What an event has, where it is not known."""


def pack_snapshot(record: RunRecord, digest: bytes) -> Snapshot:
    """A folded run as bytes, with a digest of its own in front: 16 bytes, then the frame."""
    body = _SnapshotBody(msgspec.structs.replace(record, state=None), codec.encode(record.state))
    frame = codec.pack(body)
    return Snapshot(record.seq, codec.digest(digest, frame) + frame, digest)


def unpack_snapshot(snapshot: Snapshot) -> RunRecord:
    """The run that a snapshot holds. Raises Damaged if it is not whole."""
    check, frame = snapshot.data[:16], snapshot.data[16:]
    if codec.digest(snapshot.digest, frame) != check:
        raise Damaged(f"the snapshot at event {snapshot.seq} does not match its digest", seq=snapshot.seq)
    body = codec.unpack(frame, _SnapshotBody)
    return msgspec.structs.replace(body.record, state=codec.decode(body.state))
