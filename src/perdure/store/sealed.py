"""A store that keeps no content in the clear: a wrapper at the contract, alike for every kind of store.

On the way in every value is sealed under the first master key of PERDURE_KEY, by a key of its run and for its
place; on the way out it is opened, and what was changed, or lay elsewhere, is Damaged. What the store has to
see stays readable: ids of runs and messages, agents, versions, statuses, times, queues, tags, keys of limits,
kinds of messages. The digests of the chain cover what is sealed, and are sealed with it: they outlive another
key, and tell nobody whether a guess is right; in their column the store sees a value that names nothing. A
blob keeps its place by a keyed digest. The keys of personal data are wrapped by the master already.

The store remembers that it is encrypted by its `MARK`, which names the master keys that its values are under.
It knows no tables and no meanings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from perdure.cipher import TAG_BYTES
from perdure.errors import Damaged, KeyMissing, StoreClosed, StoreNotEncrypted, StoreReadOnly
from perdure.store.kept import MARK, Kept, kids_of
from perdure.store.master import KID_BYTES, MORE_BYTES, VARIABLE, Master, kid_of, masters
from perdure.store.protocol import (
    Appended,
    Batch,
    Blob,
    Claim,
    Claimed,
    Compaction,
    Delivered,
    Inbound,
    Loaded,
    Message,
    NewRun,
    Query,
    RunRow,
    Snapshot,
    Store,
    Stored,
    StoreStats,
    Tx,
)
from perdure.store.standing import check_batch, check_compaction, check_message, check_run

PLAIN = bytes(KID_BYTES)
"""What stands in a mark for values that are not sealed: not yet, or again."""

ADDED_BYTES = MORE_BYTES + 1 + TAG_BYTES
"""So much longer is an event, a snapshot or a blob when it is sealed."""

Link = TypeVar("Link", Stored, Snapshot)

SWITCH = "?encrypt=on"
"""The end of an encrypted store's address."""


