"""Everything that a store keeps, written again: under another master key, for the first time under one, or in
the clear.

The store's mark says first which keys its values are under from now on, the new one in front; then all that
lies under another one is read, page by page, and put back sealed anew, each page in a small transaction, as
often as it takes until nothing is left; then the mark names the new key alone. Killed anywhere it is simply
done again: what is under the new key already is passed by. Live workers go on, for all keys open; only the
first and the last turn, from the clear and back to it, want the store for themselves. Keys of personal data
are wrapped anew with the rest, in whatever store. What does not open stays as it is, and is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import groupby
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from perdure.errors import Damaged, RotationUnfinished
from perdure.runtime.boundary import reached
from perdure.store.kept import MARK, PAGE_ROWS, PARTS, Kept, Part, kids_of
from perdure.store.master import Master, kid_of, master_of, masters, unwrapped
from perdure.store.protocol import Store
from perdure.store.sealed import PLAIN, Seals, check_mark, keys_here, mark_of

Aim = Literal["same", "encrypted", "plain"]
"""What becomes of the store: `same` leaves an encrypted one encrypted, and one in the clear so."""

PASSES = 5
"""So often everything is looked through again; what lies under another key after that is written so by
somebody who goes on.
"""


class Rotation(Struct, frozen=True):
    """What was found and done. `key`: the name of the key that all is under, empty for a store in the clear.

    `under`: how many values lay under which key, by its name ("" = in the clear), the keys of personal data
    among them. `written`: so many of them were written anew. `unreadable`: runs with a value that does not
    open, which stays under its key. `done`: nothing is left under another key. `scrubbed`: the place's own
    log has nothing of what was there before.
    """

    key: str
    under: dict[str, int]
    written: int = 0
    unreadable: tuple[str, ...] = ()
    done: bool = False
    scrubbed: bool = False


Progress = Callable[[int, int], None]
"""Told how many values of about how many were looked at."""


async def found(store: Store) -> Rotation:
    """What lies under which key. Writes nothing. `store` is the one below: what it gives is not opened."""
    under: Counter[str] = Counter()
    async for value in _all(store):
        under[_kid(value).hex()] += 1
    kids = [kid for kid in kids_of(await store.key(MARK) or b"\0") if kid != PLAIN]
    return Rotation(kids[0].hex() if kids else "", dict(under))


async def rotate(
    store: Store, aim: Aim = "same", *, whole: bool = False, progress: Progress = lambda done, total: None
) -> Rotation:
    """Write all of it anew, under the first key of this process, or in the clear. Twice is once.

    `store` is the one below: what it gives is not opened. `whole`: its files are written anew too, so that
    nothing that was removed earlier is left in them. Raises KeyMissing, WorkerTaken (from the clear, and back
    to it), RotationUnfinished, StoreError.
    """
    turn = await _turned(store, aim)
    reached("rotate.marked")
    under, written = await _pass(store, turn, progress)
    for _ in range(PASSES):
        _, more = await _pass(store, turn, lambda done, total: None)
        if not more:
            break
    else:
        what = f"values of the store {store.url} are written under another key as fast as they are found"
        raise RotationUnfinished(what, url=store.url)
    reached("rotate.written")
    if turn.sealed and not turn.unreadable:
        await _mark(store, [turn.to])
    reached("rotate.done")
    scrubbed = await store.scrub(whole=whole)
    key = "" if turn.to is None else turn.to.name
    return Rotation(key, dict(under), written, tuple(turn.unreadable), not turn.unreadable, scrubbed)


async def _pass(store: Store, turn: _Turn, progress: Progress) -> tuple[Counter[str], int]:
    """Look through everything once. How many values lay under which key, and how many were turned."""
    stats = await store.stats()
    total = stats.events + stats.snapshots + sum(stats.runs.values())
    under, written = Counter[str](), 0
    for part in PARTS:
        async for page in _pages(store, part):
            if pairs := turn.pairs(page):
                reached("rotate.write")
                written += await store.swap(pairs)
            for value in page:
                under[_kid(value).hex()] += 1
                progress(under.total(), total)
    return under, written


class _Turn:
    """How each value is turned. `to`: the key that all is to be under; None: none. `sealed`: whether any is
    under one; else the keys of personal data alone are turned.
    """

    def __init__(self, keys: Sequence[Master], to: Master | None, *, sealed: bool, strict: bool) -> None:
        self.to = to
        self.sealed = sealed
        self.unreadable: dict[str, None] = {}
        self._keys = keys
        self._seals = Seals(keys, strict=strict) if sealed else None

    def pairs(self, page: Sequence[Kept]) -> list[tuple[Kept, Kept]]:
        """The values that must be turned, each with what it becomes."""
        found = []
        for value in page:
            try:
                new = self._key(value) if value.part == "key" else self._value(value)
            except Damaged:
                self.unreadable[value.run_id] = None
                continue
            if new is not None:
                found.append((value, new))
        return found

    def _value(self, value: Kept) -> Kept | None:
        if self._seals is None or kid_of(value.data) == (b"" if self.to is None else self.to.kid):
            return None
        return self._seals.anew(value, sealed=self.to is not None)

    def _key(self, value: Kept) -> Kept | None:
        if not self._keys or master_of(value.data) == self._keys[0].kid:
            return None
        key = unwrapped(value.run_id, value.data)
        assert key is not None
        return replace(value, data=self._keys[0].wrap(key))


async def _turned(store: Store, aim: Aim) -> _Turn:
    """Say in the store's mark what its values are under from now on, before the first of them is."""
    before = kids_of(await store.key(MARK) or b"\0")
    encrypted = any(map(any, before))
    if aim == "same":
        aim = "encrypted" if encrypted and before[0] != PLAIN else "plain"
    if aim == "plain" and not encrypted:
        return _Turn(masters(), None, sealed=False, strict=False)
    keys = keys_here(store.url)
    if encrypted:
        check_mark(store.url, await store.key(MARK) or b"", keys)
    known = {key.kid: key for key in keys}
    to = keys[0] if aim == "encrypted" else None
    others = [known.get(kid) for kid in before or (PLAIN,)]
    await _mark(store, [to, *(key for key in others if key is not to)], alone=to is None or not encrypted)
    return _Turn(keys, to, sealed=True, strict=None not in others)


