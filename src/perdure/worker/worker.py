"""Find work, hold the lease, drive, let go.

A worker claims open runs of the agents that it serves and drives each in a task. Waiting runs cost it
nothing: it asks the store when the next one is due and sleeps until then or until something changes. Recovery
is this ordinary claim, a standing scan, never a pass of its own (law 20). Its agents take turns, so that many
runs of one do not keep another's waiting.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from perdure.agent import Agent
from perdure.clock import SECOND
from perdure.errors import BadSetting, PerdureError, StoreError
from perdure.recovery.deploys import RunKey
from perdure.runtime.drive import Host
from perdure.runtime.leases import FENCE
from perdure.runtime.manifest import carrier_of, key_of
from perdure.runtime.runner import drive
from perdure.store.protocol import Claim, Claimed
from perdure.worker.left import Left, left_open
from perdure.worker.serving import Serving

log = logging.getLogger("perdure.worker")

LEAVE_SECONDS = 5.0
"""A run that was told to stop at once gets so long to write what it knows, and to give its lease back.

So long, too, the store has for a claim that is under way, and to tell what was left.
"""

DEFAULT = Serving()
"""How a worker serves that was told nothing."""

RETRY_SECONDS = 0.1
"""How long a run rests after its drive failed; twice as long each time it fails again, up to SCAN_SECONDS."""

SCAN_SECONDS = 2.0
"""A worker looks for lapsed leases this often, whatever it was told to wait for."""

IDLE_SECONDS = 10.0
"""One that has had nothing to do for so long looks only this often: what changes wakes it."""

CLAIM_SECONDS = 0.02
"""After a claim that got nothing the next one comes no sooner, however much is written to the store."""


class Worker:
    """Drives runs of these agents, as `serving` says, until `stop` is called."""

    def __init__(
        self,
        host: Host,
        agents: Sequence[Agent[Any, Any, Any]],
        serving: Serving = DEFAULT,
        *,
        check: bool = False,
    ) -> None:
        if not agents:
            raise BadSetting("a worker serves at least one agent")
        self.host = host
        self.agents: Mapping[str, Agent[Any, Any, Any]] = {agent.name: agent for agent in agents}
        self.serving = serving
        self.check = check
        self.drain_seconds = serving.grace.total_seconds()
        self.left: tuple[Left, ...] = ()
        """The runs that were left in the middle of a call when it ended."""
        self.cut = 0
        """How many of its runs had not come to an end when the grace was over."""
        self.stuck = 0
        """How many of its runs could not be left in time: a thread does not end, or the store is away."""
        self._carriers = {name: carrier_of(agent) for name, agent in self.agents.items()}
        self._limits = {name: agent.limit for name, agent in self.agents.items() if agent.limit is not None}
        self._turns = list(self.agents)  # whose turn it is, where two agents have as many runs here
        self._busy: Counter[str] = Counter()
        self._served: dict[str, frozenset[str]] = {}
        self._refused: set[tuple[str, str]] = set()
        self._looked = -SCAN_SECONDS
        self._claimed_at = -SCAN_SECONDS
        self._worked_at = -SCAN_SECONDS
        self._drives: set[asyncio.Task[None]] = set()
        self._driven: dict[str, asyncio.Task[None] | None] = {}  # the last drive of a run that goes on here
        self._rests: dict[str, float] = {}  # of runs whose last drive failed here
        self._stopping = asyncio.Event()
        self._freed = asyncio.Event()
        self._counts = {"claimed": 0, "driven": 0, "failed": 0}
        self._answered = host.clock.monotonic()
        self._store_error = ""
        self._ended = False

    def facts(self) -> dict[str, Any]:
        """What it counts now; any thread may ask. Seconds are by the monotonic clock."""
        leases = self.host.leases
        oldest = leases.oldest_beat()
        return {
            "worker": self.host.worker,
            "agents": sorted(self.agents),
            "queues": sorted(self.serving.queues),
            "tags": sorted(self.serving.tags),
            "concurrency": self.serving.concurrency,
            "running": len(self._drives),
            **self._counts,
            "leases": leases.held,
            "leases_lost": leases.lost,
            "oldest_heartbeat_seconds": round(oldest, 3),
            "fenced": oldest >= leases.seconds * (1 - FENCE),
            "loop_seconds": round(leases.stands, 3),
            "store_seconds": round(self.host.clock.monotonic() - self._answered, 3),
            "store_error": self._store_error,
            "draining": self._stopping.is_set(),
            "ended": self._ended,
        }

    async def run(self) -> None:
        """Claim and drive until stopped; then let the calls that were made end, and give the leases back.

        However it ends, cancelled or by a fault, no drive is left behind.
        """
        self.host.leases.watch()
        scanning = asyncio.create_task(self._scan(), name=f"scan of {self.host.worker}")
        try:
            await self._until_stopped(scanning)
            await self._drain(scanning)
        finally:
            scanning.cancel()
            await asyncio.wait([scanning])
            await self._leave()

    async def _until_stopped(self, scanning: asyncio.Task[None]) -> None:
        """Return once it is told to stop. Raises what ended the scan before."""
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait([scanning, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
        if scanning.done():
            scanning.result()

    async def _drain(self, scanning: asyncio.Task[None]) -> None:
        """Let what has begun end within the grace; a store that is away is waited for no longer."""
        since = self.host.clock.monotonic()
        await asyncio.wait([scanning], timeout=LEAVE_SECONDS)
        if scanning.done():
            scanning.result()
        if self._drives:
            left = self.drain_seconds - (self.host.clock.monotonic() - since)
            await asyncio.wait(self._drives, timeout=max(left, 0.0))

    async def _scan(self) -> None:
        seen = 0
        while not self._stopping.is_set():
            try:
                claimed = await self._claim()
                if not claimed:
                    seen = await self._idle(seen)
                self._answered, self._store_error = self.host.clock.monotonic(), ""
            except StoreError as error:
                self._store_error = error.what
                log.error("the store failed, trying again: %s", error)
                await self._sleep(SCAN_SECONDS)

    def stop(self) -> None:
        """Claim nothing more."""
        self._stopping.set()
        self._freed.set()

    async def _claim(self) -> bool:
        free = self.serving.concurrency - len(self._drives)
        if free <= 0:
            self._freed.clear()
            await self._freed.wait()
            return True
        since = self.host.clock.monotonic()
        if since - self._looked >= SCAN_SECONDS:
            await self._look_at_versions()
        self._claimed_at = since
        claimed = await self.host.store.claim(self._asked(free))
        for one in claimed:
            agent = one.row.agent
            self._busy[agent] += 1
            self._turns.remove(agent)
            self._turns.append(agent)
            task = asyncio.create_task(self._drive(one, since))
            self._drives.add(task)
            task.add_done_callback(partial(self._over, agent))
        if claimed:
            self._counts["claimed"] += len(claimed)
            self._worked_at = since
        return bool(claimed)

    def _asked(self, limit: int) -> Claim:
        return Claim(
            self.host.worker,
            self.host.leases.seconds,
            {name: self._served[name] for name in self._turns},
            limit=limit,
            queues=frozenset(self.serving.queues),
            tags=frozenset(self.serving.tags),
            limits=self._limits,
            busy=self._busy,
        )

    def _over(self, agent: str, task: asyncio.Task[None]) -> None:
        self._drives.discard(task)
        self._busy[agent] -= 1
        self._counts["driven"] += 1
        self._worked_at = self.host.clock.monotonic()
        self._freed.set()

    async def _drive(self, claimed: Claimed, since: float) -> None:
        run_id, mine = claimed.row.run_id, asyncio.current_task()
        before, self._driven[run_id] = self._driven.get(run_id), mine
        try:
            if before is not None:  # it has given the lease back, and may not have told yet that it failed
                await self._keep(claimed, asyncio.wait([before]))
            rest = self._rests.pop(run_id, 0.0)
            if rest:
                await self._keep(claimed, self._sleep(rest))
            await self._try(claimed, since, rest)
        finally:
            if self._driven[run_id] is mine:
                del self._driven[run_id]

    async def _try(self, claimed: Claimed, since: float, rest: float) -> None:
        run_id = claimed.row.run_id
        try:
            agent = self.agents[claimed.row.agent]
            await drive(self.host, agent, claimed, since, check=self.check, draining=self._stopping)
            return
        except PerdureError as error:
            log.error("run %s: %s", run_id, error)
        except Exception:
            log.exception("run %s: the engine failed; its lease lapses and the run is claimed again", run_id)
        self._counts["failed"] += 1
        self._rests[run_id] = min(max(2 * rest, RETRY_SECONDS), SCAN_SECONDS, self.host.leases.seconds / 4)

    async def _keep(self, claimed: Claimed, until: Coroutine[Any, Any, object]) -> None:
        """Keep the lease of a run that is not driven yet; one that failed is not tried as fast as a store can
        claim.
        """
        try:
            await until
        except asyncio.CancelledError:
            await asyncio.shield(self.host.store.release(claimed.row.run_id, claimed.row.epoch))
            raise

    async def _look_at_versions(self) -> bool:
        """Which runs this code carries on, of those that are there. True: there are others than before.

        What it does not carry on it never claims (law 11); that is told once.
        """
        found = await self.host.store.versions(list(self.agents))
        self._looked = self.host.clock.monotonic()
        served = {}
        for name, agent in self.agents.items():
            carrier, own = self._carriers[name], key_of(agent)
            refusals = {version: carrier.refusal(RunKey.read(version)) for version in found[name]}
            carried = {version for version, why in refusals.items() if not why}
            served[name] = frozenset({*carried, str(own), str(replace(own, pinned=not own.pinned))})
            for version, why in refusals.items():
                if why and (name, version) not in self._refused:
                    self._refused.add((name, version))
                    log.warning("runs of %s on %s are not carried on here: %s", name, version, why)
        before, self._served = self._served, served
        return before != served

    async def _idle(self, seen: int) -> int:
        if await self._look_at_versions():
            return seen
        due_in = (await self.host.store.due(self._asked(1)) - self.host.store.now()) / SECOND
        now = self.host.clock.monotonic()
        idle = not self._drives and now - self._worked_at >= IDLE_SECONDS
        seen = await self._changed(seen, min(max(due_in, 0.01), IDLE_SECONDS if idle else SCAN_SECONDS))
        if (early := self._claimed_at + CLAIM_SECONDS - self.host.clock.monotonic()) > 0:
            await self._sleep(early)
        return seen

    async def _changed(self, seen: int, seconds: float) -> int:
        waiting = asyncio.ensure_future(self.host.store.changed(seen, seconds))
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait([waiting, stopping], return_when=asyncio.FIRST_COMPLETED)
        for task in (waiting, stopping):
            if not task.done():
                task.cancel()
        await asyncio.wait([waiting, stopping])
        return waiting.result() if not waiting.cancelled() else seen

    async def _sleep(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return

    async def _leave(self) -> None:
        """Leave the calls that have not ended in time: their runs keep what they recorded."""
        running = [run_id for run_id, task in self._driven.items() if task in self._drives]
        self.cut = len(self._drives)
        for task in self._drives:
            task.cancel()
        if self._drives:
            _, stuck = await asyncio.wait(self._drives, timeout=LEAVE_SECONDS)
            self.stuck = len(stuck)
            if stuck:
                log.error(
                    "%d runs are left as they are: code does not stop, or the store is away", self.stuck
                )
        self._ended = True
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                self.left = await left_open(self.host.store, running)
        except TimeoutError:
            self.left = tuple(Left(run_id, ()) for run_id in running)
