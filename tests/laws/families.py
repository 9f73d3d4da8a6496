"""A world in which runs spawn runs: the same processes, outside and people, judged as families.

Parents are cancelled, children are cancelled by themselves, children fail; a spawned run is judged like any
other, by the program that it was spawned with, and beside its parent (laws 2, 10, 16, 17 and 20).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from perdure import codec
from perdure.errors import RunEnded
from perdure.journal import history, load, verify
from perdure.state import events as e
from perdure.state.fold import fold_all
from perdure.state.record import RunRecord
from perdure.store.protocol import Message, Query
from perdure.testing.account import misread
from perdure.testing.kin import kin_offences
from perdure.testing.oracle import offences
from tests.laws.programs import expected, fails
from tests.laws.world import World


class FamilyWorld(World):
    """A world of families; without budgets, which have worlds of their own."""

    budgets = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ends: dict[str, int] = {}
        """How many runs ended how."""

    async def annoy(self) -> None:
        """Cancel parents as ever, and now and then a child that nobody else cancels."""
        await super().annoy()
        while not self._over and self.chances.cancel:
            await asyncio.sleep(self.chance.choice((0.5, 2.0)))
            children = [row for row in await self.store.list(Query(open_only=True)) if row.parent]
            if children and self._unlucky(self.chances.cancel / 4):
                await self._cancel(self.chance.choice(children).run_id)

    async def _cancel(self, run_id: str) -> None:
        message = Message(run_id, f"cancel-{run_id}", "cancel", codec.encode({"by": "bob"}))
        try:
            await self.store.deliver(message)
        except RunEnded:
            return
        self.cancelled.add(run_id)
        self.cancel_accepted.add(run_id)

    async def judge(self) -> list[str]:
        """Every run by itself, and each beside its kin."""
        found: list[str] = []
        family = {row.run_id: await history(self.store, row.run_id) for row in await self.store.list(Query())}
        records = {run_id: (await load(self.store, run_id)).record for run_id in family}
        for run_id, events in family.items():
            record = records[run_id]
            said = offences(events, [act for act in self.acts if act.run_id == run_id])
            said += misread(events, record)
            checked = await verify(self.store, run_id)
            if not checked.ok:
                said.append(checked.what)
            if fold_all(RunRecord(), events, codec.decode) != record:
                said.append("the snapshot and the events after it give another run than all events")
            said += self._ended(run_id, record, records)
            self.ends[record.ended or "open"] = self.ends.get(record.ended or "open", 0) + 1
            found += [f"seed {self.seed}, {run_id}: {what}" for what in said]
        said = [*kin_offences(family), *self._outlived(family), *self._rows_moved(), *self._acted_late()]
        return found + [f"seed {self.seed}: {what}" for what in said]

    def _ended(self, run_id: str, record: RunRecord, records: dict[str, RunRecord]) -> Iterator[str]:
        program = codec.decode(record.goal)
        log, due = record.state["log"], expected(program)
        if record.ended == "cancelled":
            if not self._may_be_cancelled(run_id, records):
                yield "it was cancelled, and nobody asked for it"
            due = due[: len(log)]
        elif record.ended != ("failed" if fails(program) else "succeeded"):
            yield f"it ended as {record.ended}"
        if not self._alike(log, due):
            yield f"the log is {log}, not {due}"

    def _outlived(self, family: dict[str, list[e.Event]]) -> Iterator[str]:
        """A parent ends after its children: here all is written by one clock."""
        for run_id, events in family.items():
            first = events[0].body
            parent = family.get(first.parent or "") if isinstance(first, e.RunStarted) else None
            if parent and parent[-1].at < events[-1].at:
                yield f"{first.parent} has ended before its child {run_id}"  # type: ignore[union-attr]

    def _may_be_cancelled(self, run_id: str, records: dict[str, RunRecord]) -> bool:
        at: str | None = run_id
        while at is not None:
            if at in self.cancelled:
                return True
            at = records[at].parent if at in records else None
        return False

    def _alike(self, log: Any, due: Any) -> bool:
        """A child that was cancelled by itself has no result."""
        if isinstance(log, list) and isinstance(due, list):
            return len(log) == len(due) and all(map(self._alike, log, due))
        if log == "child cancelled":
            return bool(self.cancelled) and (isinstance(due, int) or due == "child failed")
        return bool(log == due)
