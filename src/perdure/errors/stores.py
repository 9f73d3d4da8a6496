"""The place where bytes are kept refused or failed (S…)."""

from __future__ import annotations

from perdure.errors.family import PerdureError


class StoreError(PerdureError):
    """The place where bytes are kept refused or failed."""

    default_safe = "What was acknowledged before is safe; nothing of this write is visible."


class StoreLocked(StoreError):
    """Another process holds the store's write lock for longer than the busy limit.

    perdure's own processes take turns, so this is nearly always a foreign tool with an open transaction.
    """

    code = "S101"
    default_remedy = (
        "end the other program's transaction (lsof FILE names who has the file open), then try again"
    )


class StoreUnavailable(StoreError):
    """The store cannot be opened or created: its folder is missing, or rights are missing.

    perdure never falls back to another store and never to memory.
    """

    code = "S102"
    default_safe = "Nothing was written."
    default_remedy = "make the folder, or name another store: --store PATH, or PERDURE_STORE"


class DiskFull(StoreError):
    """The disk has no room for the write.

    New intents stop first, so that receipts can still be written from the reserve that perdure keeps.
    """

    code = "S103"
    default_remedy = "free space on the store's disk, then resume: the run continues where it was"


class StoreReadOnly(StoreError):
    """The store can be read but not written. Reading commands work; a resume stops before any step."""

    code = "S104"
    default_remedy = "give this user write permission on the file and its folder"


class StoreNewer(StoreError):
    """The store's tables were made by a newer perdure. An older one never opens it half."""

    code = "S105"
    default_safe = "The store was left as it is."
    default_remedy = "upgrade perdure on this machine: pip install -U perdure"


class NotAStore(StoreError):
    """The file exists and is not a perdure store. It was left as it is."""

    code = "S106"
    default_safe = "The file was left as it is."
    default_remedy = "choose another path; perdure writes only into files that it made"


class Damaged(StoreError):
    """Stored bytes do not match their digest, or do not decode.

    Damage is never served: the run is quarantined, the other runs go on.
    """

    code = "S107"
    default_safe = "Only this run is quarantined; nothing of it was served or overwritten."
    default_remedy = "perdure verify RUN shows the first damaged event; restore the file from a backup"


class NotDurable(StoreError):
    """The database would not promise to keep what it acknowledges (`synchronous` is not FULL)."""

    code = "S108"
    default_remedy = "use the SQLite that comes with apsw: pip install -U apsw"


class StaleEpoch(StoreError):
    """A write carried an old epoch: another worker owns the run by now. The write was refused whole."""

    code = "S109"
    default_remedy = "nothing to do: the newer owner carries the run on"


class SeqConflict(StoreError):
    """A write expected another last event than the store has. It was refused whole."""

    code = "S110"
    default_remedy = "nothing to do: the run is loaded again and carried on"


class InboxMoved(StoreError):
    """A message arrived between the look at the inbox and the write that rested on it.

    The write was refused.
    """

    code = "S111"
    default_remedy = "nothing to do: the guard runs again with the new message"


class NoSuchRun(StoreError):
    """The store holds no run of this id."""

    code = "S112"
    default_safe = "Nothing was changed."
    default_remedy = "perdure runs lists the runs of this store"


class RunGone(StoreError):
    """The run was pruned or erased. Its id stays taken, so that a late write can never revive it."""

    code = "S113"
    default_safe = "Nothing was changed."
    default_remedy = "perdure audit RUN tells what stayed of it; a new run takes another id"


class StoreIO(StoreError):
    """The disk reported an error while writing or syncing.

    The connection was dropped and state is read back.
    """

    code = "S114"
    default_remedy = "check the disk (dmesg, SMART), then resume: perdure verify tells what is whole"


class BadStoreURL(StoreError):
    """The store URL is not one that perdure knows."""

    code = "S115"
    default_safe = "Nothing was opened."
    default_remedy = "use a file path, sqlite:///path, memory: or postgresql://…"


class Expired(StoreError):
    """A write was allowed only until a moment that has passed by the store's clock. It was refused whole."""

    code = "S116"
    default_remedy = "nothing to do: the guard runs again"


class RunEnded(StoreError):
    """A message or an append for a run that has already ended. It was refused."""

    code = "S117"
    default_safe = "Nothing was changed."
    default_remedy = "perdure show RUN tells how it ended; start a new run under another id"


class RunOpen(StoreError):
    """Only a run that has ended can be removed."""

    code = "S121"
    default_safe = "Nothing was changed."
    default_remedy = "perdure cancel RUN first"


class BadRunId(StoreError):
    """A run id must be 1 to 200 printable characters.

    It has no NUL, no lone surrogates, no whitespace and no @, which begins a point (RUN@41); it does not
    begin with -, as options of commands do; and it has nothing that a shell takes for itself (quotes, $, &,
    parentheses and the like), for remedies are commands, which people paste with the id in them.
    """

    code = "S118"
    default_safe = "No run was started."
    default_remedy = "use an id such as order-1042"


class StoreClosed(StoreError):
    """The store is not open: never opened, or closed while work was still being handed to it."""

    code = "S119"
    default_remedy = (
        "keep the store open until its runs have been awaited; a Runtime is open inside"
        " `async with Runtime(...) as runtime:`"
    )


class TooLarge(StoreError):
    """One value is larger than the store's limit for a single value."""

    code = "S120"
    default_remedy = "keep the large thing elsewhere (a file, an object store) and record its address"


class WorkerTaken(StoreError):
    """A worker incarnation of this name is alive. An incarnation's name must be its own."""

    code = "S122"
    default_safe = "Nothing was changed; the living worker keeps its runs."
    default_remedy = "let perdure choose the name, or stop the other worker"


class ForeignLoop(StoreError):
    """A store object was used from an event loop that is not its own.

    A store object belongs to the loop in which it was opened. Open another one for another loop or process.
    """

    code = "S123"
    default_safe = "Nothing was written."
    default_remedy = "open a store in each event loop: open_store(url)"


class ConnectionLost(StoreError):
    """The connection to the database broke, and no other could be made in time.

    perdure tries again for a while first. A commit whose answer was lost is looked up on a new connection, by
    what it wrote, and never repeated on a guess.
    """

    code = "S124"
    default_safe = "What was acknowledged before is safe. This write is not there unless the message says so."
    default_remedy = "see that the database runs and can be reached; the run is loaded again and carried on"


class EventsPruned(StoreError):
    """This part of a run's past was taken away by compaction.

    What came of it is kept: the state after it, the acts and the approvals.
    """

    code = "S125"
    default_safe = "Nothing was changed; the run goes on, and its acts and approvals are kept."
    default_remedy = "ask for a later point; a backup from before the compaction has the earlier ones"