async def _mark(store: Store, keys: Sequence[Master | None], *, alone: bool = False) -> None:
    """Set the store's mark. Raises RotationUnfinished where another one set it meanwhile, WorkerTaken."""
    old = await store.key(MARK, mark_of([None]))
    assert old is not None
    there = Kept("key", (MARK,), MARK, old)
    if not await store.swap([(there, replace(there, data=mark_of(keys)))], alone=alone):
        raise RotationUnfinished(f"the store {store.url} is being rotated by somebody else", url=store.url)


async def _all(store: Store) -> AsyncIterator[Kept]:
    for part in PARTS:
        async for page in _pages(store, part):
            for value in page:
                yield value


async def _pages(store: Store, part: Part) -> AsyncIterator[Sequence[Kept]]:
    last: Kept | None = None
    keys = list[Kept]()
    while page := await store.kept(part, last):
        last = page[-1]
        if part != "key":
            yield page
        keys += page if part == "key" else ()
    # Runs that share a key get the new one together, so that an erasure finds all of them.
    together = list[Kept]()
    for _, same in groupby(sorted(keys, key=_data), key=_data):
        together += same
        if len(together) >= PAGE_ROWS:
            yield together
            together = []
    if together:
        yield together


def _data(value: Kept) -> bytes:
    return value.data


def _kid(value: Kept) -> bytes:
    return master_of(value.data) if value.part == "key" else kid_of(value.data)