class Seals:
    """How the values of a store are sealed and opened: the master keys of this process, the first one seals.

    `strict`: what is not sealed is damage; else it is a value that is not sealed yet.
    """

    def __init__(self, keys: Sequence[Master], *, strict: bool) -> None:
        self.first = keys[0]
        self.strict = strict
        self._keys = {master.kid: master for master in keys}

    def seal(self, run_id: str, place: bytes, data: bytes) -> bytes:
        """A value of a run, for its place."""
        return self.first.of_run(run_id).seal(place, data)

    def open(self, run_id: str, place: bytes, data: bytes) -> bytes:
        """The value again. Raises KeyMissing, Damaged."""
        kid = kid_of(data)
        master = self._keys.get(kid)
        if master is None:
            if kid:
                raise missing(f"a value of run {run_id}", kid)
            if self.strict:
                raise Damaged(f"a value of run {run_id} is not sealed in an encrypted store", run_id=run_id)
            return data
        opened = master.of_run(run_id).open(place, data)
        if opened is None:
            raise Damaged(f"a sealed value of run {run_id} does not open where it lies", run_id=run_id)
        return opened

    def names(self, run_id: str, digest: bytes) -> list[bytes]:
        """The names that a blob may lie under, the one that is given to new ones first."""
        found = [master.of_run(run_id).name(digest) for master in self._keys.values()]
        return found if self.strict else [*found, digest]

    # -- what has a digest and data: both are sealed, as one

    def link(self, run_id: str, one: Link) -> Link:
        """An event or a snapshot, sealed."""
        digest, data = self._sealed_pair(run_id, _at(_PART[type(one)], one.seq), one.digest, one.data)
        return type(one)(one.seq, data, digest)

    def opened_link(self, run_id: str, one: Link) -> Link:
        """The event or the snapshot again."""
        digest, data = self._opened_pair(run_id, _at(_PART[type(one)], one.seq), one.digest, one.data)
        return type(one)(one.seq, data, digest)

    def blob(self, run_id: str, blob: Blob) -> Blob:
        """A blob, sealed, under its name."""
        cipher = self.first.of_run(run_id)
        name = cipher.name(blob.digest)
        return Blob(name, cipher.seal(b"blob" + name, _joined(blob.digest, blob.data)))

    def opened_blob(self, run_id: str, name: bytes, data: bytes) -> Blob:
        """The blob again."""
        if not kid_of(data) and not self.strict:
            return Blob(name, data)
        return Blob(*_parted(self.open(run_id, b"blob" + name, data)))

    def _sealed_pair(self, run_id: str, place: bytes, digest: bytes, data: bytes) -> tuple[bytes, bytes]:
        sealed = self.seal(run_id, place, _joined(digest, data))
        return sealed[-TAG_BYTES:], sealed

    def _opened_pair(self, run_id: str, place: bytes, shown: bytes, data: bytes) -> tuple[bytes, bytes]:
        if not kid_of(data) and not self.strict:
            return shown, data
        opened = self.open(run_id, place, data)
        if shown != data[-TAG_BYTES:]:
            raise Damaged(f"a digest of run {run_id} is not that of its sealed value", run_id=run_id)
        return _parted(opened)

    # -- what has data alone

    def message(self, message: Message) -> Message:
        """A message, sealed."""
        data = self.seal(message.run_id, _of_message(message.id, message.kind), message.data)
        return replace(message, data=data)

    def opened_message(self, run_id: str, one: Inbound) -> Inbound:
        """The message again."""
        data = self.open(run_id, _of_message(one.id, one.kind), one.data)
        return Inbound(one.position, one.id, one.kind, data, one.at)

    def note(self, run_id: str, info: bytes) -> bytes:
        """What a run notes in its row, sealed."""
        return self.seal(run_id, b"info", info) if info else info

    def opened_note(self, row: RunRow) -> RunRow:
        """The row with its note. One that does not open stays as it is, and is noise to whoever reads it: a
        list does not fail for one of its runs.
        """
        if not row.info:
            return row
        try:
            return replace(row, info=self.open(row.run_id, b"info", row.info))
        except (Damaged, KeyMissing):
            return row

    def left(self, run_id: str, left: Iterable[bytes]) -> tuple[bytes, ...]:
        """What a removed or compacted run leaves behind, sealed."""
        return tuple([self.seal(run_id, b"left", data) for data in left])

    def anew(self, kept: Kept, *, sealed: bool = True) -> Kept:
        """A value that lies in a store as it is to lie there: under the first key, or in the clear."""
        run_id, part = kept.run_id, kept.part.encode()
        match kept.part:
            case "event" | "snapshot":
                place = _at(part, kept.seq)
                digest, data = self._opened_pair(run_id, place, kept.digest, kept.data)
                if sealed:
                    digest, data = self._sealed_pair(run_id, place, digest, data)
                return replace(kept, digest=digest, data=data)
            case "blob":
                blob = self.opened_blob(run_id, kept.digest, kept.data)
                blob = self.blob(run_id, blob) if sealed else blob
                return replace(kept, digest=blob.digest, data=blob.data)
            case _:
                place = _of_message(kept.id, kept.kind) if kept.part == "inbox" else part
                data = self.open(run_id, place, kept.data)
                return replace(kept, data=self.seal(run_id, place, data) if sealed else data)


def missing(what: str, kid: bytes) -> KeyMissing:
    """The refusal to open what is under a master key that this process has not."""
    name = kid.hex()
    told = f"{what} is sealed under the master key {name}, which {VARIABLE} does not have"
    return KeyMissing(told, safe="Nothing was written, and nothing is served.", master=name)


def keys_here(url: str) -> tuple[Master, ...]:
    """This process's master keys. Raises KeyMissing if there is none, BadSetting."""
    if found := masters():
        return found
    what = f"{VARIABLE} has no key for the encrypted store {url}"
    raise KeyMissing(what, safe="Nothing was written.", remedy=f'export {VARIABLE}="file:PATH"')


def mark_of(keys: Sequence[Master | None]) -> bytes:
    """The mark of a store whose values are under these keys, the one that seals first; None: in the clear."""
    kids = b"".join([PLAIN if key is None else key.kid for key in keys])
    signer = next((key for key in keys if key is not None), None)
    head = bytes((len(keys),)) + kids
    return head + signer.of_run("").seal(b"mark" + kids, b"") if signer is not None else head


def check_mark(url: str, mark: bytes, keys: Sequence[Master]) -> None:
    """Refuse a mark that names keys which are not here, or that none of them made. Raises KeyMissing,
    Damaged.
    """
    here, kids = {key.kid: key for key in keys}, kids_of(mark)
    for kid in kids:
        if kid != PLAIN and kid not in here:
            raise missing(f"the store {url}", kid)
    signer = here[next(kid for kid in kids if kid != PLAIN)]
    start = 1 + len(kids) * KID_BYTES
    if signer.of_run("").open(b"mark" + mark[1:start], mark[start:]) is None:
        raise Damaged(f"the mark of the encrypted store {url} was changed", url=url)


_PART: dict[type, bytes] = {Stored: b"event", Snapshot: b"snapshot"}


