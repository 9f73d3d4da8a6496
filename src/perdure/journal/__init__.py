"""Where facts and bytes meet: append, flush, barrier, load.

Everyone above speaks of events and runs; everyone below of bytes. This room alone knows how an event becomes
a frame, how frames are chained, when a snapshot is taken, and which values live in blobs. It keeps law 1
(`barrier` returns only when everything appended before it is durable), law 5 (a snapshot is used only if it
is whole) and law 21 (nothing is served whose chain does not verify).
"""

from perdure.journal.abridged import Keep, accounted, keys_of
from perdure.journal.argument import resolve
from perdure.journal.compaction import Cut, cut
from perdure.journal.fences import Fences
from perdure.journal.follow import follow
from perdure.journal.heard import Heard
from perdure.journal.lingering import Lingering
from perdure.journal.live import Durability, Journal, Receipt
from perdure.journal.outlast import outlast, until_done
from perdure.journal.outline import outline
from perdure.journal.past import (
    Beginning,
    Past,
    Retold,
    Verification,
    beginning,
    gathered,
    goal_of,
    history,
    load,
    pruned,
    read_all,
    record_at,
    restore,
    retold,
    verify,
)
from perdure.journal.snapshots import SnapshotPolicy, pack_snapshot, unpack_snapshot

__all__ = [
    "Beginning",
    "Cut",
    "Durability",
    "Fences",
    "Heard",
    "Journal",
    "Keep",
    "Lingering",
    "Past",
    "Receipt",
    "Retold",
    "SnapshotPolicy",
    "Verification",
    "accounted",
    "beginning",
    "cut",
    "follow",
    "gathered",
    "goal_of",
    "history",
    "keys_of",
    "load",
    "outlast",
    "outline",
    "pack_snapshot",
    "pruned",
    "read_all",
    "record_at",
    "resolve",
    "restore",
    "retold",
    "unpack_snapshot",
    "until_done",
    "verify",
]
