"""The order in which a step is given the outcomes of its calls: the same live and replayed.

Branches of a step interleave by the order in which they are given outcomes. So they are given one at a time,
and the next one only when every branch waits again: live in the order of their events, replayed in that same
order and all recorded ones before anything new is asked of the outside. If every branch waits and the next
recorded outcome was not asked for, the code no longer matches its record.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush

from perdure.recovery.verdicts import first_seq, records
from perdure.state.events import SINCE
from perdure.state.record import CallRecord, RunRecord, WaitRecord

ROUNDS = 64
"""A branch that has asked for nothing in so many turns of the event loop waits for something of its own (a
lock, an event), perhaps for another branch: the others are given their outcomes all the same."""


NONE: deque[int] = deque()
"""No outcome is expected. Shared: nothing is ever added to what is expected."""


class Replay:
    """Who may go on. A branch is active while its code runs; it `enters` a call, and is active again once
    `given` its outcome, or once it `leaves` without one.
    """

    def __init__(self, record: RunRecord) -> None:
        self._path_of: dict[int, str] = {}
        self.unasked: dict[str, int] = {}
        for item in records(record) if record.calls or record.waits else ():
            if item.name == SINCE and isinstance(item, CallRecord):
                continue  # it has no place in the order, and code may stop to ask for it
            self.unasked[item.path] = first_seq(item)
            if seq := _outcome_seq(item):
                self._path_of[seq] = item.path
        self.expected = deque(sorted(self._path_of)) if self._path_of else NONE
        self._ready: list[tuple[int, asyncio.Future[bool]]] = []
        self._live: list[asyncio.Future[None]] = []
        self._active = 1
        self._beats = 0
        self._watching = False
        self._doors: list[Callable[[], bool]] = []
        self.mismatch: int | None = None

    @property
    def replaying(self) -> bool:
        """Whether recorded outcomes are still to be given."""
        return bool(self.expected)

    @property
    def retold(self) -> bool:
        """Whether the code has yet to come to where it was before: what it tells until then, it has told."""
        return bool(self.expected or self.unasked)

    @property
    def over(self) -> bool:
        """Whether everything recorded was given, as it was recorded."""
        return not self.expected and self.mismatch is None

    def asked(self, path: str) -> None:
        """The code asked for this recorded call or wait."""
        self.unasked.pop(path, None)

    def never_asked(self) -> int | None:
        """The first event whose call or wait the code has not asked for, if there is one."""
        return min(self.unasked.values(), default=None)

    # -- one branch

    def enter(self) -> None:
        """The running branch asks for something. What is recorded it will wait for by `given` or `live`."""
        self._active -= 1
        self._beats += 1
        if self._ready and not self.expected:
            self._go_on()

    def wait(self) -> None:
        """The running branch waits for another one, until it `leaves`."""
        self._active -= 1
        self._beats += 1
        self._go_on()

    def leave(self) -> None:
        """It goes on without one."""
        self._active += 1
        self._beats += 1

    def give_now(self, seq: int) -> bool:
        """Give the outcome of event `seq`, if it is the next one. True: it was, and the branch goes on."""
        if self.mismatch is not None or self._active or self._ready:
            return False
        if self.expected and self.expected[0] != seq:
            return False
        self.leave()
        if self.expected:
            self._took(seq)
        return True

    async def given(self, seq: int) -> bool:
        """Wait until the outcome of event `seq` is the next one. However it ends, the branch is active again.

        False: the code has diverged.
        """
        if self.mismatch is not None:
            self.leave()
            return False
        if self.give_now(seq):
            return True
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        heappush(self._ready, (seq, future))
        self._go_on()
        try:
            return await future
        except asyncio.CancelledError:
            if future.cancelled():
                self._ready = [item for item in self._ready if item[1] is not future]
                self.leave()
            raise

    def passed(self, seq: int) -> None:
        """An outcome that is given without waiting (now, random, new_id) leaves its place in the order."""
        if self.expected and self.expected[0] == seq:
            self._took(seq)
        elif seq in self.expected:
            self.expected.remove(seq)
        self._go_on()

    async def live(self) -> bool:
        """Wait until everything recorded was given. False: the code has diverged."""
        if self.expected and self.mismatch is None:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._live.append(future)
            self._go_on()
            await future
        return self.mismatch is None

    # -- several branches

    def branch_out(self, count: int) -> None:
        """The running branch waits for `count` new ones."""
        self._active += count - 1
        self._beats += 1

    def door(self, let_in: Callable[[], bool]) -> None:
        """How a branch that waits for a place can be let in beyond the limit, if one waits.

        Branches may have gone on in another order than they do now (one was blocked then, and is no longer),
        so that the next recorded outcome belongs to one that has not even begun.
        """
        self._doors.append(let_in)

    def ended(self, *, last: bool) -> None:
        """A branch has ended; with the `last` one its parent goes on."""
        self._beats += 1
        if not last:
            self._active -= 1
            self._go_on()

    # -- whose turn it is

    def _go_on(self) -> None:
        """If every branch waits, give the next outcome; if none can be, the code has diverged."""
        if self._active > 0:
            if self._next() and not self._watching:
                self._watching = True
                self._watch(0, self._beats)
        elif self._next():
            self._give()
        elif self.expected and (self._ready or self._live):
            if any(let_in() for let_in in self._doors):
                return
            self.mismatch = self.unasked.get(self._path_of[self.expected[0]], 0)
            waiting, self._ready = self._ready, []
            for _, future in waiting:
                if not future.done():
                    self.leave()
                    future.set_result(False)
            self._release_live()

    def _next(self) -> bool:
        """Whether the first outcome that is waited for may be given."""
        while self._ready and self._ready[0][1].done():
            heappop(self._ready)
        return bool(self._ready) and (not self.expected or self.expected[0] == self._ready[0][0])

    def _give(self) -> None:
        seq, future = heappop(self._ready)
        self.leave()
        future.set_result(True)
        self._took(seq)

    def _took(self, seq: int) -> None:
        if self.expected and self.expected[0] == seq:
            self.expected.popleft()
            if not self.expected:
                self._release_live()

    def _release_live(self) -> None:
        live, self._live = self._live, []
        for future in live:
            if not future.done():
                future.set_result(None)

    def _watch(self, rounds: int, beats: int) -> None:
        """An outcome could be given while a branch is active: wait until that asks for something, but not for
        ever.
        """
        if not self._next() or self.mismatch is not None:
            self._watching = False
        elif not self._active or rounds >= ROUNDS:
            self._watching = False
            self._give()
        else:
            again = rounds + 1 if beats == self._beats else 0
            asyncio.get_running_loop().call_soon(self._watch, again, self._beats)


def _outcome_seq(item: CallRecord | WaitRecord) -> int:
    if isinstance(item, WaitRecord):
        return item.closed
    return item.seq if item.settled else 0
