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
    """When a snapshot is due: after `every` steps, or such that reading and folding the tail takes `seconds`.

    The bound by time also waits until the tail has grown as large as the last snapshot, so that snapshots
    cost no more than the log itself: bytes stay linear in the length of the run.
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
        return LOAD_COSTS.of(events, tail_bytes) >= self.seconds and tail_bytes >= snapshot_bytes


READ_SECONDS_PER_BYTE = 2e-9
"""What reading and decoding a byte of events costs: measured by `python -m bench` (loading)."""


class LoadCosts:
    """What loading costs in this process: begins with a measured figure and learns from real loads."""

    def __init__(self) -> None:
        self.fold_seconds_per_event = 4e-6

    def of(self, events: int, size: int) -> float:
        """Seconds to read and fold so many events of so many bytes."""
        return events * self.fold_seconds_per_event + size * READ_SECONDS_PER_BYTE

    def learn(self, events: int, size: int, seconds: float) -> None:
        """Take a real load into account: a slow moving mean, large loads only."""
        if events >= 500:
            seen = max(seconds - size * READ_SECONDS_PER_BYTE, 0.0) / events
            self.fold_seconds_per_event += 0.25 * (seen - self.fold_seconds_per_event)


LOAD_COSTS = LoadCosts()
"""This process's."""


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
