"""Provisional output of bodies that run in this process, for whoever follows their run here.

A chunk is never stored and promises nothing: it says which attempt of which call it comes from, and its
number there. Until that call has a receipt it may be taken back: a `Reset` says so, when the body begins
anew or when the run is claimed anew, by whatever process. A replay runs no body, so it publishes nothing.
Chunks do not cross processes; the durable events, which this file puts them between, do.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from msgspec import Struct

from perdure.agent import Call, current_call
from perdure.codec.redaction import shown
from perdure.codec.secret import KNOWN
from perdure.state import events as e

KEPT = 10_000
"""Chunks that wait for one follower, and chunks of one body that are kept while it runs; of more the oldest
are dropped, which their numbers show."""


class Chunk(Struct, frozen=True):
    """A piece of output: the `number`-th (1, 2, 3 …) of attempt `attempt` of the call at `path`.

    `position`: its place among all chunks of the run under this epoch; (epoch, position) only ever rises.
    """

    run_id: str
    epoch: int
    path: str
    attempt: int
    number: int
    value: object
    position: int = 0


class Reset(Struct, frozen=True):
    """What was heard before is void where its call has no receipt: of the call at `path`, or of every call
    if `path` is empty. `epoch`: under which it is made anew.
    """

    run_id: str
    epoch: int
    path: str = ""


Said: TypeAlias = Chunk | Reset
"""What is told between the durable events."""


class Voice:
    """What `publish` calls in the bodies of one run, while it is driven here under one epoch."""

    def __init__(self, ears: Chunks, run_id: str, epoch: int) -> None:
        self.run_id = run_id
        self.epoch = epoch
        self.speaking: dict[int, deque[Chunk]] = {}
        """What bodies that still run have said, by the identity of their `Call`."""
        self._ears = ears
        self._position = 0

    def __call__(self, value: object) -> None:
        """Say a chunk, from any thread."""
        call = current_call()
        if KNOWN.forms:
            value = shown(value)
        with self._ears.lock:
            self._position += 1
            said = self.speaking.setdefault(id(call), deque(maxlen=KEPT))
            number = said[-1].number + 1 if said else 1
            chunk = Chunk(self.run_id, self.epoch, call.path, call.attempt, number, value, self._position)
            said.append(chunk)
            self._ears.tell(chunk)

    def ended(self, call: Call) -> None:
        """Its body has ended: what counts of it comes as a durable event."""
        with self._ears.lock:
            self.speaking.pop(id(call), None)

    def so_far(self) -> list[Chunk]:
        """What is kept, in its order."""
        kept = [chunk for said in self.speaking.values() for chunk in said]
        return sorted(kept, key=lambda chunk: chunk.position)


class _Ear:
    """One follower: what it has not been given yet. Belongs to the loop in which it was made."""

    def __init__(self, so_far: list[Chunk]) -> None:
        self.waiting: deque[Said] = deque(so_far, maxlen=KEPT)
        self.heard = asyncio.Event()
        if so_far:
            self.heard.set()
        self._loop = asyncio.get_running_loop()

    def tell(self, said: Said) -> None:
        """From any thread: plain tools run in some."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._put, said)

    def _put(self, said: Said) -> None:
        self.waiting.append(said)
        self.heard.set()


class _Follower:
    """What one follower holds as provisional, and what of the news is worth telling it."""

    def __init__(self, run_id: str, heard: Chunk | None) -> None:
        self._run_id = run_id
        self._heard = (0, 0) if heard is None else (heard.epoch, heard.position)
        self._newest = self._heard[0]
        self._open: dict[str, Chunk] = {} if heard is None else {heard.path: heard}
        self._returned = heard is not None
        """It may hold more than we know of."""

    def said(self, said: Said) -> Iterator[Said]:
        """Chunks that are news, each with the reset that comes before it."""
        yield from self._claimed(said.epoch)
        if isinstance(said, Reset) or said.epoch < self._newest:
            return  # a body that outlived its lease goes on talking
        if (said.epoch, said.position) <= self._heard:
            return
        before = self._open.get(said.path)
        if before is not None and (said.attempt != before.attempt or said.number <= before.number):
            yield Reset(self._run_id, said.epoch, said.path)
        self._open[said.path] = said
        yield said

    def happened(self, event: e.Event) -> Iterator[Said]:
        """The reset that comes before a durable event, if one does."""
        yield from self._claimed(event.epoch)
        match event.body:
            case e.CallSettled(path=path, final=True):
                self._open.pop(path, None)
            case e.CallReconciled(path=path, verdict=verdict) if verdict != "not_done":
                self._open.pop(path, None)
            case _:
                pass

    def _claimed(self, epoch: int) -> Iterator[Reset]:
        if epoch <= self._newest:
            return
        self._newest = epoch
        if self._open or self._returned:
            yield Reset(self._run_id, epoch)
        self._open.clear()
        self._returned = False


class Chunks:
    """Who follows which run in this process, and who speaks in it."""

    def __init__(self) -> None:
        self.lock = Lock()
        self._ears: defaultdict[str, list[_Ear]] = defaultdict(list)
        self._voices: WeakValueDictionary[str, Voice] = WeakValueDictionary()

    def voice(self, run_id: str, epoch: int) -> Voice:
        """The voice of a run that was claimed here just now. Its followers hear of the claim."""
        voice = Voice(self, run_id, epoch)
        with self.lock:
            self._voices[run_id] = voice
            self.tell(Reset(run_id, epoch))
        return voice

    def tell(self, said: Said) -> None:
        """Let every follower of its run hear it. The caller holds the lock."""
        for ear in self._ears.get(said.run_id, ()):
            ear.tell(said)

    @contextmanager
    def _listening(self, run_id: str) -> Iterator[_Ear]:
        with self.lock:
            voice = self._voices.get(run_id)
            ear = _Ear([] if voice is None else voice.so_far())
            self._ears[run_id].append(ear)
        try:
            yield ear
        finally:
            with self.lock:
                self._ears[run_id].remove(ear)
                if not self._ears[run_id]:
                    del self._ears[run_id]

    async def between(
        self, events: AsyncIterator[e.Event], run_id: str, heard: Chunk | None = None
    ) -> AsyncIterator[e.Event | Said]:
        """The durable events, and between them what bodies say meanwhile, in the order in which it comes.

        First what bodies that still run have said so far; what came up to the chunk `heard` is left out.
        """
        follower = _Follower(run_id, heard)
        with self._listening(run_id) as ear:
            following = _next(events)
            try:
                while True:
                    hearing = asyncio.ensure_future(ear.heard.wait())
                    both: list[asyncio.Future[Any]] = [following, hearing]
                    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                    hearing.cancel()
                    ear.heard.clear()
                    while ear.waiting:
                        for said in follower.said(ear.waiting.popleft()):
                            yield said
                    if not following.done():
                        continue
                    if (event := following.result()) is None:
                        return
                    for said in follower.happened(event):
                        yield said
                    yield event
                    following = _next(events)
            finally:
                following.cancel()


def _next(events: AsyncIterator[e.Event]) -> asyncio.Future[e.Event | None]:
    return asyncio.ensure_future(anext(events, None))