def _at(part: bytes, seq: int) -> bytes:
    return b"%s %d" % (part, seq)


def _joined(digest: bytes, data: bytes) -> bytes:
    return bytes((len(digest),)) + digest + data


def _parted(both: bytes) -> tuple[bytes, bytes]:
    start = 1 + both[0]
    return both[1:start], both[start:]


def _of_message(message_id: str, kind: str) -> bytes:
    # No text of a message has a NUL in it.
    return f"inbox {message_id}\0{kind}".encode("utf-8", "surrogatepass")


class SealedStore:
    """An encrypted store: `inner` keeps what this one seals. `url` ends with `?encrypt=on`."""

    def __init__(self, inner: Store) -> None:
        inner.sealed = True
        self.inner = inner
        self.url = inner.url + (SWITCH.replace("?", "&") if "?" in inner.url else SWITCH)
        self.sealed = True
        self._seals: Seals | None = None
        # What has no content goes straight through.
        self.now = inner.now
        self.close = inner.close
        self.renew = inner.renew
        self.release = inner.release
        self.due = inner.due
        self.versions = inner.versions
        self.changed = inner.changed
        self.enlist = inner.enlist
        self.restore = inner.restore
        self.key = inner.key  # wrapped by the master key already
        self.erase = inner.erase
        self.sharers = inner.sharers
        self.scrub = inner.scrub
        self.sizes = inner.sizes
        self.kept = inner.kept
        self.swap = inner.swap

    @property
    def value_bytes(self) -> int:
        """The largest value that is taken."""
        return self.inner.value_bytes - ADDED_BYTES

    @value_bytes.setter
    def value_bytes(self, most: int) -> None:
        self.inner.value_bytes = most + ADDED_BYTES

    # -- opening

    async def open(self) -> None:
        """See `Store.open`. Raises KeyMissing, StoreNotEncrypted too, and leaves the store as it was."""
        keys = keys_here(self.url)
        await self.inner.open()
        try:
            mark = await self._marked(keys)
            if mark is not None:
                check_mark(self.url, mark, keys)
        except BaseException:
            await self.inner.close()
            raise
        self._seals = Seals(keys, strict=mark is None or PLAIN not in kids_of(mark))

    async def _marked(self, keys: Sequence[Master]) -> bytes | None:
        """The store's mark; a store without any runs is given one. None: it is only looked at, and empty."""
        mark = await self.inner.key(MARK)
        if mark is None and not await self.inner.list(Query(limit=1)):
            try:
                mark = await self.inner.key(MARK, mark_of(keys[:1]))
            except StoreReadOnly:
                return None
        if mark is None or kids_of(mark)[0] == PLAIN:
            what = f"the store {self.inner.url} is not encrypted, and was opened as one that is"
            raise StoreNotEncrypted(what, url=self.inner.url)
        return mark

    def twin(self) -> Store | None:
        """See `Store.twin`."""
        inner = self.inner.twin()
        return None if inner is None else SealedStore(inner)

    @property
    def seals(self) -> Seals:
        """How values are sealed here, once it was opened."""
        if self._seals is None:
            raise StoreClosed(f"the store {self.url} is not open", url=self.url)
        return self._seals

    # -- writing

    async def create(self, run: NewRun) -> tuple[RunRow, bool]:
        """See `Store.create`."""
        check_run(run, self.value_bytes)
        seals, run_id = self.seals, run.run_id
        sealed = replace(
            run,
            events=tuple([seals.link(run_id, event) for event in run.events]),
            info=seals.note(run_id, run.info),
            blobs=tuple([seals.blob(run_id, blob) for blob in run.blobs]),
            base=None if run.base is None else seals.link(run_id, run.base),
            left=seals.left(run_id, run.left),
        )
        row, made = await self.inner.create(sealed)
        return seals.opened_note(row), made

    def append(self, batch: Batch) -> asyncio.Future[Appended]:
        """See `Store.append`."""
        try:
            return self.inner.append(self._sealed(batch))
        except Exception as error:  # noqa: BLE001 - every failure of an append is told by its future
            future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
            future.set_exception(error)
            return future

    def _sealed(self, batch: Batch) -> Batch:
        check_batch(batch, self.value_bytes)
        seals, run_id = self.seals, batch.run_id
        row, snapshot, act = batch.row, batch.snapshot, batch.act
        if row is not None and row.info:
            row = replace(row, info=seals.note(run_id, row.info))
        return replace(
            batch,
            events=tuple([seals.link(run_id, event) for event in batch.events]),
            row=row,
            snapshot=None if snapshot is None else seals.link(run_id, snapshot),
            blobs=tuple([seals.blob(run_id, blob) for blob in batch.blobs]) if batch.blobs else (),
            outbox=tuple([seals.message(one) for one in batch.outbox]) if batch.outbox else (),
            act=None if act is None else _sealing(seals, run_id, act),
        )

    async def deliver(self, message: Message) -> Delivered:
        """See `Store.deliver`."""
        check_message(message, self.value_bytes)
        return await self.inner.deliver(self.seals.message(message))

    async def drop(self, run_id: str, tombstones: Sequence[bytes] = ()) -> bool:
        """See `Store.drop`."""
        return await self.inner.drop(run_id, self.seals.left(run_id, tombstones))

    async def compact(self, compaction: Compaction) -> None:
        """See `Store.compact`."""
        check_compaction(compaction, self.value_bytes)
        seals, run_id = self.seals, compaction.run_id
        sealed = replace(
            compaction,
            base=seals.link(run_id, compaction.base),
            left=seals.left(run_id, compaction.left),
            blobs=tuple([name for digest in compaction.blobs for name in seals.names(run_id, digest)]),
        )
        await self.inner.compact(sealed)

    # -- reading

    async def load(self, run_id: str) -> Loaded:
        """See `Store.load`."""
        found, seals = await self.inner.load(run_id), self.seals
        return Loaded(
            seals.opened_note(found.row),
            None if found.snapshot is None else seals.opened_link(run_id, found.snapshot),
            tuple([seals.opened_link(run_id, event) for event in found.events]),
            tuple([seals.opened_message(run_id, one) for one in found.inbox]),
            found.older,
        )

    async def row(self, run_id: str) -> RunRow:
        """See `Store.row`."""
        return self.seals.opened_note(await self.inner.row(run_id))

    async def read(self, run_id: str, after: int = 0, limit: int = 1000) -> tuple[Stored, ...]:
        """See `Store.read`."""
        found, seals = await self.inner.read(run_id, after, limit), self.seals
        return tuple([seals.opened_link(run_id, event) for event in found])

    async def snapshots(self, run_id: str) -> tuple[Snapshot, ...]:
        """See `Store.snapshots`."""
        found, seals = await self.inner.snapshots(run_id), self.seals
        return tuple([seals.opened_link(run_id, kept) for kept in found])

    async def snapshot(self, run_id: str, upto: int) -> Snapshot | None:
        """See `Store.snapshot`."""
        found = await self.inner.snapshot(run_id, upto)
        return None if found is None else self.seals.opened_link(run_id, found)

    async def blob(self, run_id: str, digest: bytes) -> bytes:
        """See `Store.blob`. One that is being given another name is looked for again."""
        names, failure = self.seals.names(run_id, digest), None
        for name in [*names, *names[:-1]]:
            try:
                data = await self.inner.blob(run_id, name)
            except Damaged as error:
                failure = error
                continue
            return self.seals.opened_blob(run_id, name, data).data
        what = f"a large value of run {run_id} is missing: {digest.hex()}"
        raise Damaged(what, run_id=run_id, digest=digest) from failure

    async def claim(self, claim: Claim) -> tuple[Claimed, ...]:
        """See `Store.claim`."""
        found, seals = await self.inner.claim(claim), self.seals
        return tuple([replace(one, row=seals.opened_note(one.row)) for one in found])

    async def inbox(self, run_id: str, after: int = 0) -> tuple[Inbound, ...]:
        """See `Store.inbox`."""
        found, seals = await self.inner.inbox(run_id, after), self.seals
        return tuple([seals.opened_message(run_id, one) for one in found])

    async def list(self, query: Query) -> tuple[RunRow, ...]:
        """See `Store.list`."""
        return tuple(map(self.seals.opened_note, await self.inner.list(query)))

    async def tombstones(self, run_id: str) -> tuple[bytes, ...]:
        """See `Store.tombstones`."""
        found, seals = await self.inner.tombstones(run_id), self.seals
        return tuple([seals.open(run_id, b"left", data) for data in found])

    async def stats(self) -> StoreStats:
        """See `Store.stats`."""
        found = await self.inner.stats()
        return replace(found, facts={**found.facts, "encrypted": f"under the key {self.seals.first.name}"})


def _sealing(
    seals: Seals, run_id: str, act: Callable[[Tx], Sequence[Stored]]
) -> Callable[[Tx], Sequence[Stored]]:
    """A transactional call whose events are sealed before they are written."""
    return lambda tx: [seals.link(run_id, event) for event in act(tx)]
