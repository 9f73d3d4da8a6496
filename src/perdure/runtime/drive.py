"""One run that this process drives: what its calls and steps need, in one place.

Also the one door of messages into a live run: `apply_inbox` turns them into events, each taken once and in
the commit that records it (laws 10 and 17).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn
from weakref import WeakValueDictionary

from msgspec import Struct, field

from perdure.agent import Agent, Principal, Providers, Tool
from perdure.clock import Clock
from perdure.codec.secret import Resolver
from perdure.errors import LeaseLost
from perdure.journal import Journal, Lingering, resolve, retold
from perdure.journal.outlast import outlast
from perdure.runtime import strays
from perdure.runtime.boundary import reached
from perdure.runtime.chunks import Chunks, Voice
from perdure.runtime.leases import Leases
from perdure.runtime.limits import Limits
from perdure.runtime.listening import Ears
from perdure.runtime.messages import conflict, late_of, made_again, message_events
from perdure.runtime.purse import Purse
from perdure.runtime.resolved import by_types, misfit
from perdure.runtime.tree import LiveState
from perdure.runtime.vaults import from_child
from perdure.state import events as e
from perdure.state.fold import recorded_values
from perdure.state.record import CallRecord, RunRecord
from perdure.store.protocol import Inbound, Store

GLANCE_SECONDS = 1.0
"""A live run that writes nothing looks for messages this often."""


class Host(Struct, eq=False):
    """What the runs of one process share. `known`: the agents that this process has come across, by name.

    `secrets`: where the values of Secrets come from; None is the environment.
    """

    store: Store
    clock: Clock
    leases: Leases
    limits: Limits
    providers: Providers
    threads: ThreadPoolExecutor
    known: dict[str, Agent[Any, Any, Any]] = {}
    chunks: Chunks = field(default_factory=Chunks)
    secrets: Resolver | None = None
    lingering: Lingering = field(default_factory=Lingering)

    @property
    def worker(self) -> str:
        """The incarnation that this process is; another one in a forked child."""
        return self.leases.worker


class Drive(Struct, eq=False):
    """One claimed run. `inbox_seen` is the position up to which its messages were read.

    `stopping`: this process is to do nothing more for it. `draining`: set once no call is to begin any more;
    `rest` is called when one would, and none that has begun is still going on. `reading`: the facts that are
    being read for calls that rest on them. `ears`: who listens, None if nobody does.
    """

    host: Host
    agent: Agent[Any, Any, Any]
    run_id: str
    journal: Journal
    live: LiveState[Any]
    principal: Principal | None
    inbox_seen: int
    died_at: int
    check: bool = False
    stopping: bool = False
    draining: asyncio.Event | None = None
    rest: Callable[[], None] | None = None
    acts: int = 0
    resting: int = 0
    publish: Voice | None = None
    ears: Ears | None = None
    purse: Purse = field(default_factory=Purse)
    reading: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    _looked: float = 0.0
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self._looked = self.host.clock.monotonic()
        strays.watch(self.journal)

    @property
    def record(self) -> RunRecord:
        """The run as folded so far."""
        return self.journal.record

    def has_not_looked(self) -> bool:
        """Whether a message has come, or may have: each write tells, and for a run that writes nothing the
        last look into the inbox was some time ago.
        """
        journal = self.journal
        if journal.inbox <= self.inbox_seen:
            due = self.host.clock.monotonic() - GLANCE_SECONDS
            return journal.heard <= due and self._looked <= due and not self.stopping
        return not self.stopping

    async def glance(self) -> None:
        """Look into the inbox if something may be there."""
        if self.has_not_looked():
            await self.read_inbox()

    async def read_inbox(self) -> None:
        """Fetch and apply what has come since the last look."""
        self._looked, told = self.host.clock.monotonic(), self.journal.inbox
        await self.apply_inbox(await self.host.store.inbox(self.run_id, self.inbox_seen))
        self.inbox_seen = max(self.inbox_seen, told)  # all of these were read now, or taken before

    async def apply_inbox(self, messages: Sequence[Inbound]) -> None:
        """Turn each message into events, once, though several branches may have fetched it."""
        async with self._reading:
            for message in messages:
                if message.position > self.inbox_seen:
                    reached("inbox.apply")
                    await self._apply(message)

    async def _apply(self, message: Inbound) -> None:
        more: tuple[e.AnyBody, ...] = ()
        message = by_types(self.agent, self.record, await from_child(self.host.store, message))
        if message.kind == "late" and (held := await self._conflict(late_of(message.data).receipt)):
            more = (held,)

        def decide(record: RunRecord) -> tuple[e.AnyBody, ...]:
            if message.kind == "resolve" and (held := misfit(self.agent, record, message, self.run_id)):
                return (held,)
            return (*message_events(record, message, self.run_id), *more)

        appended = asyncio.ensure_future(self.journal.decide(decide, taken=(message.position,)))
        cancelled = await outlast(appended)
        # Only now has it been seen: whoever rests on that must find in the record what the message meant.
        self.inbox_seen = message.position
        appended.result()
        if cancelled is not None:
            raise cancelled

    async def _conflict(self, receipt: e.CallSettled) -> e.RunHeld | None:
        """A late result of an earlier step, whose act was made again: only the history knows it."""
        if receipt.outcome != "done" or receipt.path in self.record.calls:
            return None
        name = made_again((await retold(self.host.store, self.run_id)).events, receipt)
        return None if name is None else conflict(self.run_id, receipt, name, "it was made again")

    async def rests(self) -> NoReturn:
        """A call that is not to begin any more waits here until its run is left."""
        self.resting += 1
        self._look_whether_all_rest()
        while True:
            await asyncio.Event().wait()

    def end_act(self) -> None:
        """A call that had begun has ended, and what it came to is on its way to the journal."""
        self.acts -= 1
        if self.resting:
            self._look_whether_all_rest()

    def _look_whether_all_rest(self) -> None:
        if not self.acts and self.rest is not None:
            self.rest()

    async def lease_outlasts(self, seconds: float) -> None:
        """Extend the lease until it covers an act of `seconds`.

        Raises LeaseLost: then nothing may be acted.
        """
        if not await self.host.leases.cover(self.run_id, seconds):
            raise LeaseLost(f"run {self.run_id} is owned by another worker")

    def model_of(self, tool: Tool[..., Any]) -> str:
        """The model that a declared model function calls in this run: a fork may have been given another."""
        models = self.journal.record.models
        return models.get(tool.name, tool.model_name) if models else tool.model_name

    def arguments(self, call: CallRecord) -> dict[str, Any]:
        """A recorded call's arguments as plain data."""
        values = recorded_values(self.record)
        return {name: resolve(self.record.state, value, values) for name, value in call.args}
