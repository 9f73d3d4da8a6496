"""Every run of a list, however many pages it has."""

from __future__ import annotations

import pytest

from perdure.store import MemoryStore, pages
from perdure.store.protocol import Query, RunRow
from perdure.testing.contract.trial import new_run


class Counting(MemoryStore):
    """A store that counts how often it is asked for a page."""

    asked = 0

    async def list(self, query: Query) -> tuple[RunRow, ...]:
        self.asked += 1
        return await super().list(query)


@pytest.mark.parametrize(("runs", "asked"), [(0, 1), (1, 1), (2, 2), (3, 2), (5, 3)])
async def test_each_run_comes_once_and_the_newest_first(
    monkeypatch: pytest.MonkeyPatch, runs: int, asked: int
) -> None:
    monkeypatch.setattr(pages, "PAGE", 2)
    store = Counting()
    await store.open()
    for number in range(runs):
        await store.create(new_run(f"r-{number}"))
    wanted = Query(prefix="r-", limit=1, before=(0, ""))
    found = [row.run_id async for row in pages.every(store, wanted)]
    assert found == [row.run_id for row in await store.list(Query())]
    assert store.asked == asked + 1
